//! Numbers of the files below `.proc`. A file is known by its path: its number is made from that, and the table of them is
//! as large as what the kernel knows.

use crate::sync::lock;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

/// Numbers of its files, from here on: the table of other files never comes so far.
const FIRST: u64 = 1 << 62;

/// Paths by number, and how often the kernel has looked each up.
#[derive(Default)]
pub struct Paths(Mutex<HashMap<u64, (String, u64)>>);

pub fn is_shown(n: u64) -> bool {
    n >= FIRST
}

fn number(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    FIRST | hasher.finish() >> 2
}

impl Paths {
    pub fn known(&self, n: u64) -> Option<String> {
        lock(&self.0).get(&n).map(|(path, _)| path.clone())
    }

    pub fn looked_up(&self, path: String) -> u64 {
        let n = number(&path);
        lock(&self.0).entry(n).or_insert((path, 0)).1 += 1;
        n
    }

    /// The kernel forgets it, so many times.
    pub fn forget(&self, n: u64, times: u64) {
        let mut all = lock(&self.0);
        if let Some((_, count)) = all.get_mut(&n) {
            *count = count.saturating_sub(times);
            if *count == 0 {
                all.remove(&n);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_forgotten_when_the_kernel_forgets_them() {
        let paths = Paths::default();
        let n = paths.looked_up("/hpc".into());
        assert_eq!(paths.looked_up("/hpc".into()), n);
        assert!(is_shown(n) && paths.known(n).as_deref() == Some("/hpc"));
        paths.forget(n, 1);
        assert!(paths.known(n).is_some());
        paths.forget(n, 5);
        assert!(paths.known(n).is_none());
        assert_ne!(number("/hpc"), number("/hpd"));
    }
}
