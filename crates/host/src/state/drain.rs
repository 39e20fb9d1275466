//! This node sends its guests away, and nobody comes: it leaves, does not trust their home any more, or somebody has
//! switched it so.
//!
//! From: `report.rs` (the daemon's order). Home decides when each goes.

use crate::state::guests::Zoo;
use crate::state::shared::{Shared, lock};
use armento_model::{Pid, Stay};
use armento_wire::talk::ToHome;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long who comes waits for the word that guests may come again: it goes to his home and to us at the same time, by
/// two ways.
const OPENS: Duration = Duration::from_millis(200);

/// Until when, and why.
#[derive(Default)]
pub struct Shut {
    until: Mutex<Option<(Instant, Stay, String)>>,
    changed: Condvar,
}

impl Shut {
    /// Why guests are sent away just now, if they are.
    pub fn why(&self) -> Option<(Stay, String)> {
        let (_, stay, why) = lock(&self.until).clone().filter(is_ahead)?;
        Some((stay, why))
    }

    /// The same for one who comes.
    pub fn stays(&self) -> Option<(Stay, String)> {
        let closed = |until: &mut Option<_>| until.as_ref().is_some_and(is_ahead);
        let until = lock(&self.until);
        drop(self.changed.wait_timeout_while(until, OPENS, closed));
        self.why()
    }

    fn set(&self, until: Instant, stay: Stay, why: String) {
        *lock(&self.until) = Some((until, stay, why));
        self.changed.notify_all();
    }
}

fn is_ahead((until, ..): &(Instant, Stay, String)) -> bool {
    Instant::now() < *until
}

/// Every guest is to go home, and nobody to come until then; a moment that is over opens again.
pub fn expel(zoo: &mut Zoo, until: Instant, (stay, why): (Stay, String)) {
    let sh = zoo.sh();
    let why = if why.is_empty() {
        "the node where it ran leaves the farm".into()
    } else {
        why
    };
    sh.shut.set(until, stay, why);
    for b in zoo.bodies.values().filter(|b| !b.quiet) {
        send_home(&sh, b.pid);
    }
}

/// Asks home to fetch it, if it may not be here any longer.
pub fn send_home(sh: &Shared, pid: Pid) {
    let Some((stay, why)) = sh.shut.why() else {
        return;
    };
    sh.tell(&ToHome::ComeHome {
        pid,
        tid: pid,
        stay,
        why,
        about: None,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_hears_that_it_opens() {
        let shut = Shut::default();
        assert_eq!((shut.why(), shut.stays()), (None, None));
        let hour = Instant::now() + Duration::from_secs(3600);
        shut.set(hour, Stay::SwitchedOff, "drain".into());
        let no = Some((Stay::SwitchedOff, "drain".into()));
        assert_eq!((shut.why(), shut.stays()), (no.clone(), no));
        std::thread::scope(|s| {
            let comes = s.spawn(|| shut.stays());
            shut.set(Instant::now(), Stay::NotTrusted, String::new());
            assert_eq!(comes.join().expect("it waits"), None);
        });
    }
}
