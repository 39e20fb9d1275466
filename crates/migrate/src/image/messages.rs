//! Messages between a source and a target about one process.

use super::area::Area;
use super::cpu::Cpu;
use super::mm::Mm;
use super::processor::Processor;
use super::thread::ThreadState;
use super::{itimers, names, timers};
use armento_model::{HomePid, HomeTid, MoveId};
use armento_tracee::pages::Run;
use armento_wire::talk::{ObjectId, Signal};
use serde::{Deserialize, Serialize};

/// The first message of a source: enough for the target to accept or decline, and to create an empty body.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Head {
    pub engine: u32,
    /// The pid at home.
    pub pid: HomePid,
    /// Its threads so far: the target creates them while the process runs.
    pub tids: Vec<HomeTid>,
    pub command: String,
    pub areas: Vec<Area>,
    /// Objects of shared memory that come with it. Other objects that it maps came with a partner.
    pub brings: Vec<ObjectId>,
    /// Of all objects that it maps, those that outlive their mappings: home will ask for them as a whole.
    pub persistent: Vec<ObjectId>,
    pub mm: Mm,
    pub need_kib: u64,
    pub processor: Processor,
    /// It is a checkpoint whose pages are those written since an earlier one, which this move brought.
    pub since: Option<MoveId>,
}

/// The target's answer to [`Head`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Accept {
    /// Files whose bytes it lacks.
    pub files: Vec<armento_wire::talk::FileKey>,
    /// It accepts pages before the freeze.
    pub precopy: bool,
    /// It accepts pages after the flip.
    pub postcopy: bool,
    /// Its kernel has another vDSO: it needs the image of the vDSO that the process started with.
    pub vdso: bool,
}

/// Sent at the freeze, before the last pages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Layout {
    pub areas: Vec<Area>,
    /// Pages sent before that are gone: zero, or the file's bytes again.
    pub dropped: Vec<Run>,
    /// Pages that come after the flip.
    pub later: Vec<Run>,
}

/// Everything but memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    pub threads: Vec<ThreadState>,
    /// 64 kernel sigactions of 32 bytes.
    pub actions: Vec<[u64; 4]>,
    pub mm: Mm,
    /// Memory where the process has the zero page.
    pub zeros: Vec<Run>,
    /// Signals pending at the source: for a thread, or for the process if none.
    pub pending: Vec<(Option<HomeTid>, Signal)>,
    /// For the last signal of each timer, how many further expirations it stood for.
    pub overruns: timers::Overruns,
    pub itimers: itimers::Itimers,
    /// Signals that it reads from descriptors, as a mask: those stay pending at home.
    pub signalfds: u64,
    /// Soft and hard limits that its memory depends on: resource, soft, hard.
    pub limits: Vec<(u32, u64, u64)>,
    /// personality(2): flags that later mappings and execs obey.
    pub persona: u32,
    /// Registrations for membarrier(2): a bit for each command.
    pub membarrier: u32,
    /// Guard regions (madvise(2)), among its areas.
    pub guards: Vec<Run>,
    /// Names of its anonymous memory.
    pub names: Vec<names::Name>,
    /// For the whole process, including ended threads.
    pub cpu: Cpu,
    /// The vDSO that the process started with, if the target asked for it.
    #[serde(with = "serde_bytes")]
    pub vdso: Vec<u8>,
}
