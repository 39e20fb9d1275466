//! What a checkpoint file holds of one process' body beside its pages, as bytes that only an engine of the same version
//! reads.
//!
//! From: `save.rs` writes it, `restart.rs` reads it. Next: `migrate/src/stored.rs`.

use super::attributes::Attributes;
use super::memory::Handed;
use crate::moves::{FileView, SharedView};
use armento_migrate::image::mm::Mm;
use armento_migrate::image::objects::ObjectId;
use armento_migrate::image::vdso::Vdso;
use armento_migrate::image::{Area, Cpu, Head, Kind, Layout, State, futex_wait};
use armento_migrate::pages::PageStore;
use armento_migrate::stored::Image;
use armento_migrate::{MigrateError, Result};
use armento_model::{HomePid, HomeTid, Stay};
use armento_tracee::PAGE;
use armento_tracee::pages::{self, Run};
use armento_wire::talk::{self, FileKey, Signal};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file that the body maps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MappedFile {
    pub key: FileKey,
    #[serde(with = "serde_bytes")]
    path: Vec<u8>,
    /// SHA-256 of its bytes.
    pub digest: [u8; 32],
}

impl MappedFile {
    pub fn new(key: FileKey, path: &Path, digest: [u8; 32]) -> MappedFile {
        let path = path.as_os_str().as_bytes().to_vec();
        MappedFile { key, path, digest }
    }

    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }
}

/// Signals that wait: for a thread, or for the process.
pub type Waiting = Vec<(Option<HomeTid>, Signal)>;

/// Files that a body maps: their keys and names now, by their keys then.
pub type Files = HashMap<FileKey, (FileKey, PathBuf)>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedBody {
    head: Head,
    areas: Vec<Area>,
    state: State,
    /// Threads that were in the midst of a call with a restart block of the kernel: the number of the call.
    blocks: Vec<(HomeTid, i64)>,
    /// Signals that waited at home: for a thread, or for the process.
    pub waiting: Waiting,
    /// CLOCK_MONOTONIC at the checkpoint, nanoseconds.
    clock_ns: u64,
    pub attributes: Attributes,
    pub files: Vec<MappedFile>,
}

/// A body that is to be built, and the signals that wait for it.
pub struct Begins {
    pub image: Image,
    pub waiting: Waiting,
}

