//! Which directories a host knows, and what has become of them.

use super::directory::Directory;
use super::files::{Files, Wanted};
use super::requests::Requests;
use super::sys;
use crate::sync::lock;
use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Directories that a host knows at once. Each costs a system call at every message to it.
const KNOWN_MAX: usize = 256;
/// … and all of them together have so many bytes of names.
const BYTES_MAX: usize = 4 << 20;
/// How long a host knows a directory without asking again. To look for programs that watch it, and to read it, is a fifth of
/// what a keeper does for a dozen compilers if that is repeated every two seconds.
const KNOWN_FOR: Duration = Duration::from_secs(5);
/// How long a directory that cannot be known is not looked at again: it may be long, and each lookup in it asks.
const REFUSED_FOR: Duration = Duration::from_secs(10);
const REFUSED_MAX: usize = 1024;
/// How long no file is leased after a call that would see it: by then it has been made.
const NO_LEASES: Duration = Duration::from_secs(1);
/// Files of one directory of which a host is told with one that it asks for, because it may ask for them next: first so
/// many, then four times as many with each request …
const FIRST: u32 = 16;
/// … up to this.
const FILES_OF_ONE_MAX: usize = 512;
/// Files that are looked at in one go: each takes some 8 microseconds, and messages to the host wait meanwhile.
const FILES_AT_ONCE: usize = 32;

/// struct inotify_event: watch i32, mask u32, cookie u32, length u32, name. KERNEL: inotify(7).
const EVENT: usize = 16;

/// Whether a host knows a directory now.
#[derive(Debug, PartialEq, Eq)]
pub enum Learned {
    Yes,
    /// Not now: too many are known, or something has changed meanwhile.
    Later,
    /// It cannot be read or watched, or has too many names.
    No,
}

/// What a host must not rely on any more.
#[derive(Debug, PartialEq, Eq)]
pub enum Forgotten {
    All,
    /// What lies at or below the paths `below`, and the attributes of `files`.
    Some {
        below: Vec<Vec<u8>>,
        files: Vec<Vec<u8>>,
    },
}

/// A name in a known directory, and what statx(2) says of it; nothing if that is not told.
pub type Told = (Vec<u8>, Vec<u8>);

#[derive(Default)]
pub struct Names {
    /// The host knows some directory.
    some: AtomicBool,
    st: Mutex<State>,
    pub requests: Requests,
}

#[derive(Default)]
struct State {
    inotify: Option<OwnedFd>,
    mountinfo: Option<File>,
    /// By the number of their watch: one directory may have several paths.
    known: HashMap<i32, Known>,
    files: Files,
    /// No directory is opened before.
    unopened_before: Option<Instant>,
    /// No file is leased before.
    none_before: Option<Instant>,
    /// Paths of directories that cannot be known, and until when that is not tried again.
    refused: HashMap<Vec<u8>, Instant>,
}

struct Known {
    directory: Directory,
    paths: Vec<Vec<u8>>,
    bytes: usize,
    until: Instant,
    /// How often a host asked for the attributes of a file in it.
    asked: u32,
    /// Its regular files by name, once they are needed.
    files: Option<Vec<Vec<u8>>>,
    /// Names of which it was told, or which it will not be.
    told: HashSet<Vec<u8>>,
}

impl Names {
    /// Waits for a request or for a change in a known directory, at most so long.
    pub fn wait(&self, limit: Duration) {
        let inotify = lock(&self.st)
            .inotify
            .as_ref()
            .and_then(|i| i.try_clone().ok());
        self.requests.wait(inotify.as_ref(), limit);
    }

    pub fn knows_some(&self) -> bool {
        self.some.load(Ordering::SeqCst)
    }

    /// Before a message to the host is sent: `tell` sends what it must forget first. What the message says may be later
    /// than that, but not earlier.
    pub fn settle(&self, tell: impl FnOnce(Forgotten)) {
        if self.knows_some() {
            let mut st = lock(&self.st);
            st.known.values().for_each(|k| k.directory.settle());
            self.drain(&mut st, tell);
        }
    }

