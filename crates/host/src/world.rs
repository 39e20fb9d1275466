//! The hand's world at a host: every body, and what its threads report.

use crate::bodies;
use crate::shared::{Cell, Proc, Shared};
use armento_migrate::stop::Halted;
use armento_model::{Pid, Tid};
use armento_tracee::hand::World;
use armento_tracee::pages::Uffd;
use armento_tracee::region::Code;
use armento_tracee::trace::{Status, Stop};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::Sender;

pub struct Th {
    pub cell: Arc<Cell>,
    /// In a ptrace stop that nobody ends by itself.
    pub halted: Option<Halted>,
    /// Home was asked for the default action of the signal it stopped at.
    pub asking: bool,
}

pub struct Body {
    pub pid: Pid,
    pub here: i32,
    pub proc: Arc<Proc>,
    pub threads: BTreeMap<Tid, Th>,
    pub uffd: Option<Arc<Uffd>>,
    /// Somebody waits until every thread is halted.
    pub freezer: Option<Sender<()>>,
    /// Home's kernel stopped the process (job control).
    pub stopped: bool,
    /// A vfork child: this thread of that process waits for our exec or end.
    pub releases: Option<(Pid, Tid)>,
    /// Built but not thawed, or frozen and handed over: its end is nobody's news.
    pub quiet: bool,
    /// Layout as last built.
    pub areas: Vec<armento_migrate::image::Area>,
}

/// Signals whose si_code only the process itself may use travel in disguise and get their face back
/// when they are delivered. Bounded: a signal that is dropped as a duplicate leaves one behind.
#[derive(Default)]
pub struct Veils {
    next: u32,
    kept: HashMap<u32, armento_tracee::sys::SigInfo>,
}

const VEILS_MAX: usize = 1024;
/// A negative si_code that nothing else uses.
pub const VEIL: i32 = -7717;

impl Veils {
    /// A copy that an outsider may queue.
    pub fn veil(&mut self, info: &armento_tracee::sys::SigInfo) -> armento_tracee::sys::SigInfo {
        if self.kept.len() >= VEILS_MAX {
            let old: Vec<u32> = self
                .kept
                .keys()
                .copied()
                .filter(|k| k.wrapping_add(VEILS_MAX as u32 / 2) < self.next)
                .collect();
            for k in &old {
                self.kept.remove(k);
            }
        }
        self.next = self.next.wrapping_add(1);
        self.kept.insert(self.next, *info);
        let mut out = *info;
        out[8..12].copy_from_slice(&VEIL.to_le_bytes());
        out[16..20].copy_from_slice(&self.next.to_le_bytes());
        out
    }

    pub fn lift(
        &mut self,
        info: &armento_tracee::sys::SigInfo,
    ) -> Option<armento_tracee::sys::SigInfo> {
        if info[8..12] != VEIL.to_le_bytes() {
            return None;
        }
        let key = u32::from_le_bytes(info[16..20].try_into().unwrap_or_default());
        self.kept.remove(&key)
    }
}

pub struct Zoo {
    pub sh: Option<Arc<Shared>>,
    pub code: Code,
    pub zygote: i32,
    pub bodies: BTreeMap<Pid, Body>,
    pub veils: Veils,
    pub over: bool,
}

impl Zoo {
    /// The shared part exists as soon as the zygote has a listener.
    pub fn sh(&self) -> Arc<Shared> {
        self.sh.clone().unwrap_or_else(|| std::process::abort())
    }

    pub fn passage(&self) -> Arc<dyn armento_tracee::inject::Passage> {
        self.sh().open.clone()
    }

    pub fn thread(&mut self, here: Tid) -> Option<(&mut Body, Tid)> {
        let cell = self.sh().cell(here)?;
        Some((self.bodies.get_mut(&cell.pid)?, cell.tid))
    }
}

impl World for Zoo {
    fn report(&mut self, tid: Tid, status: Status) {
        match status {
            Status::Exited(code) => bodies::ended(self, tid, code, None),
            Status::Killed(sig) => bodies::ended(self, tid, 0, Some(sig)),
            Status::Stopped(Stop::Signal(sig)) => bodies::at_signal(self, tid, sig),
            Status::Stopped(Stop::Trap | Stop::Group(_)) => bodies::at_trap(self, tid),
            Status::Stopped(Stop::Event(_) | Stop::Call) => {
                drop(armento_tracee::trace::resume(tid, 0))
            }
            Status::Continued => {}
        }
    }

    fn turn(&mut self) -> bool {
        !self.over
    }
}