impl SavedBody {
    pub fn new(
        image: Image,
        (blocks, waiting): (Vec<(HomeTid, i64)>, Waiting),
        clock_ns: u64,
        attributes: Attributes,
    ) -> SavedBody {
        SavedBody {
            head: image.head,
            areas: image.layout.areas,
            state: image.state,
            blocks,
            waiting,
            clock_ns,
            attributes,
            files: Vec::new(),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        talk::encode(self)
    }

    pub fn decode(bytes: &[u8]) -> Result<SavedBody> {
        let body: SavedBody = talk::decode(bytes, "a checkpoint")?;
        body.head.check()?;
        body.state.check()?;
        body.layout().check()?;
        Ok(body)
    }

    fn layout(&self) -> Layout {
        Layout {
            areas: self.areas.clone(),
            dropped: Vec::new(),
            later: Vec::new(),
        }
    }

    /// Its threads by their numbers then; the process' own first.
    pub fn tids(&self) -> Vec<HomeTid> {
        let leader = self.head.pid.leader();
        let others = self.state.threads.iter().map(|t| t.tid);
        let others = others.filter(|t| *t != leader);
        std::iter::once(leader).chain(others).collect()
    }

    /// The body with new numbers of its threads and of the files that it maps. `now_ns`: CLOCK_MONOTONIC.
    pub fn begin(
        mut self,
        pid: HomePid,
        tids: &HashMap<HomeTid, HomeTid>,
        (files, memory): (&Files, &HashMap<ObjectId, Handed>),
        now_ns: u64,
    ) -> Result<Begins> {
        let unknown = || lost("it names a thread that is not in it");
        let of = |tid: HomeTid| tids.get(&tid).copied().ok_or_else(unknown);
        used_elsewhere(&mut self.state.cpu);
        for t in &mut self.state.threads {
            used_elsewhere(&mut t.cpu);
            if let Some((_, nr)) = self.blocks.iter().find(|(tid, _)| *tid == t.tid) {
                t.begin_anew(*nr);
            }
            // What it still had to wait then.
            let left = t.until.map(|until| futex_wait::left(until, self.clock_ns));
            t.until = left.map(|left| now_ns.saturating_add(left.as_nanos() as u64));
            t.tid = of(t.tid)?;
        }
        for (to, _) in self.state.pending.iter_mut().chain(&mut self.waiting) {
            *to = to.map(of).transpose()?;
        }
        for a in &mut self.areas {
            match &mut a.kind {
                Kind::File { key, .. } => *key = known(files, key)?.0,
                Kind::Shared { object, .. } => *object = shared(memory, object)?.object,
                Kind::Anon | Kind::Stack => {}
            }
        }
        let layout = self.layout();
        let head = Head {
            pid,
            tids: self.state.threads.iter().map(|t| t.tid).collect(),
            areas: self.areas,
            since: None,
            ..self.head
        };
        let image = Image {
            head,
            layout,
            state: self.state,
        };
        Ok(Begins {
            image,
            waiting: self.waiting,
        })
    }

    /// Its mappings of files.
    pub fn views(&self, files: &Files) -> Result<Vec<FileView>> {
        let view = |a: &Area| match &a.kind {
            Kind::File { key, off, shared } => {
                Some(known(files, key).map(|(now, path)| FileView {
                    start: a.start,
                    end: a.end,
                    prot: a.prot,
                    off: *off,
                    shared: *shared,
                    path: path.clone(),
                    key: *now,
                }))
            }
            _ => None,
        };
        self.areas.iter().filter_map(view).collect()
    }

    /// Its mappings of memory that processes share.
    pub fn shared_views(&self, memory: &HashMap<ObjectId, Handed>) -> Result<Vec<SharedView>> {
        let view = |a: &Area| match &a.kind {
            Kind::Shared { object, off } => Some(shared(memory, object).map(|m| SharedView {
                start: a.start,
                end: a.end,
                prot: a.prot,
                off: *off,
                fd: m.fd,
            })),
            _ => None,
        };
        self.areas.iter().filter_map(view).collect()
    }

    /// The vDSO with which it was begun first.
    pub fn vdso(&self) -> Option<Vdso> {
        self.state.mm.vdso
    }

    /// Of each thread the blocked signals that it reads from descriptors.
    pub fn waits_at_home(&self) -> impl Iterator<Item = (HomeTid, u64)> {
        let read = self.state.signalfds;
        self.state
            .threads
            .iter()
            .map(move |t| (t.tid, t.mask & read))
    }

    /// Handler and flags of SIGCHLD.
    pub fn child_action(&self) -> [u64; 2] {
        let action = self.state.actions.get(libc::SIGCHLD as usize - 1);
        action.map_or([0, 0], |a| [a[0], a[1]])
    }

    pub fn numbers(&self) -> &Mm {
        &self.state.mm
    }

    /// From the first page of the arguments to the end of its stack, with the bytes. `None`: they are elsewhere.
    pub fn kept_stack(&self, pages: &PageStore) -> Result<Option<(u64, Vec<u8>)>> {
        let stack = self.areas.iter().find(|a| a.kind == Kind::Stack);
        let from = self.state.mm.fields[ARG_START] & !(PAGE - 1);
        let Some(stack) = stack.filter(|s| s.start <= from && from < s.end) else {
            return Ok(None);
        };
        if stack.end - from > KEPT_MAX {
            return Ok(None);
        }
        let mut bytes = vec![0; (stack.end - from) as usize];
        pages.read_run((from, stack.end), &mut bytes)?;
        Ok(Some((from, bytes)))
    }

    /// Its memory, sorted.
    pub fn there(&self) -> Vec<Run> {
        let all = self.areas.iter().map(Area::run).collect();
        pages::union(all, &[])
    }

    /// Puts the new numbers of its threads where the C library keeps them. Returns the threads whose number is not there.
    pub fn renumber(
        &self,
        tids: &HashMap<HomeTid, HomeTid>,
        pages: &mut PageStore,
    ) -> Result<Vec<HomeTid>> {
        let mut unknown = Vec::new();
        for t in &self.state.threads {
            let Some(new) = tids.get(&t.tid).filter(|new| **new != t.tid) else {
                continue;
            };
            let base = t.regs.get(FS_BASE).copied().unwrap_or(0);
            let (old, new) = (t.tid.at_home(), new.at_home());
            let mut found = pages.replace(t.clear_tid, old, new)?;
            for at in TID_PLACES {
                found |= pages.replace(base.wrapping_add(at), old, new)?;
            }
            if !found {
                unknown.push(t.tid);
            }
        }
        Ok(unknown)
    }
}

/// Place of the arguments' address in [`Mm::fields`].
const ARG_START: usize = 7;

/// KERNEL: execve(2): arguments and environment take a quarter of the stack's limit, 6 MiB at most.
const KEPT_MAX: u64 = 8 << 20;

/// Index of fs_base among the words of the registers (`migrate/src/image/thread.rs`).
const FS_BASE: usize = 21;

/// Where C libraries keep the number of a thread, from its fs_base on, if not in the word that the kernel clears at its end
/// (set_tid_address(2)): glibc 2.26 to 2.41 (`struct pthread`, nptl/descr.h), musl 1.2
/// (`struct pthread`, src/internal/pthread_impl.h).
const TID_PLACES: [u64; 2] = [0x2d0, 0x30];

fn known<'a>(files: &'a Files, key: &FileKey) -> Result<&'a (FileKey, PathBuf)> {
    let missing = || lost("it maps a file that is not in it");
    files.get(key).ok_or_else(missing)
}

fn shared<'a>(memory: &'a HashMap<ObjectId, Handed>, object: &ObjectId) -> Result<&'a Handed> {
    let missing = || lost("it maps shared memory that is not in it");
    memory.get(object).ok_or_else(missing)
}

/// A kernel that counts from zero takes the place of home's.
fn used_elsewhere(cpu: &mut Cpu) {
    cpu.away = cpu.away + std::mem::take(&mut cpu.home);
}

fn lost(why: &str) -> MigrateError {
    MigrateError::Stays(Stay::TargetFailed, why.into())
}