    /// As [`Names::settle`]; then `send` sends what it reads of a directory, before anything else of names is sent. It is
    /// told whether the host knows that directory: then no program of the tree watches it.
    pub fn settle_and(&self, m: &Metadata, tell: impl FnOnce(Forgotten), send: impl FnOnce(bool)) {
        let mut st = lock(&self.st);
        st.known.values().for_each(|k| k.directory.settle());
        self.drain(&mut st, tell);
        let id = (m.dev(), m.ino());
        send(st.known.values().any(|k| k.directory.id == id));
    }

    /// The same without waiting for changes that are being made; and what is known for long is forgotten.
    pub fn look(&self, now: Instant, tell: impl FnOnce(Forgotten)) {
        let mut st = lock(&self.st);
        st.expire(now);
        self.drain(&mut st, tell);
    }

    fn drain(&self, st: &mut MutexGuard<'_, State>, tell: impl FnOnce(Forgotten)) {
        if let Some(forgotten) = st.forgotten() {
            // Under the lock: another thread's message must not pass it.
            tell(forgotten);
        }
        self.some.store(!st.known.is_empty(), Ordering::SeqCst);
    }

    /// Whether the host knows the directory at this path.
    pub fn has(&self, path: &[u8]) -> bool {
        let st = lock(&self.st);
        st.known.values().any(|k| k.paths.iter().any(|p| p == path))
    }

    /// The directory at this path cannot be known.
    pub fn refuse(&self, path: &[u8], now: Instant) {
        let refused = &mut lock(&self.st).refused;
        refused.retain(|_, until| *until > now);
        if refused.len() < REFUSED_MAX {
            refused.insert(path.to_vec(), now + REFUSED_FOR);
        }
    }

    pub fn is_refused(&self, path: &[u8], now: Instant) -> bool {
        lock(&self.st).refused.get(path).is_some_and(|t| *t > now)
    }

    /// Watches a directory, reads it, and has `tell` send its entries to the host. What is known above it may have changed
    /// since it was opened: then `forget` sends that.
    pub fn learn(
        &self,
        path: &[u8],
        d: Directory,
        tell: impl FnOnce(&Directory, Vec<u8>, Option<Vec<u8>>),
        forget: impl FnOnce(Forgotten),
    ) -> Learned {
        let mut st = lock(&self.st);
        let barred = st.unopened_before.is_some_and(|t| Instant::now() < t);
        if barred || st.known.len() >= KNOWN_MAX {
            return Learned::Later;
        }
        if st.prepare().is_none() {
            return Learned::No;
        }
        let Some(inotify) = &st.inotify else {
            return Learned::No;
        };
        let Ok(wd) = sys::watch(inotify, &d.file) else {
            return Learned::No;
        };
        // Before it is read: a change meanwhile is told afterwards.
        self.some.store(true, Ordering::SeqCst);
        let room = BYTES_MAX - st.known.values().map(|k| k.bytes).sum::<usize>();
        let Some(names) = d.read().ok().flatten().filter(|n| n.len() <= room) else {
            if !st.known.contains_key(&wd) {
                st.unwatch(wd);
            }
            self.some.store(!st.known.is_empty(), Ordering::SeqCst);
            return Learned::No;
        };
        let own = d.attributes();
        let bytes = names.len();
        // Among the known ones before the events are taken: one of them may be its own.
        let k = st.known.entry(wd).or_insert_with(|| Known {
            directory: d,
            paths: Vec::new(),
            bytes,
            until: Instant::now(),
            asked: 0,
            files: None,
            told: HashSet::new(),
        });
        k.paths.push(path.to_vec());
        k.until = Instant::now() + KNOWN_FOR;
        // Renamed since it was opened, it would be known by a path at which another one may lie.
        st.known.values().for_each(|k| k.directory.settle());
        if let Some(forgotten) = st.forgotten() {
            forget(forgotten);
            st.untold(wd, path);
            self.some.store(!st.known.is_empty(), Ordering::SeqCst);
            return Learned::Later;
        }
        if let Some(k) = st.known.get(&wd) {
            tell(&k.directory, names, own);
        }
        Learned::Yes
    }

