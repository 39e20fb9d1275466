//! What is kept of a process so that it can go on when the node of its body is lost.
//!
//! From: `process.rs`. Next: `keeper/src/safe/mod.rs`, which makes checkpoints and builds bodies from them.

use crate::record::{BYTES_MAX, CallId, Record};
use armento_client::api::SafeWish;
use armento_migrate::pages::PageStore;
use armento_migrate::stored::Image;
use armento_model::{MoveId, Pid, Tid};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A checkpoint that is due at once comes no sooner than this after the one before …
const GAP_MIN: Duration = Duration::from_millis(500);
/// … and no sooner than so many times as long as that took: a program that leaves gaps all the time spends a tenth of its
/// time on checkpoints, not all of it.
const REST: u32 = 10;

/// One that was refused is tried again after twice as long each time: after half a minute at most.
const FAILURES_MAX: u32 = 6;

/// Calls before which the threads of a checkpoint stood.
pub type Covered = HashMap<Tid, CallId>;

/// What is kept of the body: everything but its pages, and its pages.
#[derive(Clone)]
pub struct Kept {
    pub image: Arc<Image>,
    pub pages: Arc<Mutex<PageStore>>,
    /// What they take here.
    pub bytes: u64,
}

/// How a tree is to go on when a node is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Safety {
    /// So often a checkpoint is made of each process.
    pub every: Duration,
    /// Nothing leaves a process before a checkpoint covers it.
    pub exact: bool,
    /// So often a checkpoint of the whole tree is sent to another node, in case home is lost.
    pub remote: Option<Duration>,
}

impl Safety {
    pub fn of_wish(wish: SafeWish) -> Safety {
        Safety {
            every: Duration::from_secs(wish.every_s),
            exact: wish.exact,
            remote: wish.remote_s.map(Duration::from_secs),
        }
    }

    pub fn wish(self) -> SafeWish {
        SafeWish {
            every_s: self.every.as_secs(),
            exact: self.exact,
            remote_s: self.remote.map(|every| every.as_secs()),
        }
    }
}

/// Processes that share memory, whose checkpoints are of one moment: none of them can be built again without the others.
#[derive(Debug)]
pub struct Moment {
    pub members: Vec<Pid>,
}

pub struct Safe {
    every: Duration,
    pub record: Arc<Record>,
    image: Option<Arc<Image>>,
    pages: Option<Arc<Mutex<PageStore>>>,
    /// What they take here: their lock is held for long while a body is built from them.
    kept_bytes: u64,
    /// The move that brought it, if another can be put upon it.
    by: Option<MoveId>,
    /// With which others it was made.
    moment: Option<Arc<Moment>>,
    /// When the last checkpoint was begun, and how long it took.
    begun: Option<Instant>,
    took: Duration,
    /// How long the program stood still for the last one.
    pub pause: Duration,
    /// A checkpoint is being made; ends its connection.
    under_way: Option<Option<TcpStream>>,
    /// Why the last one could not be made, and how many before it could not either.
    refused: Option<String>,
    failures: u32,
    /// Its node was lost, and it is not running elsewhere yet.
    recovering: bool,
}

impl Safe {
    pub fn new(how: Safety) -> Safe {
        Safe {
            every: how.every,
            record: Arc::new(Record::new(how.exact)),
            image: None,
            pages: None,
            kept_bytes: 0,
            by: None,
            moment: None,
            begun: None,
            took: Duration::ZERO,
            pause: Duration::ZERO,
            under_way: None,
            refused: None,
            failures: 0,
            recovering: false,
        }
    }

    /// Whether a checkpoint is to be made now. `storm`: the sooner, the better. Before: its body is on another node.
    pub fn is_due(&self, storm: bool) -> bool {
        if !self.can() {
            return false;
        }
        let Some(begun) = self.begun else { return true };
        let again = GAP_MIN.saturating_mul(1 << self.failures.min(FAILURES_MAX));
        let rested = storm || begun.elapsed() >= again.max(self.took * REST);
        let full = self.record.size().bytes > BYTES_MAX / 2;
        let at_once = self.record.intact().is_err() || full;
        rested && (at_once || begun.elapsed() >= self.every)
    }

    /// Whether one can be made: none is under way, and its body runs as its own.
    pub fn can(&self) -> bool {
        self.under_way.is_none() && !self.recovering && !self.record.replays()
    }

    pub fn begin(&mut self) {
        self.begun = Some(Instant::now());
        self.under_way = Some(None);
    }

    /// What ends the connection over which the checkpoint comes.
    pub fn comes_over(&mut self, connection: Option<TcpStream>) {
        if self.recovering
            && let Some(c) = &connection
        {
            let _ = c.shutdown(Shutdown::Both);
        }
        if self.under_way.is_some() {
            self.under_way = Some(connection);
        }
    }

    /// The checkpoint is complete.
    pub fn made(&mut self, kept: Kept, (by, covered): (MoveId, Covered), pause: Duration) {
        self.record.begin(covered);
        self.kept_bytes = kept.bytes;
        self.image = Some(kept.image);
        self.pages = Some(kept.pages);
        self.by = Some(by);
        self.moment = None;
        self.refused = None;
        self.failures = 0;
        self.pause = pause;
    }

