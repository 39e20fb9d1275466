//! Whether a [`Home`] that was read from a file makes sense.

use super::kinds::Kind;
use super::table::DESCRIPTORS_MAX;
use super::types::{Home, Memory, Process};
use super::values::Bytes;
use std::collections::HashSet;

/// Processes of one tree: each begins on a copy of its parent's stack, so their depth is bounded by that.
pub const PROCESSES_MAX: usize = 1 << 12;
/// KERNEL: fs.nr_open is 1 Mi unless an administrator raised it.
const FD_MAX: i32 = 1 << 20;
/// KERNEL: fs.pipe-max-size may be raised; no pipe of ours is larger.
const PIPE_MAX: u32 = 1 << 30;

/// KERNEL: fs.inotify.max_user_watches is at most so much by default.
const WATCHES_MAX: usize = 1 << 20;
/// KERNEL: mm/memfd.c, MFD_NAME_MAX_LEN.
const NAME_MAX: usize = 249;
/// Of one memfd, as far as any machine has memory.
const MEMORY_MAX: u64 = 1 << 46;

impl Home {
    /// Every index leads somewhere, every number can be one. Otherwise says what is wrong.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.processes.is_empty() || self.processes.len() > PROCESSES_MAX {
            return Err("number of processes");
        }
        if self.descriptions.len() > DESCRIPTORS_MAX {
            return Err("number of open file descriptions");
        }
        let mut pids = HashSet::new();
        for (at, p) in self.processes.iter().enumerate() {
            if p.pid <= 0 || !pids.insert(p.pid) {
                return Err("number of a process");
            }
            let parent = p.parent.map_or(at, |parent| parent as usize);
            if parent > at || p.parent.is_some() && (parent == at || at == 0) {
                return Err("parent of a process");
            }
            self.process_is_sound(p)?;
        }
        self.descriptions
            .iter()
            .try_for_each(|d| self.kind_is_sound(&d.kind))?;
        if !self.pipes.iter().all(|p| p.capacity <= PIPE_MAX) {
            return Err("size of a pipe");
        }
        let fine = |m: &Memory| {
            let named = |name: &Bytes| name.0.len() <= NAME_MAX && !name.0.contains(&0);
            let mapped = |of: &u32| (*of as usize) < self.processes.len();
            m.size <= MEMORY_MAX
                && m.name.as_ref().is_none_or(named)
                && m.mapped_by.iter().all(mapped)
        };
        match self.memory.len() <= DESCRIPTORS_MAX && self.memory.iter().all(fine) {
            true => Ok(()),
            false => Err("shared memory"),
        }
    }

    fn process_is_sound(&self, p: &Process) -> Result<(), &'static str> {
        let mut numbers = HashSet::new();
        for d in &p.descriptors {
            let exists = (d.description as usize) < self.descriptions.len();
            if !(0..FD_MAX).contains(&d.fd) || !numbers.insert(d.fd) || !exists {
                return Err("descriptor");
            }
        }
        let words = p.argv.iter().chain([&p.exe.path, &p.cwd, &p.comm]);
        if p.exe.path.0.is_empty() || words.into_iter().any(|w| w.0.contains(&0)) {
            return Err("name with a zero byte");
        }
        match p.locks.iter().all(|l| numbers.contains(&l.fd)) {
            true => Ok(()),
            false => Err("lock"),
        }
    }

    fn kind_is_sound(&self, kind: &Kind) -> Result<(), &'static str> {
        let fine = match kind {
            Kind::File(f) => named(&f.path.0),
            Kind::Directory { path, .. } | Kind::Device { path } => named(&path.0),
            Kind::Outside { stds, .. } => !stds.is_empty() && stds.iter().all(|n| *n <= 2),
            Kind::Pipe { pipe } => (*pipe as usize) < self.pipes.len(),
            Kind::Fifo { pipe, path } => (*pipe as usize) < self.pipes.len() && named(&path.0),
            Kind::Socket { pair, end } => (*pair as usize) < self.pairs.len() && *end <= 1,
            Kind::Inotify { watches, .. } => {
                watches.len() <= WATCHES_MAX
                    && watches.iter().all(|w| w.number > 0 && named(&w.path.0))
            }
            Kind::Memory { memory } => {
                let open = self.memory.get(*memory as usize);
                open.is_some_and(|m| m.open)
            }
            Kind::Event { .. } | Kind::Timer(_) | Kind::Signals { .. } => true,
            Kind::Epoll { of, .. } => (*of as usize) < self.processes.len(),
        };
        match fine {
            true => Ok(()),
            false => Err("open file description"),
        }
    }
}

fn named(path: &[u8]) -> bool {
    path.first() == Some(&b'/') && !path.contains(&0)
}
