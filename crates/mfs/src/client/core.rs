//! What all threads of a mount share, and the way from a call of the kernel to its server.

use crate::client::caller::{self, Made};
use crate::client::keep::{Change, KEEP, Keep};
use crate::client::link;
use crate::client::options::Options;
use crate::client::owner::Owner;
use crate::client::shown_paths::{Paths, is_shown};
use crate::client::table::{Forgotten, Of, Table};
use crate::farm::{Farm, FarmNode};
use crate::fuse::{Attributes, Device, Head, Times, attr_out, entry_out};
use crate::protocol::{Attr, DirEntry, Entry, Lane, Reply, Request};
use crate::sync::lock;
use armento_model::NodeName;
use std::collections::{HashMap, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Connections at most: nodes times users.
const LINKS_MAX: usize = 4096;

/// Requests of which the caller is known: an interrupt does not say it.
const CALLERS: usize = 8192;

pub type Slow = Box<dyn FnOnce(&Arc<Core>) + Send>;

pub struct Core {
    pub device: Arc<Device>,
    pub farm: Arc<dyn Farm>,
    options: Options,
    pub table: Arc<Mutex<Table>>,
    pub keep: Keep,
    /// Names of nodes by their index here.
    pub nodes: Mutex<Vec<NodeName>>,
    pub links: Mutex<HashMap<(usize, u32), Arc<Link>>>,
    pub opens: Mutex<HashMap<u64, Arc<Open>>>,
    pub next_open: AtomicU64,
    /// Calls of this mount that wait for a lock: the request's number.
    pub waits: Mutex<HashMap<u64, (Arc<Link>, u64)>>,
    /// Calls whose process has a signal, and since when.
    pub interrupted: Mutex<HashMap<u64, (u32, Instant)>>,
    /// What asks the daemon, in a thread of its own.
    slow: SyncSender<Slow>,
    pub known: Mutex<(Vec<FarmNode>, Option<Instant>)>,
    pub made_lately: Made,
    pub shown_paths: Paths,
    /// Callers of the last requests: low halves of the request's number and of the thread's.
    callers: Vec<AtomicU64>,
}

pub type Link = link::Link<Core>;

pub struct Open {
    pub n: u64,
    pub link: Arc<Link>,
    pub flags: i32,
    pub dir: bool,
    pub roomy: AtomicBool,
    pub state: Mutex<OpenState>,
    pub batch: Mutex<Batch>,
}

pub struct OpenState {
    pub of: Of,
    /// What the server calls it.
    pub file: u64,
    /// Of a posted write.
    pub error: i32,
    /// It has locks, which end with the server's session.
    pub locked: bool,
    pub flocked: bool,
}

impl Open {
    pub fn current(&self) -> Option<u64> {
        let of = self.link.up()?;
        let s = lock(&self.state);
        (s.of == of).then_some(s.file)
    }

    pub fn take_error(&self) -> i32 {
        std::mem::take(&mut lock(&self.state).error)
    }

    pub fn fail(&self, errno: i32) {
        let mut s = lock(&self.state);
        if s.error == 0 {
            s.error = errno;
        }
    }
}

/// Entries that were fetched and not yet given to the kernel.
#[derive(Default)]
pub struct Batch {
    pub entries: VecDeque<DirEntry>,
    /// The kernel's position of the first of them.
    pub at: u64,
    /// Where the server goes on.
    pub next: u64,
    pub end: bool,
    pub filled: bool,
}

impl Batch {
    /// References that the kernel was not given.
    pub fn drain_ids(&mut self) -> Vec<(u64, u64)> {
        let ids = self
            .entries
            .drain(..)
            .filter_map(|e| e.entry.map(|x| (x.id, 1)));
        ids.collect()
    }
}

impl Owner for Core {
    fn farm(&self) -> &dyn Farm {
        &*self.farm
    }

    fn deadline(&self) -> Duration {
        self.options.deadline
    }

    fn cache(&self) -> bool {
        self.options.cache
    }

    fn point(&self) -> Vec<u8> {
        self.device.point().as_os_str().as_bytes().to_vec()
    }

    fn changed(&self, node: usize, c: Change) {
        self.keep.send(node, c);
    }
}

impl Core {
    pub fn new(
        device: Arc<Device>,
        farm: Arc<dyn Farm>,
        options: Options,
        slow: SyncSender<Slow>,
    ) -> Arc<Core> {
        let table = Arc::new(Mutex::new(Table::default()));
        let all = table.clone();
        Arc::new(Core {
            keep: Keep::new(
                device.clone(),
                Box::new(move |node| lock(&all).of_node(node)),
            ),
            device,
            farm,
            options,
            table,
            nodes: Mutex::default(),
            links: Mutex::default(),
            opens: Mutex::default(),
            next_open: AtomicU64::new(1),
            waits: Mutex::default(),
            interrupted: Mutex::default(),
            slow,
            known: Mutex::default(),
            made_lately: Made::default(),
            shown_paths: Paths::default(),
            callers: (0..CALLERS).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Runs what asks the daemon. False if too much waits for it already.
    pub fn ask(&self, job: Slow) -> bool {
        self.slow.try_send(job).is_ok()
    }

    pub fn called(&self, h: &Head) {
        // KERNEL: FUSE_REQ_ID_STEP: numbers are even.
        let slot = (h.unique >> 1) as usize % CALLERS;
        self.callers[slot].store(h.unique << 32 | u64::from(h.pid), Relaxed);
    }

    /// The thread that made a request, if that was not too long ago.
    pub fn caller(&self, unique: u64) -> Option<u32> {
        let v = self.callers[(unique >> 1) as usize % CALLERS].load(Relaxed);
        (v >> 32 == unique & 0xffff_ffff).then_some(v as u32)
    }

    pub fn error(&self, unique: u64, errno: i32) {
        self.device.reply(unique, errno, &[]);
    }

    pub fn done(&self, unique: u64) {
        self.device.reply(unique, 0, &[]);
    }

    pub fn node_index(&self, name: &NodeName) -> usize {
        let mut nodes = lock(&self.nodes);
        match nodes.iter().position(|n| n == name) {
            Some(i) => i,
            None => {
                nodes.push(name.clone());
                nodes.len() - 1
            }
        }
    }

    pub fn link(self: &Arc<Self>, node: usize, uid: u32) -> Option<Arc<Link>> {
        let mut links = lock(&self.links);
        if let Some(l) = links.get(&(node, uid)) {
            return Some(l.clone());
        }
        if links.len() >= LINKS_MAX {
            return None;
        }
        let name = lock(&self.nodes).get(node)?.clone();
        let l = Arc::new(Link::new(node, name, uid));
        links.insert((node, uid), l.clone());
        Some(l)
    }

    /// Calls `f` with the caller's link and with what its server calls the file. Otherwise the call ends with an error.
    pub fn on(
        self: &Arc<Self>,
        h: &Head,
        n: u64,
        f: impl FnOnce(&Arc<Core>, &Arc<Link>, u64) + Send + 'static,
    ) {
        let unique = h.unique;
        let Some(node) = lock(&self.table).get(n).map(|i| i.node) else {
            return self.error(unique, libc::ESTALE);
        };
        let Some(link) = self.link(node, h.uid) else {
            return self.error(unique, libc::EAGAIN);
        };
        self.on_link(&link, n, move |core, link, end| match end {
            Ok(id) => f(core, link, id),
            Err(e) => core.error(unique, e),
        });
    }

    /// The same for a link.
    pub fn on_link(
        self: &Arc<Self>,
        link: &Arc<Link>,
        n: u64,
        f: impl FnOnce(&Arc<Core>, &Arc<Link>, Result<u64, i32>) + Send + 'static,
    ) {
        if let Some(id) = link.up().and_then(|of| lock(&self.table).id(n, of)) {
            return f(self, link, Ok(id));
        }
        let me = link.clone();
        link.when_up(
            self,
            Box::new(move |core, end| match end {
                Ok(()) => core.resolve(&me, n, f),
                Err(e) => f(core, &me, Err(e)),
            }),
        );
    }

    /// Asks a server for a file that it does not know yet, by its path; it has to be the same file.
    fn resolve(
        self: &Arc<Self>,
        link: &Arc<Link>,
        n: u64,
        f: impl FnOnce(&Arc<Core>, &Arc<Link>, Result<u64, i32>) + Send + 'static,
    ) {
        let Some(of) = link.up() else {
            return f(self, link, Err(libc::EHOSTUNREACH));
        };
        let ask = {
            let t = lock(&self.table);
            if let Some(id) = t.id(n, of) {
                drop(t);
                return f(self, link, Ok(id));
            }
            t.path(n).zip(t.get(n).map(|i| i.who))
        };
        let Some((names, want)) = ask else {
            return f(self, link, Err(libc::ESTALE));
        };
        let r = Request::Resolve { names, want };
        let me = link.clone();
        link.call(self, Lane::Names, 0, &r, b"", move |core, end| match end {
            Ok((Reply::Entry(e), _)) => {
                core.enter(&me, of, &e, None, false);
                f(core, &me, Ok(e.id));
            }
            Ok(_) => f(core, &me, Err(libc::EIO)),
            Err(e) => f(core, &me, Err(e)),
        });
    }

    /// Enters what a server named. `known`: the kernel is given it.
    pub fn enter(
        &self,
        link: &Link,
        of: Of,
        e: &Entry,
        at: Option<(u64, &[u8])>,
        known: bool,
    ) -> u64 {
        let n = lock(&self.table).enter(link.node, of, e, at, known);
        link.note(of, e.id, n);
        n
    }

    /// The kernel forgets files, so many times each.
    pub fn forget(&self, list: impl Iterator<Item = (u64, u64)>) {
        let gone: Vec<_> = {
            let mut t = lock(&self.table);
            list.filter_map(|(n, times)| {
                if is_shown(n) {
                    self.shown_paths.forget(n, times);
                }
                t.forget(n, times)
            })
            .collect()
        };
        self.forgotten(gone);
    }

    /// Tells servers of files that are not used any more.
    pub fn forgotten(&self, gone: impl IntoIterator<Item = Forgotten>) {
        let mut by_link: HashMap<(usize, Of), Vec<(u64, u64)>> = HashMap::new();
        for (node, ids) in gone {
            for (of, id, refs) in ids {
                by_link.entry((node, of)).or_default().push((id, refs));
            }
        }
        for ((node, of), ids) in by_link {
            let link = lock(&self.links).get(&(node, of.uid)).cloned();
            if let Some(l) = link {
                l.forget(of, ids);
            }
        }
    }

    /// st_ino and so on of a file.
    pub fn attributes<'a>(&self, node: usize, n: u64, attr: &'a Attr) -> Attributes<'a> {
        Attributes {
            node: n,
            ino: lock(&self.table).ino(node, attr.dev, attr.ino),
            attr,
        }
    }

    pub fn times(&self, e: &Entry) -> Times {
        let keep = |yes: bool| if yes { KEEP } else { Duration::ZERO };
        Times {
            name: keep(e.name_kept),
            attr: keep(e.attr_kept),
        }
    }

    /// Answers with a file that is found under a name. Attributes that posted writes have yet to change are asked for
    /// once more, behind these.
    pub fn answer_entry(
        self: &Arc<Self>,
        link: &Arc<Link>,
        of: Of,
        unique: u64,
        e: Entry,
        at: (u64, Vec<u8>),
    ) {
        let n = self.enter(link, of, &e, Some((at.0, &at.1)), true);
        self.settle(link, n, e, move |core, node, n, e| {
            let a = core.attributes(node, n, &e.attr);
            core.device
                .reply(unique, 0, &[&entry_out(&a, core.times(&e))]);
        });
    }

    /// Calls `f` with attributes that no posted write has yet to change.
    pub fn settle(
        self: &Arc<Self>,
        link: &Arc<Link>,
        n: u64,
        e: Entry,
        f: impl FnOnce(&Arc<Core>, usize, u64, Entry) + Send + 'static,
    ) {
        let node = link.node;
        if !lock(&self.table).is_posting(n) {
            return f(self, node, n, e);
        }
        let r = Request::Getattr {
            node: e.id,
            file: None,
        };
        link.call(self, Lane::Bytes, 0, &r, b"", move |core, end| {
            let e = match end {
                Ok((Reply::Attr { attr, .. }, _)) => Entry {
                    attr,
                    attr_kept: false,
                    ..e
                },
                _ => e,
            };
            f(core, node, n, e);
        });
    }

    pub fn answer_attr(&self, node: usize, n: u64, unique: u64, attr: &Attr, kept: bool) {
        let a = self.attributes(node, n, attr);
        let keep = if kept { KEEP } else { Duration::ZERO };
        self.device.reply(unique, 0, &[&attr_out(&a, keep)]);
    }

    /// The stream on which a request about a file goes: behind writes of it that were posted.
    pub fn lane(&self, n: u64) -> Lane {
        if lock(&self.table).is_posting(n) {
            Lane::Bytes
        } else {
            Lane::Names
        }
    }

    pub fn lane_of_name(&self, dir: u64, name: &[u8]) -> Lane {
        if lock(&self.table).is_name_posting(dir, name) {
            Lane::Bytes
        } else {
            Lane::Names
        }
    }

    /// Calls `f` when all that other users of the node had posted until now is made.
    pub fn after_others(
        self: &Arc<Self>,
        node: usize,
        uid: u32,
        f: impl FnOnce(&Arc<Core>) + Send + 'static,
    ) {
        let other = lock(&self.links)
            .values()
            .find(|l| l.node == node && l.uid != uid && l.posted.load(Relaxed) > 0)
            .cloned();
        match other {
            None => f(self),
            Some(l) => {
                l.call(self, Lane::Bytes, 0, &Request::Ping, b"", move |core, _| {
                    f(core)
                });
            }
        }
    }

    /// What happens without a call: deadlines, and processes that were killed while they wait.
    pub fn tick(self: &Arc<Self>) {
        let links: Vec<_> = lock(&self.links).values().cloned().collect();
        links.iter().for_each(|l| l.tick(self));
        lock(&self.waits).retain(|u, (l, _)| l.has(*u));
        let now = Instant::now();
        let waiting: Vec<(u64, u32)> = {
            let mut i = lock(&self.interrupted);
            i.retain(|_, (_, t)| now.duration_since(*t) < Duration::from_secs(600));
            i.iter().map(|(u, (pid, _))| (*u, *pid)).collect()
        };
        for (unique, pid) in waiting {
            let there = links.iter().any(|l| l.has(unique));
            if !there || caller::is_killed(pid) && links.iter().any(|l| l.give_up(self, unique)) {
                lock(&self.interrupted).remove(&unique);
            }
        }
    }
}
