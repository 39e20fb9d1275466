//! `--safe=exact`: calls that wait for a checkpoint which covers them.
//!
//! ```text
//! call ──held──► a checkpoint begins ──► turned back unmade ──► complete ──► issued again: covered, made
//! ```
//! From: `keeper/src/calls/replay.rs`. Next: `keeper/src/safe/checkpoint.rs`.

use crate::deputy::{AGAIN, Deputy, unmade_result};
use crate::record::CallId;
use crate::sync::lock;
use armento_model::{Pid, Tid};
use armento_wire::call::Call;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

#[derive(Default)]
pub struct HeldOutput(Mutex<State>);

#[derive(Default)]
struct State {
    /// At most one a thread.
    held: Vec<Held>,
    /// Turned back for a move: the thread stands before this call.
    turned: HashMap<Tid, (Pid, CallId)>,
}

pub struct Held {
    pub by: Arc<Deputy>,
    pub call: Box<Call>,
}

impl HeldOutput {
    /// Holds a call until a checkpoint covers it; `ask` asks for that.
    pub fn hold(&self, by: Arc<Deputy>, call: Box<Call>, ask: impl FnOnce()) {
        let mut st = lock(&self.0);
        if by.common.breaking.load(Ordering::Acquire) {
            // The move has turned back what it found.
            return by.link().reply(by.tid, call.seq, AGAIN, &[]);
        }
        st.held.push(Held { by, call });
        drop(st);
        ask();
    }

    /// A move of the process has begun: its threads stand before these calls.
    pub fn turn_back(&self, pid: Pid) {
        let mut st = lock(&self.0);
        let its: Vec<Held> = st.held.extract_if(.., |h| h.by.pid == pid).collect();
        // Those of an earlier move that did not end in a checkpoint stand elsewhere by now.
        st.turned.retain(|_, (of, _)| *of != pid);
        for h in &its {
            let id = CallId::of(&h.call.packed);
            st.turned.insert(h.by.tid, (pid, id));
        }
        drop(st);
        its.into_iter().for_each(give_back);
    }

    /// A signal came to a thread that waits here.
    pub fn nudge(&self, tid: Tid, seq: u32) {
        let mine = |h: &mut Held| h.by.tid == tid && h.call.seq == seq;
        let its: Vec<Held> = lock(&self.0).held.extract_if(.., mine).collect();
        its.into_iter().for_each(give_back);
    }

    /// A checkpoint of the process is complete: the calls before which its threads stand.
    pub fn take_covered(&self, pid: Pid) -> HashMap<Tid, CallId> {
        let mut st = lock(&self.0);
        let its = st.turned.extract_if(|_, (of, _)| *of == pid);
        its.map(|(tid, (_, id))| (tid, id)).collect()
    }

    /// Whether a call of the process waits.
    pub fn waits(&self, pid: Pid) -> bool {
        lock(&self.0).held.iter().any(|h| h.by.pid == pid)
    }

    /// No checkpoint can be made: the calls that wait, to be made all the same.
    pub fn give_up(&self, pid: Pid) -> Vec<Held> {
        let mut st = lock(&self.0);
        st.held.extract_if(.., |h| h.by.pid == pid).collect()
    }
}

fn give_back(h: Held) {
    let ret = unmade_result(h.call.packed.nr);
    h.by.link().reply(h.by.tid, h.call.seq, ret, &[]);
}