    /// The same, of one that shares memory: the next one is whole again.
    pub fn made_together(
        &mut self,
        kept: Kept,
        (by, covered): (MoveId, Covered),
        pause: Duration,
        moment: &Arc<Moment>,
    ) {
        self.made(kept, (by, covered), pause);
        self.by = None;
        self.moment = Some(moment.clone());
    }

    /// The others without which it cannot be built again.
    pub fn moment(&self) -> Option<&Arc<Moment>> {
        self.moment.as_ref()
    }

    /// It could not be made. The one before is as good as it was.
    /// `lasts`: for a reason that does not pass by itself in a moment.
    pub fn failed(&mut self, why: String, lasts: bool) {
        self.failures = self.failures.saturating_add(u32::from(lasts));
        self.refused = Some(why);
    }

    pub fn end(&mut self) {
        self.under_way = None;
        self.took = self.begun.map_or(Duration::ZERO, |b| b.elapsed());
    }

    /// The store of the last checkpoint: the next one is put beside it.
    pub fn pages(&self) -> Option<Arc<Mutex<PageStore>>> {
        self.pages.clone()
    }

    /// The move that brought the checkpoint: the next one may send what was written since.
    pub fn before(&self) -> Option<MoveId> {
        self.by
    }

    /// The body is not the one that the checkpoint was made of: it came home, or was replaced by an exec.
    pub fn forget(&mut self) {
        self.record.end();
        self.recovering = false;
        self.kept_bytes = 0;
        self.image = None;
        self.by = None;
        self.moment = None;
        self.begun = None;
        self.refused = None;
        self.failures = 0;
        self.pages = None;
    }

    /// Its node is lost: what its body is built from, or why it cannot be.
    pub fn lose(&mut self) -> Result<(), String> {
        if let Some(Some(connection)) = &self.under_way {
            // What comes no more is not waited for.
            let _ = connection.shutdown(Shutdown::Both);
        }
        self.recoverable()?;
        self.recovering = true;
        Ok(())
    }

    /// Whether its body could be built again just now; else why not.
    pub fn recoverable(&self) -> Result<(), String> {
        match (&self.image, self.record.intact(), &self.refused) {
            (Some(_), Ok(()), _) => Ok(()),
            (_, Err(gap), Some(refused)) => Err(format!(
                "{gap}; no checkpoint could be made since: {refused}"
            )),
            (_, Err(gap), None) => Err(gap),
            (None, Ok(()), _) => Err("it has no checkpoint yet".into()),
        }
    }

    pub fn kept(&self) -> Option<Kept> {
        Some(Kept {
            image: self.image.clone()?,
            pages: self.pages.clone()?,
            bytes: self.kept_bytes,
        })
    }

    pub fn is_recovering(&self) -> bool {
        self.recovering
    }

    /// It runs again.
    pub fn recovered(&mut self) {
        self.recovering = false;
    }

    /// Age of the checkpoint.
    pub fn age(&self) -> Option<Duration> {
        Some(self.record.since()?.elapsed())
    }

    /// Bytes that the pages of the checkpoint take here.
    pub fn bytes(&self) -> u64 {
        self.kept_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(seconds: u64) -> Safety {
        Safety {
            every: Duration::from_secs(seconds),
            exact: false,
            remote: None,
        }
    }

    fn old(mut s: Safe) -> Safe {
        s.begun = Instant::now().checked_sub(Duration::from_secs(20));
        s
    }

    #[test]
    fn a_checkpoint_is_due_at_first_then_by_its_interval_or_for_a_gap() {
        let mut s = Safe::new(every(3600));
        assert!(s.is_due(false));
        s.begin();
        assert!(!s.is_due(false), "one is under way");
        s.end();
        assert!(!s.is_due(false), "it failed a moment ago");
        let s = old(s);
        assert!(s.is_due(false), "there is none yet");
        s.record.begin(HashMap::new());
        assert!(!s.is_due(false));
        s.record.leave_gap(|| "a signal".into());
        assert!(s.is_due(false));
        let mut s = old(Safe::new(every(10)));
        s.record.begin(HashMap::new());
        assert!(s.is_due(false), "by its interval");
        s.took = Duration::from_secs(3);
        assert!(
            !s.is_due(false),
            "checkpoints take a tenth of the time at most"
        );
    }

    #[test]
    fn what_is_not_safe_says_why() {
        let mut s = Safe::new(every(1));
        let why = s.lose().expect_err("nothing is kept");
        assert!(why.contains("no checkpoint"), "{why}");
        assert!(!s.is_recovering());
        s.record.begin(HashMap::new());
        s.record.leave_gap(|| "signal 10 came".into());
        s.failed("it shares memory".into(), true);
        let why = s.recoverable().expect_err("a gap");
        assert_eq!(
            why,
            "signal 10 came; no checkpoint could be made since: it shares memory"
        );
    }
}
