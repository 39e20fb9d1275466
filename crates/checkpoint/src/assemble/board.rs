//! Memory that all processes of a restart share, and the engine with them.

use super::error::{AssembleError, Step};
use super::sys;
use crate::home::Home;
use armento_model::Pid;
use rustix::io::Errno;
use rustix::process::{self, test_kill_process};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longer than a thousand forks take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Places in the shared words.
const FAILED: usize = 0;
const FAILED_PROCESS: usize = 1;
const FAILED_ERRNO: usize = 2;
const RELEASED: usize = 3;
/// Processes that have arrived at each [`Meeting`].
const MEETINGS: usize = 4;
/// The numbers of processes; behind them those of descriptors of memory, plus one.
const PIDS: usize = 8;

/// Where all processes wait for each other.
#[derive(Clone, Copy, Debug)]
pub enum Meeting {
    /// All were forked.
    Born,
    /// Leaders of groups lead.
    Led,
    /// Only the programs are to be started.
    Ready,
}

/// Made before the restart; each process writes its number to it. It is kept to the end of the process.
pub struct Board {
    words: &'static [AtomicU32],
    processes: usize,
}

impl Board {
    pub fn new(home: &Home) -> io::Result<Board> {
        let processes = home.processes.len();
        let words = sys::shared_words(PIDS + processes + home.memory.len())?;
        Ok(Board { words, processes })
    }

    pub fn processes(&self) -> usize {
        self.processes
    }

    /// The number of a process by its index in [`Home::processes`]; none before its fork.
    pub fn pid(&self, index: usize) -> Option<Pid> {
        let word = self.words[PIDS..].get(index)?.load(Ordering::Acquire);
        (word != 0).then_some(word as Pid)
    }

    /// At which number every process has memory open that one of them maps ([`Home::memory`], by its index), until the
    /// engine has mapped and closed it.
    pub fn memory(&self, index: usize) -> Option<i32> {
        let word = self.words.get(PIDS + self.processes + index)?;
        (word.load(Ordering::Acquire) as i32)
            .checked_sub(1)
            .filter(|fd| *fd >= 0)
    }

    /// All of these numbers.
    pub fn memories(&self) -> Vec<i32> {
        let all = 0..self.words.len() - PIDS - self.processes;
        all.filter_map(|index| self.memory(index)).collect()
    }

    /// The place of the process with this number.
    pub fn index(&self, pid: Pid) -> Option<usize> {
        (0..self.processes).find(|at| self.pid(*at) == Some(pid))
    }

    /// Whether all processes stand before their execs.
    pub fn ready(&self) -> bool {
        self.arrived(Meeting::Ready) == self.processes
    }

    /// Lets the programs start, where [`super::How::hold`] was asked for.
    pub fn release(&self) {
        self.words[RELEASED].store(1, Ordering::Release);
        sys::wake(&self.words[RELEASED]);
    }

    /// Why the restart failed, also behind an exec of the root.
    pub fn failure(&self, home: &Home) -> Option<AssembleError> {
        let step = Step::of(self.words[FAILED].load(Ordering::Acquire))?;
        let index = self.words[FAILED_PROCESS].load(Ordering::Relaxed) as usize;
        let errno = self.words[FAILED_ERRNO].load(Ordering::Relaxed) as i32;
        Some(AssembleError::Step {
            pid: home.processes.get(index).map_or(0, |p| p.pid),
            step,
            source: io::Error::from_raw_os_error(errno),
        })
    }

    pub(super) fn has_memory(&self, index: usize, fd: i32) {
        if let Some(word) = self.words.get(PIDS + self.processes + index) {
            word.store(fd as u32 + 1, Ordering::Release);
        }
    }

    pub(super) fn born(&self, index: usize, pid: Pid) {
        if let Some(word) = self.words[PIDS..].get(index) {
            word.store(pid as u32, Ordering::Release);
        }
    }

    /// The first failure is kept; all processes that wait see it.
    pub(super) fn fail(&self, index: usize, step: Step, e: &io::Error) {
        let errno = e.raw_os_error().unwrap_or(libc::EIO) as u32;
        // The details first, so that a process that sees the failure sees them too.
        if self.words[FAILED].load(Ordering::Acquire) == 0 {
            self.words[FAILED_PROCESS].store(index as u32, Ordering::Relaxed);
            self.words[FAILED_ERRNO].store(errno, Ordering::Relaxed);
            self.words[FAILED].store(step as u32, Ordering::Release);
        }
        for word in &self.words[RELEASED..PIDS] {
            sys::wake(word);
        }
    }

    fn arrived(&self, at: Meeting) -> usize {
        self.words[MEETINGS + at as usize].load(Ordering::Acquire) as usize
    }

    /// Waits for all others at a place.
    pub(super) fn meet(&self, at: Meeting) -> io::Result<()> {
        let word = &self.words[MEETINGS + at as usize];
        word.fetch_add(1, Ordering::AcqRel);
        sys::wake(word);
        self.wait(word, Some(PATIENCE), |n| n as usize >= self.processes)
    }

    /// Waits for [`Board::release`], as long as the root lives.
    pub(super) fn wait_for_release(&self) -> io::Result<()> {
        self.wait(&self.words[RELEASED], None, |n| n != 0)
    }

    fn root_is_gone(&self) -> bool {
        let root = self.pid(0).and_then(process::Pid::from_raw);
        root.is_some_and(|root| test_kill_process(root) == Err(Errno::SRCH))
    }

    fn wait(
        &self,
        word: &AtomicU32,
        patience: Option<Duration>,
        done: impl Fn(u32) -> bool,
    ) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            let now = word.load(Ordering::Acquire);
            if self.words[FAILED].load(Ordering::Acquire) != 0 || self.root_is_gone() {
                return Err(io::Error::from_raw_os_error(libc::ECANCELED));
            }
            if done(now) {
                return Ok(());
            }
            if patience.is_some_and(|p| begun.elapsed() > p) {
                return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
            }
            sys::wait(word, now, Duration::from_secs(1));
        }
    }
}
