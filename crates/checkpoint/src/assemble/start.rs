//! The way from the calling process to the processes of a checkpoint.

use super::attributes;
use super::board::{Board, Meeting};
use super::check::check;
use super::descriptors;
use super::error::{AssembleError, Step};
use super::how::How;
use super::open::{self, Opened};
use super::owner::Owner;
use super::plan::{Of, Plan};
use super::{proxy, put_back, sys};
use crate::home::{Bytes, Home, Process};
use armento_model::Pid;
use rustix::process::{self, Signal, WaitOptions, getpid, setpgid, setsid, waitpid};
use std::cell::RefCell;
use std::convert::Infallible;
use std::ffi::CString;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};

type Failed = (Step, io::Error);

/// Where the recorded numbers are asked for, the caller goes on as a child that has the root's; the calling process itself
/// passes signals on and ends as that one does. Before: the process has one thread.
pub fn become_root(home: &Home, how: &How) -> Result<(), AssembleError> {
    check(home, how)?;
    let pid = home.processes[0].pid;
    if !how.same_pids || getpid().as_raw_nonzero().get() == pid {
        return Ok(());
    }
    let terminal = proxy::Terminal::of_caller();
    match sys::fork(Some(pid)) {
        Ok(0) => Ok(()),
        Ok(root) => proxy::stand_for(root, terminal).end(),
        Err(source) => Err(AssembleError::Step {
            pid,
            step: Step::Fork,
            source,
        }),
    }
}

/// Turns the calling process into the root of the tree; returns only when that fails. Before: the process has one thread,
/// and the board was made for this tree. After an error no process of the tree is left; files that were put back stay so.
///
/// With `how.same_pids` the caller is a child from then on ([`become_root`]).
pub fn assemble(home: &Home, how: &How, board: &Board) -> Result<Infallible, AssembleError> {
    if board.processes() != home.processes.len() {
        return Err(AssembleError::Empty);
    }
    become_root(home, how)?;
    Owner::of(home).act(|| put_back::all(home, how))?;
    if let Ok((_, hard)) = sys::limit(libc::RLIMIT_NOFILE) {
        drop(sys::set_limit(libc::RLIMIT_NOFILE, hard, hard));
    }
    let memory = open::memory(home, how)?;
    for (index, fd) in memory.iter().enumerate() {
        if !home.memory[index].mapped_by.is_empty() {
            board.has_memory(index, fd.as_raw_fd());
        }
    }
    let run = Run {
        home,
        how,
        board,
        plan: Plan::new(home, how.same_pids),
        opened: open::all(home, how, &memory)?,
        callers: open::callers(home),
        terminal: proxy::Terminal::of_caller(),
        forked: RefCell::new(Vec::new()),
        _memory: memory,
    };
    // What it opened gets other numbers, or is closed: nothing of it may be closed again.
    let run = ManuallyDrop::new(run);
    Err(run.perform(0))
}

struct Run<'a, 'b> {
    home: &'a Home,
    how: &'a How<'b>,
    board: &'a Board,
    plan: Plan,
    opened: Vec<Opened>,
    callers: Vec<(u8, OwnedFd)>,
    terminal: proxy::Terminal,
    _memory: Vec<OwnedFd>,
    /// Children of this process.
    forked: RefCell<Vec<Pid>>,
}

impl Run<'_, '_> {
    /// Makes the calling process this one; returns why that failed, when all its children have ended.
    fn perform(&self, index: usize) -> AssembleError {
        self.forked.borrow_mut().clear();
        let Err((step, e)) = self.steps(index);
        self.board.fail(index, step, &e);
        if step == Step::Exec {
            self.kill_all(index);
        }
        if index == 0 {
            self.give_streams_back();
        }
        for child in self.forked.borrow().iter() {
            let _ = waitpid(process::Pid::from_raw(*child), WaitOptions::empty());
        }
        let failure = self.board.failure(self.home);
        failure.unwrap_or(AssembleError::Step {
            pid: self.home.processes[index].pid,
            step,
            source: e,
        })
    }

    /// So that the caller can say why.
    fn give_streams_back(&self) {
        for (number, stream) in &self.callers {
            drop(sys::duplicate_to(stream.as_raw_fd(), (*number).into()));
        }
    }

