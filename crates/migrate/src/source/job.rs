//! What a source knows of a move.
//!
//! From: `keeper/src/moves/out.rs`, `host/src/moves/depart.rs`. Next: `offer.rs`.

use crate::image::Area;
use crate::pages::{Pack, Unsent, Watch};
use armento_tracee::pages::{Pagemap, Run};
use armento_tracee::sched_slice::Patient;
use armento_wire::talk::FileKey;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;

/// Bytes of pages in one frame: read, examined and sent while they are in the nearest caches. With four times as many
/// the same gigabytes take a fifth more of the processor (docs/measurements/bulk.md).
pub(super) const BLOCK: usize = 128 << 10;

/// The source's own descriptor of a file.
pub type Opened<'a> = dyn FnMut(&FileKey) -> Option<File> + 'a;

/// What a source passes of its process before the freeze.
pub struct Job<'a, R: Read, W: Write> {
    /// The pid on this node.
    pub pid: i32,
    /// Taken over by the part that sends pages after the flip.
    pub r: Option<&'a mut R>,
    pub w: &'a mut W,
    /// Pages sent so far.
    pub sent: Vec<Run>,
    pub(super) watch: Watch,
    /// Sent, and lost at the target: these count as never sent.
    pub(super) lost: Vec<Run>,
    /// What the target has mapped.
    pub(super) offered: Vec<Area>,
    /// Files that the target was asked about.
    pub(crate) told: BTreeSet<FileKey>,
    /// Whether pages may come after the flip.
    pub(super) postcopy: bool,
    /// The target needs the vDSO that the process started with …
    pub(super) wants_vdso: bool,
    /// … which is this, if the process has a redirected one here; else it is read from the process.
    pub vdso: Option<Arc<[u8]>>,
    /// Those that will come after the flip, round by round: their earlier copies are given up at the target.
    pub given_up: Vec<Vec<Run>>,
    pub unsent: Unsent,
    pub bytes: u64,
    /// Bytes of memory read, uncompressed.
    pub(super) read: u64,
    pub(crate) block: Block,
    pub(crate) pack: Pack,
    pub(super) map: Option<Pagemap>,
    /// Present while the process runs.
    pub(super) patient: Option<Patient>,
    /// Throttles the process until the returned value is dropped: for targets that accept no pages after the flip.
    pub throttle: Option<Slow<'a>>,
    /// Held from the start of throttling until the freeze: what the process writes meanwhile adds to its pause.
    pub(super) slowed: Option<Box<dyn Throttle>>,
}

type Slow<'a> = Box<dyn FnOnce() -> Box<dyn Throttle> + 'a>;

/// Throttles a process until this is dropped.
pub trait Throttle {
    /// Throttles more, because its rounds do not get shorter. False: already at the limit.
    fn harder(&self) -> bool;
}

/// Pages that are read together and sent in one frame.
#[derive(Default)]
pub(crate) struct Block {
    pub(super) runs: Vec<(u64, usize)>,
    pub(super) len: usize,
    pub(crate) buf: Vec<u8>,
}

impl<'a, R: Read, W: Write> Job<'a, R, W> {
    pub fn new(pid: i32, r: &'a mut R, w: &'a mut W) -> Self {
        Job {
            pid,
            r: Some(r),
            w,
            sent: Vec::new(),
            watch: Watch::default(),
            lost: Vec::new(),
            offered: Vec::new(),
            told: BTreeSet::new(),
            postcopy: false,
            wants_vdso: false,
            vdso: None,
            given_up: Vec::new(),
            unsent: Unsent::default(),
            bytes: 0,
            read: 0,
            block: Block {
                buf: vec![0; BLOCK],
                ..Block::default()
            },
            pack: Pack::default(),
            map: None,
            patient: None,
            throttle: None,
            slowed: None,
        }
    }
}
