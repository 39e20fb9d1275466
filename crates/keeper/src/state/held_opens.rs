//! Opens of files about processes that are away: they wait until that process is home.
//!
//! From: `keeper/src/calls/proc_access.rs`. Next: `keeper/src/moves/come_home.rs`, which brings that process home.

use crate::deputy::{AGAIN, Deputy, unmade_result};
use crate::sync::lock;
use armento_model::{Pid, Tid};
use armento_wire::call::Call;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// At most one a thread.
#[derive(Default)]
pub struct HeldOpens(Mutex<Vec<Held>>);

pub struct Held {
    /// The process that the file is about.
    target: Pid,
    pub by: Arc<Deputy>,
    pub call: Box<Call>,
}

impl HeldOpens {
    /// Holds a call until `target` is home; `ask` asks for that move.
    pub fn hold(&self, target: Pid, by: Arc<Deputy>, call: Box<Call>, ask: impl FnOnce()) {
        let mut held = lock(&self.0);
        if by.common.breaking.load(Ordering::Acquire) {
            // The move has turned back what it found.
            return by.link().reply(by.tid, call.seq, AGAIN, &[]);
        }
        ask();
        held.push(Held { target, by, call });
    }

    /// Calls that wait for `target`, which is home, has ended or cannot come. The caller ends or makes them.
    pub fn take_for(&self, target: Pid) -> Vec<Held> {
        self.take(|h| h.target == target)
    }

    /// A move of the process that opens has begun: none of its calls was made.
    pub fn turn_back(&self, pid: Pid) {
        self.back(|h| h.by.pid == pid);
    }

    /// A signal came to a thread that waits here.
    pub fn nudge(&self, tid: Tid, seq: u32) {
        self.back(|h| h.by.tid == tid && h.call.seq == seq);
    }

    fn back(&self, which: impl Fn(&Held) -> bool) {
        for h in self.take(which) {
            let ret = unmade_result(h.call.packed.nr);
            h.by.link().reply(h.by.tid, h.call.seq, ret, &[]);
        }
    }

    fn take(&self, which: impl Fn(&Held) -> bool) -> Vec<Held> {
        lock(&self.0).extract_if(.., |h| which(h)).collect()
    }
}