    /// The others may run already.
    fn kill_all(&self, own: usize) {
        for index in (0..self.home.processes.len()).filter(|i| *i != own) {
            let pid = self.board.pid(index).and_then(process::Pid::from_raw);
            if let Some(pid) = pid {
                let _ = process::kill_process(pid, Signal::KILL);
            }
        }
    }

    fn steps(&self, index: usize) -> Result<Infallible, Failed> {
        let p = &self.home.processes[index];
        self.board.born(index, getpid().as_raw_nonzero().get());
        self.fork_children(index, true)?;
        if self.plan.leads_session(index) {
            setsid().map_err(|e| (Step::Session, e.into()))?;
        }
        self.fork_children(index, false)?;
        self.meet(Meeting::Born)?;
        self.lead(index)?;
        self.meet(Meeting::Led)?;
        self.join(index)?;
        attributes::set(p)?;
        if index == 0 {
            // The streams of the calling process are kept until all others are ready.
            self.meet(Meeting::Ready)?;
            self.put(index, &self.callers)?;
            if !self.how.hold {
                self.board.release();
            }
        } else {
            self.put(index, &[])?;
            self.meet(Meeting::Ready)?;
        }
        let released = self.board.wait_for_release();
        released.map_err(|e| (Step::Wait, e))?;
        attributes::set_limits(p)?;
        sys::default_sigpipe();
        Err((Step::Exec, exec(p, &self.how.environment)))
    }

    fn put(&self, index: usize, callers: &[(u8, OwnedFd)]) -> Result<(), Failed> {
        let memory = self.board.memories();
        descriptors::put(self.home, index, &self.opened, (callers, &memory))
    }

    fn meet(&self, at: Meeting) -> Result<(), Failed> {
        self.board.meet(at).map_err(|e| (Step::Wait, e))
    }

    fn fork_children(&self, index: usize, before_session: bool) -> Result<(), Failed> {
        for child in self.plan.children(index, before_session) {
            let orphan = self.home.processes[child].parent.is_none();
            match orphan {
                true => self.fork_orphan(child),
                false => self.fork(child),
            }
            .map_err(|e| (Step::Fork, e))?;
        }
        Ok(())
    }

    fn fork(&self, child: usize) -> io::Result<()> {
        let number = self.home.processes[child].pid;
        match sys::fork(self.how.same_pids.then_some(number))? {
            0 => {
                self.perform(child);
                sys::exit(127)
            }
            pid => {
                self.forked.borrow_mut().push(pid);
                Ok(())
            }
        }
    }

    /// A process whose parent ends at once.
    fn fork_orphan(&self, child: usize) -> io::Result<()> {
        match sys::fork(None)? {
            0 => {
                if let Err(e) = self.fork(child) {
                    self.board.fail(child, Step::Fork, &e);
                }
                sys::exit(0)
            }
            between => {
                let between = process::Pid::from_raw(between);
                waitpid(between, WaitOptions::empty())
                    .map(drop)
                    .map_err(Into::into)
            }
        }
    }

    /// Leaders of groups make them.
    fn lead(&self, index: usize) -> Result<(), Failed> {
        let leads = self.plan.group(index) == Of::Process(index);
        if leads && !self.plan.leads_session(index) {
            setpgid(None, None).map_err(|e| (Step::Group, e.into()))?;
            if index == 0 {
                self.terminal.give_to_own_group();
            }
        }
        Ok(())
    }

    /// The others join them.
    fn join(&self, index: usize) -> Result<(), Failed> {
        let leader = match self.plan.group(index) {
            Of::Process(leader) if leader == index => return Ok(()),
            Of::Process(leader) => self.board.pid(leader),
            // Inherited, unless the parent leads a group or a session of its own.
            Of::Caller => Some(self.terminal.group()),
        };
        let leader = leader.and_then(process::Pid::from_raw);
        match setpgid(None, leader) {
            // In another session than the group's, as `check` warned.
            Err(rustix::io::Errno::PERM) => Ok(()),
            other => other.map_err(|e| (Step::Group, e.into())),
        }
    }
}

fn exec(p: &Process, environment: &[CString]) -> io::Error {
    let word = |b: &Bytes| CString::new(b.0.clone()).map_err(io::Error::from);
    let argv: io::Result<Vec<CString>> = p.argv.iter().map(word).collect();
    match (word(&p.exe.path), argv) {
        (Ok(path), Ok(argv)) => sys::exec(&path, &argv, environment),
        (Err(e), _) | (_, Err(e)) => e,
    }
}
