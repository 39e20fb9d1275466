//! How much CPU time programs have used: what the next run of one of them will probably use.
//!
//! A compiler's driver, `mkdir` or a shell use a few milliseconds, less than it costs to start them on another node.

use std::collections::HashMap;

/// Programs that are remembered; the one that ended longest ago is forgotten first.
const PROGRAMS_MAX: usize = 1024;
/// An estimate rises at once and falls slowly, by this share of the difference: a program that now and then computes for
/// long is worth a place of its own.
const FALL_EIGHTHS: u64 = 2;

#[derive(Clone, Copy, Debug)]
struct Known {
    us: u64,
    /// Counts the ends of programs.
    at: u64,
}

/// By user and file of the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durations {
    known: HashMap<(u32, String), Known>,
    count: u64,
}

impl Durations {
    pub fn ended(&mut self, uid: u32, program: &str, cpu_ms: u64) {
        self.count += 1;
        let at = self.count;
        let us = cpu_ms.saturating_mul(1000);
        if let Some(known) = self.known.get_mut(&(uid, program.to_owned())) {
            let fallen = known.us - known.us.saturating_sub(us) * FALL_EIGHTHS / 8;
            *known = Known {
                us: us.max(fallen),
                at,
            };
            return;
        }
        if self.known.len() >= PROGRAMS_MAX {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.at);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                self.known.remove(&key);
            }
        }
        self.known
            .insert((uid, program.to_owned()), Known { us, at });
    }

    /// Milliseconds.
    pub fn expected_ms(&self, uid: u32, program: &str) -> Option<u64> {
        let known = self.known.get(&(uid, program.to_owned()))?;
        Some(known.us / 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_rises_at_once_and_falls_slowly() {
        let mut d = Durations::default();
        assert_eq!(d.expected_ms(1, "/bin/cc"), None);
        d.ended(1, "/bin/cc", 4);
        assert_eq!(d.expected_ms(1, "/bin/cc"), Some(4));
        assert_eq!(d.expected_ms(2, "/bin/cc"), None, "another user's");
        d.ended(1, "/bin/cc", 400);
        assert_eq!(d.expected_ms(1, "/bin/cc"), Some(400));
        d.ended(1, "/bin/cc", 4);
        assert_eq!(d.expected_ms(1, "/bin/cc"), Some(301));
        (0..20).for_each(|_| d.ended(1, "/bin/cc", 4));
        assert!(d.expected_ms(1, "/bin/cc") < Some(10));
    }

    #[test]
    fn the_programs_that_are_remembered_are_bounded() {
        let mut d = Durations::default();
        for i in 0..=PROGRAMS_MAX {
            d.ended(1, &i.to_string(), 1);
        }
        assert_eq!(d.known.len(), PROGRAMS_MAX);
        assert_eq!(d.expected_ms(1, "0"), None);
        assert_eq!(d.expected_ms(1, "1"), Some(1));
    }
}
