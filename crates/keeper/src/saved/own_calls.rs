//! Calls that threads of a process make for us: where the process is at home, and where its deputies wait.
//!
//! From: `attributes.rs`, `timers.rs`. Next: nothing.

use crate::deputy::Deputy;
use crate::state::Keep;
use armento_migrate::{MigrateError, Result};
use armento_model::{Pid, Tid};
use armento_tracee::inject::{Hold, Unfiltered};
use armento_tracee::region::Code;
use std::sync::Arc;

/// How calls are made in a thread of the process.
pub trait Calls {
    /// The result, as the kernel has it: negative for an error.
    fn call(&mut self, tid: Tid, nr: i64, args: [u64; 6]) -> Result<i64>;
    /// Address of memory for arguments and results of the leader's calls, a page at least.
    fn memory(&self) -> u64;
    /// What is there, from `at` on.
    fn read(&self, at: u64, into: &mut [u8]);
    fn write(&self, at: u64, bytes: &[u8]);
}

/// A process at home that stands still. In the tracer thread.
pub struct AtHome {
    pub code: Code,
}

impl Calls for AtHome {
    fn call(&mut self, tid: Tid, nr: i64, args: [u64; 6]) -> Result<i64> {
        let mut hold = Hold::take(tid, Arc::new(Unfiltered))?;
        Ok(hold.call(&self.code, nr, args)?.0)
    }

    fn memory(&self) -> u64 {
        self.code.scratch_at(0)
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        self.code.read_scratch(at, into);
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.code.scratch(at, bytes);
    }
}

/// A process whose threads are deputies. Not in the tracer thread.
pub struct Deputies<'a> {
    keep: &'a Arc<Keep>,
    leader: Arc<Deputy>,
}

impl<'a> Deputies<'a> {
    pub fn of(keep: &'a Arc<Keep>, pid: Pid) -> Result<Deputies<'a>> {
        let leader = keep.deputy(pid).ok_or(MigrateError::Ended)?;
        Ok(Deputies { keep, leader })
    }
}

impl Calls for Deputies<'_> {
    fn call(&mut self, tid: Tid, nr: i64, args: [u64; 6]) -> Result<i64> {
        let deputy = self.keep.deputy(tid).ok_or(MigrateError::Ended)?;
        deputy.own(nr, args).ok_or(MigrateError::Ended)
    }

    fn memory(&self) -> u64 {
        self.leader.slot.data_addr()
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        self.leader.slot.read_data(at, into);
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.leader.slot.write_data(at, bytes);
    }
}
