//! Descriptors that hosts read ahead, and what an open sends of its file.

use crate::names::is_seen_read;
use crate::sync::lock;
use armento_model::Pid;
use armento_tracee::lease::Leased;
use armento_wire::talk::Beginning;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

/// Descriptors of a tree that are read ahead at once: each holds a file of ours open.
pub const STREAMS_MAX: usize = 64;
/// A file up to this length is sent whole with the reply to its open …
const WHOLE: u64 = 128 << 10;
/// … and of a longer one so much: its reader may only want its head.
const HEAD: usize = 32 << 10;

/// By process and descriptor. `L`: the link to a host.
pub type ReadAheads<L> = Mutex<HashMap<(Pid, i32), ReadAhead<L>>>;

/// A descriptor that is read ahead. `file`: its description, with the lease; `None` while we look, and when a process wants
/// to write.
pub struct ReadAhead<L> {
    pub seq: u32,
    pub link: Arc<L>,
    pub file: Option<Arc<Leased>>,
}

/// The beginning of a file that was just opened for reading only: no other descriptor has its description yet. `theirs`:
/// that description. `None` also where our reading would set its time of access: the program may never read it.
pub fn begin<L>(
    all: &ReadAheads<L>,
    link: &Arc<L>,
    (pid, fd): (Pid, i32),
    seq: u32,
    theirs: File,
    m: &Metadata,
) -> Option<Beginning> {
    if m.len() == 0 || !crate::sys::only_reads(&theirs) || lock(all).len() >= STREAMS_MAX {
        return None;
    }
    if is_seen_read(&theirs)? {
        return None;
    }
    let file = Leased::take(theirs)?;
    // It does not change any more.
    let size = file.metadata().ok()?.len();
    let mut bytes = vec![0; if size <= WHOLE { size as usize } else { HEAD }];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let end = bytes.len() as u64 == size;
    let s = ReadAhead {
        seq,
        link: link.clone(),
        file: Some(Arc::new(file)),
    };
    lock(all).insert((pid, fd), s);
    Some(Beginning { bytes, end })
}
