//! Threads at home that are led to the end of a call (see `migrate/src/led.rs`).

use crate::tree::Tree;
use armento_migrate::led::{self, Led, Then};
use armento_model::{Pid, Tid};
use armento_tracee::status;
use armento_tracee::trace::{self, Stop};
use std::collections::BTreeMap;

impl Tree {
    /// They were let go seized.
    pub fn lead(&mut self, pid: Pid, led: BTreeMap<Tid, Led>) {
        self.led.extend(led.into_iter().map(|(t, l)| (t, (pid, l))));
    }

    /// Lets a stopped thread of a process at home go on untraced, or led.
    pub fn let_go_thread(&mut self, pid: Pid, tid: Tid) {
        match led::of(tid) {
            Some(mut l) if trace::set_options(tid, trace::WATCH).is_ok() => {
                if l.begin(tid).is_ok() {
                    self.led.insert(tid, (pid, l));
                }
            }
            _ => drop(trace::detach(tid, 0)),
        }
    }

    /// A move takes them in hand.
    pub fn take_led(&mut self, pid: Pid) -> BTreeMap<Tid, Led> {
        let mine = self.led.extract_if(.., |_, (p, _)| *p == pid);
        // One that another thread's exec has ended goes without a word.
        let traced = |tid| status::read(tid).is_ok_and(|s| s.tracer != 0);
        mine.map(|(tid, (_, l))| (tid, l))
            .filter(|(tid, _)| traced(*tid))
            .collect()
    }

    /// A stop of a led thread; `false` when it is an ordinary one.
    pub fn led_stopped(&mut self, tid: Tid, stop: Stop) -> bool {
        let Some((pid, led)) = self.led.get_mut(&tid) else {
            return false;
        };
        let _ = match (stop, led.at_stop(tid, stop)) {
            (Stop::Group(_), _) => trace::listen(tid),
            (_, Ok(Then::On(sig))) => trace::resume_to_call(tid, sig),
            (_, then) => {
                let sig = match then {
                    Ok(Then::Free(sig)) => sig,
                    _ => 0,
                };
                let seized = self.leaving.contains_key(pid);
                self.led.remove(&tid);
                if seized {
                    trace::resume(tid, sig)
                } else {
                    trace::detach(tid, sig)
                }
            }
        };
        true
    }
}