    /// Which files of a known directory the host is to be told of, since it asked for `name`: with each request more of
    /// those that follow it in the order of their names, as a reader's window grows. `None`: the directory is not known any
    /// more.
    /// `scans`: its program asks for one file after the other, so that the first request here is not its first.
    pub fn wanted_files(&self, path: &[u8], name: &[u8], scans: bool) -> Option<Vec<Vec<u8>>> {
        let mut st = lock(&self.st);
        let k = st.at(path)?;
        k.asked = (k.asked + 1).max(1 + u32::from(scans));
        let mut names = vec![name.to_vec()];
        if k.asked > 1 {
            let more = FIRST << (2 * (k.asked - 2)).min(16);
            let all = k.files.get_or_insert_with(|| {
                let mut all = k.directory.files();
                all.sort_unstable();
                all
            });
            let after = all.partition_point(|n| n.as_slice() <= name);
            let next = all[after..].iter().chain(&all[..after]);
            let new = next.filter(|n| !k.told.contains(*n)).cloned();
            names.extend(new.take((more as usize).min(FILES_OF_ONE_MAX)));
        }
        names.retain(|n| !k.told.contains(n));
        Some(names)
    }

    /// Has `tell` send the attributes of files in a known directory.
    pub fn learn_files(
        &self,
        path: &[u8],
        names: Vec<Vec<u8>>,
        unwatched: &dyn Fn(u64) -> bool,
        tell: impl Fn(bool, Vec<Told>),
    ) -> Option<()> {
        for part in names.chunks(FILES_AT_ONCE) {
            // Others send messages between.
            let mut st = lock(&self.st);
            let st = &mut *st;
            if st.none_before.is_some_and(|t| Instant::now() < t) {
                return None;
            }
            let k = st
                .known
                .values_mut()
                .find(|k| k.paths.iter().any(|p| p == path))?;
            let inotify = st.inotify.as_ref()?;
            let dir = (&k.directory.file, k.directory.id.0);
            let mut list = Vec::new();
            for name in part.iter().filter(|n| !k.told.contains(*n)) {
                let at = join(path, name);
                let told = match st.files.has_room() {
                    true => st.files.learn(inotify, dir, (name, at), unwatched),
                    false => None,
                };
                list.push((name.clone(), told.unwrap_or_default()));
            }
            k.told.extend(list.iter().map(|(name, _)| name.clone()));
            tell(k.directory.tells_birth(), list);
        }
        Some(())
    }

    /// A process waits to write a file that is leased here: the host forgets it, and then that process goes on. `fd`: the
    /// descriptor of the lease; `None`: any of them.
    pub fn give_back(&self, fd: Option<RawFd>, tell: impl FnOnce(Forgotten)) {
        self.end_files(tell, |files, inotify| files.wanted(inotify, fd));
    }

    /// A call is about to be made that would see the leases, or a process has come home that may make one: none is taken
    /// for a while.
    pub fn give_all_back(&self, tell: impl FnOnce(Forgotten)) {
        lock(&self.st).none_before = Some(Instant::now() + NO_LEASES);
        self.end_files(tell, Files::all);
    }

    /// A program is about to watch something: it would see what is open here being closed. Nothing is opened for a while.
    pub fn close_all(&self, tell: impl FnOnce(Forgotten)) {
        let mut st = lock(&self.st);
        let until = Some(Instant::now() + NO_LEASES);
        (st.none_before, st.unopened_before) = (until, until);
        if let Some(forgotten) = st.forget_all() {
            tell(forgotten);
        }
        self.some.store(false, Ordering::SeqCst);
        drop(st);
        armento_leases::settle();
    }

    fn end_files(
        &self,
        tell: impl FnOnce(Forgotten),
        which: impl FnOnce(&mut Files, &OwnedFd) -> Wanted,
    ) {
        let mut st = lock(&self.st);
        let st = &mut *st;
        let Some(inotify) = st.inotify.as_ref().filter(|_| !st.files.is_empty()) else {
            return;
        };
        let mut wanted = which(&mut st.files, inotify);
        if wanted.is_empty() {
            return;
        }
        let files = std::mem::take(&mut wanted.paths);
        st.untell(&files);
        let below = Vec::new();
        tell(Forgotten::Some { below, files });
        drop(wanted);
        armento_leases::settle();
    }
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let dir = if dir == b"/" { b"" } else { dir };
    [dir, b"/", name].concat()
}

impl State {
    fn at(&mut self, path: &[u8]) -> Option<&mut Known> {
        let mut all = self.known.values_mut();
        all.find(|k| k.paths.iter().any(|p| p == path))
    }

