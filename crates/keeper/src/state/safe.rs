//! What is kept of a process so that it can go on when the node of its body is lost.
//!
//! From: `process.rs`. Next: `keeper/src/safe/mod.rs`, which makes checkpoints and builds bodies from them.

use crate::record::{BYTES_MAX, Record};
use crate::sync::lock;
use armento_migrate::pages::PageStore;
use armento_migrate::stored::Image;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A checkpoint that is due at once comes no sooner than this after the one before …
const GAP_MIN: Duration = Duration::from_millis(500);
/// … and no sooner than so many times as long as that took: a program that leaves gaps all the time spends a tenth of its
/// time on checkpoints, not all of it.
const REST: u32 = 10;

/// What is kept of the body: everything but its pages, and its pages.
#[derive(Clone)]
pub struct Kept {
    pub image: Arc<Image>,
    pub pages: Arc<Mutex<PageStore>>,
}

pub struct Safe {
    every: Duration,
    pub record: Arc<Record>,
    image: Option<Arc<Image>>,
    pages: Option<Arc<Mutex<PageStore>>>,
    /// When the last checkpoint was begun, and how long it took.
    begun: Option<Instant>,
    took: Duration,
    /// How long the program stood still for the last one.
    pub pause: Duration,
    /// A checkpoint is being made; ends its connection.
    under_way: Option<Option<TcpStream>>,
    /// Why the last one could not be made.
    refused: Option<String>,
    /// Its node was lost, and it is not running elsewhere yet.
    recovering: bool,
}

impl Safe {
    pub fn new(every: Duration) -> Safe {
        Safe {
            every,
            record: Arc::default(),
            image: None,
            pages: None,
            begun: None,
            took: Duration::ZERO,
            pause: Duration::ZERO,
            under_way: None,
            refused: None,
            recovering: false,
        }
    }

    /// Whether a checkpoint is to be made now. Before: its body is on another node.
    pub fn is_due(&self) -> bool {
        if self.under_way.is_some() || self.recovering || self.record.replays() {
            return false;
        }
        let Some(begun) = self.begun else { return true };
        let rested = begun.elapsed() >= GAP_MIN.max(self.took * REST);
        let full = self.record.size().bytes > BYTES_MAX / 2;
        let at_once = self.record.intact().is_err() || full;
        rested && (at_once || begun.elapsed() >= self.every)
    }

    pub fn begin(&mut self) {
        self.begun = Some(Instant::now());
        self.under_way = Some(None);
    }

    /// What ends the connection over which the checkpoint comes.
    pub fn comes_over(&mut self, connection: Option<TcpStream>) {
        if self.under_way.is_some() {
            self.under_way = Some(connection);
        }
    }

    /// The checkpoint is complete.
    pub fn made(&mut self, kept: Kept, pause: Duration) {
        self.record.begin();
        self.image = Some(kept.image);
        self.pages = Some(kept.pages);
        self.refused = None;
        self.pause = pause;
    }

    /// It could not be made. The one before is as good as it was.
    pub fn failed(&mut self, why: String) {
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

    /// The body is not the one that the checkpoint was made of: it came home, or was replaced by an exec.
    pub fn forget(&mut self) {
        self.record.end();
        self.image = None;
        self.begun = None;
        self.refused = None;
        if let Some(pages) = &self.pages {
            lock(pages).commit(&[], true);
        }
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
        self.pages.as_ref().map_or(0, |p| lock(p).bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn old(mut s: Safe) -> Safe {
        s.begun = Instant::now().checked_sub(Duration::from_secs(20));
        s
    }

    #[test]
    fn a_checkpoint_is_due_at_first_then_by_its_interval_or_for_a_gap() {
        let mut s = Safe::new(Duration::from_secs(3600));
        assert!(s.is_due());
        s.begin();
        assert!(!s.is_due(), "one is under way");
        s.end();
        assert!(!s.is_due(), "it failed a moment ago");
        let s = old(s);
        assert!(s.is_due(), "there is none yet");
        s.record.begin();
        assert!(!s.is_due());
        s.record.leave_gap(|| "a signal".into());
        assert!(s.is_due());
        let mut s = old(Safe::new(Duration::from_secs(10)));
        s.record.begin();
        assert!(s.is_due(), "by its interval");
        s.took = Duration::from_secs(3);
        assert!(!s.is_due(), "checkpoints take a tenth of the time at most");
    }

    #[test]
    fn what_is_not_safe_says_why() {
        let mut s = Safe::new(Duration::from_secs(1));
        let why = s.lose().expect_err("nothing is kept");
        assert!(why.contains("no checkpoint"), "{why}");
        assert!(!s.is_recovering());
        s.record.begin();
        s.record.leave_gap(|| "signal 10 came".into());
        s.failed("it shares memory".into());
        let why = s.recoverable().expect_err("a gap");
        assert_eq!(
            why,
            "signal 10 came; no checkpoint could be made since: it shares memory"
        );
    }
}
