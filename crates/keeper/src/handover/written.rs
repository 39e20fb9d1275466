//! What one program of a keeper hands over to the next, which may be older or newer: a field that one of them does not know
//! is left out, and has its default there.

use crate::cpu_time::Account;
use crate::restart::{Call, FutexWaits, SpuriousWakeups, WaitDeadlines};
use crate::state::{HandedProcess, LeaseState, Settings, Totals};
use crate::sys::{hand_down, handed_down};
use armento_model::{NodeName, Pid, Tid};
use armento_tracee::sys;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::RawFd;

/// The form of this state. A program takes over its own and that of the version before.
pub const VERSION: u32 = 1;
const OLDEST: u32 = 1;

/// More than 10,000 processes with a hundred threads each need.
const BYTES_MAX: u64 = 1 << 30;

#[derive(Serialize, Deserialize)]
pub struct Handed {
    pub version: u32,
    pub settings: Settings,
    /// Files (device, inode) that the program was born with, if it was not adopted.
    pub inherited: Option<HashSet<(u64, u64)>>,
    pub placed_away: u64,
    pub lease: LeaseState,
    pub job: Totals,
    pub procs: Vec<HandedProcess>,
    pub cpu: HashMap<Pid, Account>,
    /// Processes that were away, with their nodes and whether their users had placed them there.
    pub away: Vec<(Pid, NodeName, bool)>,
    pub threads: HandedThreads,
}

/// What is known of single threads.
#[derive(Default, Serialize, Deserialize)]
pub struct HandedThreads {
    /// Processes with threads that are traced, and stand still.
    pub standing: Vec<Standing>,
    pub restart_blocks: HashMap<Tid, i64>,
    pub wait_deadlines: WaitDeadlines,
    pub futex_waits: FutexWaits,
    pub restarted: HashMap<Tid, (Pid, Call)>,
    pub wakeups: SpuriousWakeups,
    /// Children under `--spread` that have not exec'd.
    pub not_execed: HashMap<Tid, u32>,
}

#[derive(Serialize, Deserialize)]
pub struct Standing {
    pub pid: Pid,
    pub seized: BTreeSet<Tid>,
    pub halted: Vec<StandingThread>,
}

#[derive(Serialize, Deserialize)]
pub struct StandingThread {
    pub tid: Tid,
    /// The signal that it stopped at, with its siginfo.
    pub signal: Option<(i32, Vec<u8>)>,
}

impl Handed {
    /// Into memory whose descriptor the next program inherits.
    pub fn write(&self) -> io::Result<File> {
        let mut to = sys::memfd("armento-handover", 0)?;
        serde_json::to_writer(io::BufWriter::new(&to), self)?;
        to.flush()?;
        to.rewind()?;
        hand_down(&to)?;
        Ok(to)
    }

    /// The state that the program before this one left at this descriptor.
    pub fn read(fd: RawFd) -> io::Result<Handed> {
        let from = handed_down(fd)?;
        let handed: Handed = serde_json::from_reader(io::BufReader::new(from.take(BYTES_MAX)))?;
        if !(OLDEST..=VERSION).contains(&handed.version) {
            let what = format!("its state has version {}", handed.version);
            return Err(io::Error::other(what));
        }
        Ok(handed)
    }
}