    /// The host was not told of a directory by this path after all.
    fn untold(&mut self, wd: i32, path: &[u8]) {
        if let Some(k) = self.known.get_mut(&wd) {
            k.paths.retain(|p| p != path);
            if k.paths.is_empty() {
                self.known.remove(&wd);
                self.unwatch(wd);
            }
        }
    }

    /// The host will ask for these files again, if it wants to.
    fn untell(&mut self, files: &[Vec<u8>]) {
        for path in files {
            let (dir, name) = split(path);
            if let Some(k) = self.at(dir) {
                k.told.remove(name);
            }
        }
    }

    fn prepare(&mut self) -> Option<()> {
        if self.inotify.is_none() {
            let mountinfo = File::open("/proc/self/mountinfo").ok()?;
            sys::mounts_changed(&mountinfo);
            self.inotify = Some(sys::inotify().ok()?);
            self.mountinfo = Some(mountinfo);
        }
        Some(())
    }

    fn unwatch(&self, wd: i32) {
        if let Some(inotify) = &self.inotify {
            sys::unwatch(inotify, wd);
        }
    }

    fn forget_all(&mut self) -> Option<Forgotten> {
        let all = std::mem::take(&mut self.known);
        all.keys().for_each(|wd| self.unwatch(*wd));
        self.end_unknown();
        (!all.is_empty()).then_some(Forgotten::All)
    }

    /// Ends what is known of files in directories that are not known.
    fn end_unknown(&mut self) {
        if let Some(inotify) = &self.inotify {
            let known = |path: &[u8]| {
                let mut all = self.known.values();
                all.any(|k| k.paths.iter().any(|p| p == split(path).0))
            };
            self.files.retain(inotify, known);
        }
    }

    /// Ends what is known for long; told with the next [`State::forgotten`], by an event of their own.
    fn expire(&mut self, now: Instant) {
        let old: Vec<i32> = self
            .known
            .iter()
            .filter(|(_, k)| k.until <= now)
            .map(|(wd, _)| *wd)
            .collect();
        // KERNEL: IN_IGNORED follows.
        old.iter().for_each(|wd| self.unwatch(*wd));
    }

    /// Takes the events that wait.
    fn forgotten(&mut self) -> Option<Forgotten> {
        let changed = self.mountinfo.as_ref().is_some_and(sys::mounts_changed);
        if changed {
            return self.forget_all();
        }
        let (mut paths, mut files) = (Vec::new(), Vec::new());
        while let Some(inotify) = &self.inotify
            && sys::waiting(inotify) > 0
        {
            let mut buf = vec![0u8; 16 << 10];
            let Some(n) = sys::read_events(inotify, &mut buf) else {
                break;
            };
            for (wd, mask) in events(&buf[..n]) {
                if mask & libc::IN_Q_OVERFLOW != 0 {
                    // What was taken from the queue before is told by this, too.
                    self.forget_all();
                    return Some(Forgotten::All);
                }
                if let Some(k) = self.known.remove(&wd) {
                    self.unwatch(wd);
                    paths.extend(k.paths);
                } else if let Some(inotify) = &self.inotify {
                    files.extend(self.files.changed(inotify, wd));
                }
            }
        }
        self.untell(&files);
        if paths.is_empty() {
            let below = paths;
            return (!files.is_empty()).then_some(Forgotten::Some { below, files });
        }
        // What lies below may be another directory from now on.
        let below: Vec<i32> = self
            .known
            .iter()
            .filter(|(_, k)| {
                k.paths
                    .iter()
                    .any(|p| paths.iter().any(|top| is_below(p, top)))
            })
            .map(|(wd, _)| *wd)
            .collect();
        for wd in below {
            if let Some(k) = self.known.remove(&wd) {
                self.unwatch(wd);
                paths.extend(k.paths);
            }
        }
        self.end_unknown();
        let below = paths;
        Some(Forgotten::Some { below, files })
    }
}

/// The directory and the name of a path without symbolic links.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|c| *c == b'/') {
        Some(0) | None => (b"/", path.strip_prefix(b"/").unwrap_or(path)),
        Some(at) => (&path[..at], &path[at + 1..]),
    }
}

