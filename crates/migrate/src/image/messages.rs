//! What a source and a target tell each other of a process.

use super::area::Area;
use super::cpu::Cpu;
use super::mm::Mm;
use super::processor::Processor;
use super::thread::ThreadState;
use super::{itimers, names, timers};
use armento_model::{Pid, Tid};
use armento_tracee::pages::Run;
use armento_wire::talk::{ObjectId, Signal};
use serde::{Deserialize, Serialize};

/// First words of a source: enough for the target to say yes or no and to lay out an empty body.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Head {
    pub engine: u32,
    /// As home numbers it.
    pub pid: Pid,
    /// Its threads by now: the target makes them while it runs.
    pub tids: Vec<Tid>,
    pub command: String,
    pub areas: Vec<Area>,
    /// Objects of shared memory that come with it. Others that it maps came with a partner.
    pub brings: Vec<ObjectId>,
    /// Those among all it maps that outlive their mappings: home asks for them as a whole.
    pub lasting: Vec<ObjectId>,
    pub mm: Mm,
    pub need_kib: u64,
    pub processor: Processor,
}

/// What the target answers to [`Head`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Accept {
    /// Files whose bytes it lacks.
    pub files: Vec<armento_wire::talk::FileKey>,
    /// It can take pages before the freeze.
    pub precopy: bool,
    /// … and behind the flip.
    pub postcopy: bool,
    /// Its kernel has another vDSO: it needs the image that the process began with.
    pub vdso: bool,
}

/// Said at the freeze, before the last pages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Layout {
    pub areas: Vec<Area>,
    /// Pages sent before that are no more: zero, or the file's own bytes again.
    pub dropped: Vec<Run>,
    /// Pages that come behind the flip.
    pub later: Vec<Run>,
}

/// Everything but memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    pub threads: Vec<ThreadState>,
    /// 64 kernel sigactions of 32 bytes.
    pub actions: Vec<[u64; 4]>,
    pub mm: Mm,
    /// Memory where it has the zero page.
    pub zeros: Vec<Run>,
    /// Signals that wait at the source: the thread they are for, or none for the process.
    pub pending: Vec<(Option<Tid>, Signal)>,
    /// How many expirations the last signal of each timer stood for beside its own.
    pub overruns: timers::Overruns,
    pub itimers: itimers::Itimers,
    /// Signals that it reads from descriptors, as a mask: those wait at home.
    pub signalfds: u64,
    /// Soft and hard limits that its memory depends on: resource, soft, hard.
    pub limits: Vec<(u32, u64, u64)>,
    /// personality(2): flags that later mappings and execs obey.
    pub persona: u32,
    /// What membarrier(2) was told to register: a bit for each command.
    pub membarrier: u32,
    /// Guard regions (madvise(2)), among its areas.
    pub guards: Vec<Run>,
    /// Names of its anonymous memory.
    pub names: Vec<names::Name>,
    /// Of the whole process: threads that ended count, too.
    pub cpu: Cpu,
    /// The vDSO that the process began with, where the target asked for it.
    #[serde(with = "serde_bytes")]
    pub vdso: Vec<u8>,
}
