//! Whether this node sends its guests away and takes no new ones: it leaves the farm, does not trust their home any more,
//! or its user has switched it so.
//!
//! From: `host/src/home/daemon.rs` (the daemon's order). Home decides when each guest goes.

use crate::sync::lock;
use armento_model::Stay;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long an arrival waits for the word that guests may come again: it goes to its home and to this node at the same
/// time, by two ways.
const REOPENS: Duration = Duration::from_millis(200);

/// Until when, and why.
#[derive(Default)]
pub struct Drain {
    until: Mutex<Option<(Instant, Stay, String)>>,
    changed: Condvar,
}

impl Drain {
    /// Why guests are sent away just now, if they are.
    pub fn why(&self) -> Option<(Stay, String)> {
        let (_, stay, why) = lock(&self.until).clone().filter(is_ahead)?;
        Some((stay, why))
    }

    /// The same for an arrival, which waits a moment for the end of the drain.
    pub fn refuses(&self) -> Option<(Stay, String)> {
        let closed = |until: &mut Option<_>| until.as_ref().is_some_and(is_ahead);
        let until = lock(&self.until);
        drop(self.changed.wait_timeout_while(until, REOPENS, closed));
        self.why()
    }

    /// Guests may come again at `until`.
    pub fn set(&self, until: Instant, stay: Stay, why: String) {
        *lock(&self.until) = Some((until, stay, why));
        self.changed.notify_all();
    }
}

fn is_ahead((until, ..): &(Instant, Stay, String)) -> bool {
    Instant::now() < *until
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrival_waits_for_the_end_of_a_drain() {
        let drain = Drain::default();
        assert_eq!((drain.why(), drain.refuses()), (None, None));
        let hour = Instant::now() + Duration::from_secs(3600);
        drain.set(hour, Stay::SwitchedOff, "drain".into());
        let no = Some((Stay::SwitchedOff, "drain".into()));
        assert_eq!((drain.why(), drain.refuses()), (no.clone(), no));
        std::thread::scope(|s| {
            let arrival = s.spawn(|| drain.refuses());
            drain.set(Instant::now(), Stay::NotTrusted, String::new());
            assert_eq!(arrival.join().expect("an arrival"), None);
        });
    }
}