/// Whether `path` is `top` or lies below it.
fn is_below(path: &[u8], top: &[u8]) -> bool {
    top == b"/"
        || path
            .strip_prefix(top)
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Watch and mask of each event. The attributes of an entry do not matter, those of the directory do: its event has no
/// name.
fn events(buf: &[u8]) -> Vec<(i32, u32)> {
    let (mut all, mut at) = (Vec::new(), 0);
    while let Some(e) = buf.get(at..at + EVENT) {
        let word = |i: usize| u32::from_ne_bytes([e[i], e[i + 1], e[i + 2], e[i + 3]]);
        let (wd, mask, len) = (word(0) as i32, word(4), word(12) as usize);
        let of_entry = mask & libc::IN_ATTRIB != 0 && len > 0;
        if !of_entry {
            all.push((wd, mask));
        }
        at += EVENT + len;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::directory::open;
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("armento-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("a/b")).expect("made");
        dir.canonicalize().expect("it is there")
    }

    fn learn(n: &Names, path: &Path) -> bool {
        let path = path.as_os_str().as_bytes();
        open(path).is_some_and(|d| n.learn(path, d, |_, _, _| {}, |_| {}) == Learned::Yes)
    }

    fn told(n: &Names) -> Option<Forgotten> {
        let mut told = None;
        n.settle(|f| told = Some(f));
        told
    }

    #[test]
    fn a_change_is_told_before_the_next_message_and_once() {
        let dir = scratch("known");
        let n = Names::default();
        if !learn(&n, &dir) {
            return;
        }
        assert!(learn(&n, &dir.join("a")) && learn(&n, &dir.join("a/b")));
        assert_eq!(told(&n), None);
        std::fs::write(dir.join("a/new"), "").expect("written");
        let Some(Forgotten::Some {
            below: mut paths, ..
        }) = told(&n)
        else {
            panic!("it was not told");
        };
        paths.sort();
        let path = |p: &str| dir.join(p).as_os_str().as_bytes().to_vec();
        assert_eq!(paths, [path("a"), path("a/b")]);
        assert_eq!(told(&n), None);
        assert!(n.has(dir.as_os_str().as_bytes()) && !n.has(&path("a")));
        n.look(Instant::now() + KNOWN_FOR * 2, |_| {});
        assert!(!n.knows_some(), "nothing is known for ever");
        std::fs::remove_dir_all(dir).expect("removed");
    }

    #[test]
    fn a_directory_that_was_renamed_since_it_was_opened_is_not_known() {
        let dir = scratch("renamed");
        let n = Names::default();
        if !learn(&n, &dir) {
            return;
        }
        let path = dir.join("a");
        let path = path.as_os_str().as_bytes();
        let d = open(path).expect("its parent could be known");
        std::fs::rename(dir.join("a"), dir.join("moved")).expect("renamed");
        let mut forgotten = None;
        let learned = n.learn(
            path,
            d,
            |_, _, _| panic!("it was sent"),
            |f| forgotten = Some(f),
        );
        assert_eq!(learned, Learned::Later);
        let parent = dir.as_os_str().as_bytes().to_vec();
        let (below, files) = (vec![parent, path.to_vec()], Vec::new());
        assert_eq!(forgotten, Some(Forgotten::Some { below, files }));
        assert!(!n.knows_some());
        std::fs::remove_dir_all(dir).expect("removed");
    }

    #[test]
    fn a_directory_that_cannot_be_known_is_tried_again_later() {
        let (n, now) = (Names::default(), Instant::now());
        n.refuse(b"/long", now);
        let soon = now + REFUSED_FOR / 2;
        assert!(n.is_refused(b"/long", soon) && !n.is_refused(b"/other", soon));
        assert!(!n.is_refused(b"/long", now + REFUSED_FOR));
        for i in 0..2 * REFUSED_MAX {
            n.refuse(i.to_string().as_bytes(), now);
        }
        assert!(lock(&n.st).refused.len() <= REFUSED_MAX);
    }

    #[test]
    fn paths_below_are_told_apart_from_longer_names() {
        assert!(is_below(b"/a/b", b"/a") && is_below(b"/a", b"/a") && is_below(b"/x", b"/"));
        assert!(!is_below(b"/ab", b"/a") && !is_below(b"/a", b"/a/b"));
    }
}
