//! Descriptors that hosts read ahead, and what an open sends of its file.

use crate::names::{entries, is_seen_read};
use crate::sync::lock;
use armento_leases::Leased;
use armento_model::{HomePid, Pid};
use armento_wire::talk::{Beginning, ToHost};
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

/// A descriptor that is read ahead. `file`: its description, with the lease; `None` while we look, when a process wants to
/// write, and of a directory.
pub struct ReadAhead<L> {
    pub seq: u32,
    pub link: Arc<L>,
    pub file: Option<Arc<Leased>>,
    /// Where the program stands in it; kept only of a program that is kept safe.
    pub at: u64,
}

/// A process wants to write what is read ahead: its host is told, and then the writer goes on. What the host serves until
/// it hears of that was read before the write, as far as any process can tell. `of`: of which hosts.
/// `send` must not wait.
pub fn end_wanted<L>(all: &ReadAheads<L>, of: impl Fn(&L) -> bool, send: impl Fn(&L, &ToHost)) {
    for ((pid, fd), s) in lock(all).iter_mut().filter(|(_, s)| of(&s.link)) {
        if s.file.as_ref().is_some_and(|f| f.is_wanted()) {
            let off = ToHost::AheadOff {
                pid: HomePid::of_home(*pid),
                fd: *fd,
            };
            send(&s.link, &off);
            s.file = None;
        }
    }
}

/// A descriptor that was just opened for reading only: no other one has its description yet.
pub struct Opened<'a, L> {
    pub all: &'a ReadAheads<L>,
    pub link: &'a Arc<L>,
    pub descriptor: (Pid, i32),
    pub seq: u32,
}

impl<L> Opened<'_, L> {
    /// The beginning of its file. `theirs`: its description. `None` also where our reading would set its time of access: the
    /// program may never read it.
    pub fn file(&self, theirs: File, m: &Metadata) -> Option<Beginning> {
        if m.len() == 0 || !self.has_room(&theirs) || is_seen_read(&theirs)? {
            return None;
        }
        let file = Leased::take(theirs)?;
        // It does not change any more.
        let size = file.metadata().ok()?.len();
        let mut bytes = vec![0; if size <= WHOLE { size as usize } else { HEAD }];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let end = bytes.len() as u64 == size;
        self.remember(Some(Arc::new(file)));
        Some(Beginning {
            bytes,
            end,
            directory: false,
        })
    }

    /// The entries of its directory, if it may be `read`: a program that watches it would see us read.
    pub fn directory(&self, theirs: &File, read: bool) -> Option<Beginning> {
        if !self.has_room(theirs) {
            return None;
        }
        let (mut bytes, mut end) = (Vec::new(), false);
        if read && !is_seen_read(theirs)? {
            (bytes, end) = entries(theirs, WHOLE as usize)?;
        }
        self.remember(None);
        Some(Beginning {
            bytes,
            end,
            directory: true,
        })
    }

    fn has_room(&self, theirs: &File) -> bool {
        crate::sys::only_reads(theirs) && lock(self.all).len() < STREAMS_MAX
    }

    fn remember(&self, file: Option<Arc<Leased>>) {
        let s = ReadAhead {
            seq: self.seq,
            link: self.link.clone(),
            file,
            at: 0,
        };
        lock(self.all).insert(self.descriptor, s);
    }
}
