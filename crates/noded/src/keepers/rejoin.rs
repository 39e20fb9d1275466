//! Keepers that lived before this daemon: until they have said hello it does not know which processes are held.
//!
//! From: `noded/src/state/node.rs`, at the start. A new tree waits for them (`noded/src/control/session.rs`): its process, or one
//! that it descends from, may be theirs, and of two keepers each would take the other for a debugger.

use crate::process::started;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// As keepers call themselves (`keeper/src/sys.rs`).
const NAME: &str = "armento-keeper";
/// The longest wait of a new tree: some of them may be another daemon's. Less than a keeper waits for its answer.
const WAIT_MAX: Duration = Duration::from_secs(4);

pub struct Rejoin {
    /// Pid, and when it began.
    keepers: BTreeMap<i32, u64>,
    until: Instant,
}

impl Rejoin {
    pub fn look() -> Rejoin {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = all.filter_map(|p| p.file_name().to_str()?.parse().ok());
        let ours = pids.filter(|pid| is_keeper(*pid));
        Rejoin {
            keepers: ours.filter_map(|pid| Some((pid, started(pid)?))).collect(),
            until: Instant::now() + WAIT_MAX,
        }
    }

    /// It said hello.
    pub fn came(&mut self, pid: i32) {
        self.keepers.remove(&pid);
    }

    /// Whether a new tree has to wait for them.
    pub fn any(&mut self) -> bool {
        if Instant::now() >= self.until {
            self.keepers.clear();
        }
        self.keepers
            .retain(|pid, since| started(*pid) == Some(*since));
        !self.keepers.is_empty()
    }
}

/// Those of other namespaces are of other daemons.
fn is_keeper(pid: i32) -> bool {
    let of = Path::new("/proc").join(pid.to_string());
    let name = fs::read_to_string(of.join("comm"));
    let space = |of: &Path| fs::read_link(of.join("ns/pid")).ok();
    name.is_ok_and(|n| n.trim_end() == NAME)
        && space(&of).is_some_and(|s| Some(s) == space(Path::new("/proc/self")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepers_that_said_hello_or_ended_are_not_waited_for() {
        let me = std::process::id() as i32;
        let mut rejoin = Rejoin {
            keepers: BTreeMap::from([(me, started(me).expect("it runs")), (i32::MAX, 1)]),
            until: Instant::now() + WAIT_MAX,
        };
        assert!(rejoin.any());
        assert_eq!(rejoin.keepers.len(), 1);
        rejoin.came(me);
        assert!(!rejoin.any());
    }

    #[test]
    fn the_wait_has_an_end() {
        let me = std::process::id() as i32;
        let mut rejoin = Rejoin {
            keepers: BTreeMap::from([(me, started(me).expect("it runs"))]),
            until: Instant::now(),
        };
        assert!(!rejoin.any());
    }
}
