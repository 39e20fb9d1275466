//! Sends a host the directories that a program looks in, so that the next lookups need no answer.
//!
//! From: `dispatch.rs`, `keeper/src/deputy/wait_loop.rs` (the requests). Next: `host/src/state/names.rs`.

use crate::deputy::{HostLink, end_wanted};
use crate::names::{self, Directory, Learned, Request, Told};
use crate::observers::watched_inodes;
use crate::state::Keep;
use armento_model::{HomePid, Pid};
use armento_tracee::status;
use armento_wire::talk::ToHost;
use serde_bytes::ByteBuf;
use std::cell::OnceCell;
use std::ffi::OsStr;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often what is known for long is looked for.
const LOOK: Duration = Duration::from_millis(250);
/// … while the host knows some directory; else whether it is still there.
const REST: Duration = Duration::from_secs(30);
/// KERNEL: path_resolution(7): symbolic links in one lookup.
const LINKS_MAX: usize = 40;
/// KERNEL: PATH_MAX.
const PATH_MAX: usize = 4096;

/// Serves the requests of one host until it is gone.
pub fn serve(keep: &Keep, link: &Arc<HostLink>) {
    while !link.session.is_over() {
        let limit = match link.names.knows_some() {
            true => LOOK,
            false => REST,
        };
        link.names.wait(limit);
        link.names.look(Instant::now(), |f| link.forget_names(f));
        while let Some(r) = link.names.requests.next() {
            let _ = walk(keep, link, &r);
            if let Some(tid) = r.held {
                link.names.requests.let_go(tid);
            }
        }
    }
}

/// Sends the directories on a path that the host does not know yet. `None`: the process may see other names than we do,
/// it is gone, or a lookup there does not depend on names alone.
fn walk(keep: &Keep, link: &Arc<HostLink>, r: &Request) -> Option<()> {
    keep.deputy_of(link, r.pid)?;
    if !sees_the_same(r.pid) {
        return None;
    }
    // What a program watches is not read: it would see that.
    let watched = OnceCell::new();
    let unwatched = |ino| !watched.get_or_init(|| watched_inodes(keep)).contains(&ino);
    // Its host answers nothing for a process of which this is not known.
    let base = working_directory(link, r)?;
    let mut at = match r.path.first()? {
        b'/' => Vec::new(),
        _ => base,
    };
    let (mut links, mut rest) = (0, components(&r.path));
    while let Some(name) = rest.pop() {
        match name.as_slice() {
            b"." => continue,
            b".." => {
                let up = at.iter().rposition(|c| *c == b'/').unwrap_or(0);
                at.truncate(up);
                continue;
            }
            _ => {}
        }
        if !known(link, &at, &unwatched) {
            return None;
        }
        let dir = if at.is_empty() {
            b"/".to_vec()
        } else {
            at.clone()
        };
        let mut next = at.clone();
        next.push(b'/');
        next.extend_from_slice(&name);
        if next.len() >= PATH_MAX {
            return None;
        }
        let path = Path::new(OsStr::from_bytes(&next));
        let kind = std::fs::symlink_metadata(path).ok()?.file_type();
        if kind.is_symlink() {
            let target = std::fs::read_link(path).ok()?.into_os_string().into_vec();
            links += 1;
            if links > LINKS_MAX {
                return None;
            }
            if target.first() == Some(&b'/') {
                at.clear();
            }
            rest.extend(components(&target));
            let path = next;
            link.send(&ToHost::Link { path, target });
        } else if kind.is_dir() {
            at = next;
        } else {
            if r.attributes && kind.is_file() && rest.is_empty() {
                let wanted = link.names.wanted_files(&dir, &name, r.held.is_some())?;
                let tell = |birth, list| send_attributes(link, &dir, birth, list);
                link.names.learn_files(&dir, wanted, &unwatched, tell)?;
            }
            return Some(());
        }
    }
    if r.attributes {
        known(link, &at, &unwatched);
    }
    Some(())
}

fn send_attributes(link: &HostLink, dir: &[u8], birth: bool, list: Vec<Told>) {
    let bytes = |(name, told): Told| (ByteBuf::from(name), ByteBuf::from(told));
    link.send_bounded(&ToHost::Attributes {
        path: dir.to_vec(),
        birth,
        list: list.into_iter().map(bytes).collect(),
    });
}

/// A process waits to write a file of which hosts know the attributes, or which they read ahead. `fd`: the descriptor of our
/// lease, if that is known.
pub fn end_wanted_leases(keep: &Keep, fd: Option<RawFd>) {
    for link in keep.hosts.all() {
        link.names.give_back(fd, |f| link.forget_names(f));
    }
    end_wanted(&keep.readaheads, |_| true, |link, m| link.send_bounded(m));
}

/// Before a call that our leases would be seen by: an open for writing that does not wait for them, and a lease of the
/// program's own. And before one that watches: it would see what we close. KERNEL: fcntl(2), F_SETLEASE.
pub fn end_seen_leases(keep: &Keep, nr: i64, args: &[u64; 6]) {
    let hurries = |flags: u64| {
        let flags = flags as i32;
        flags & libc::O_NONBLOCK != 0 && flags & (libc::O_ACCMODE | libc::O_TRUNC) != 0
    };
    let sees = match nr {
        libc::SYS_open => hurries(args[1]),
        libc::SYS_openat => hurries(args[2]),
        libc::SYS_openat2 => true,
        libc::SYS_fcntl => args[1] as i32 == libc::F_SETLEASE,
        _ => false,
    };
    let watches = [libc::SYS_inotify_add_watch, libc::SYS_fanotify_mark].contains(&nr);
    if sees {
        end_leases_of_attributes(keep);
    } else if watches {
        for link in keep.hosts.all() {
            link.names.close_all(|f| link.forget_names(f));
        }
    }
}

/// Hosts forget the attributes of all files, which have no lease of ours for a while.
pub fn end_leases_of_attributes(keep: &Keep) {
    for link in keep.hosts.all() {
        link.names.give_all_back(|f| link.forget_names(f));
    }
}

/// Names of a path, the last first.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|c| *c == b'/').filter(|c| !c.is_empty());
    names.rev().map(<[u8]>::to_vec).collect()
}

/// Has the host know a directory; `at` is empty for the root.
fn known(link: &HostLink, at: &[u8], unwatched: &impl Fn(u64) -> bool) -> bool {
    let path = if at.is_empty() { b"/" } else { at };
    let now = Instant::now();
    if link.names.has(path) {
        return true;
    }
    if link.names.is_refused(path, now) {
        return false;
    }
    let learned = learn(link, path, unwatched);
    if learned == Learned::No {
        link.names.refuse(path, now);
    }
    learned == Learned::Yes
}

fn learn(link: &HostLink, path: &[u8], unwatched: &impl Fn(u64) -> bool) -> Learned {
    let ino = std::fs::metadata(OsStr::from_bytes(path)).map(|m| m.ino());
    if !ino.is_ok_and(unwatched) {
        return Learned::No;
    }
    let Some(d) = names::open(path) else {
        return Learned::No;
    };
    let tell = |d: &Directory, names: Vec<u8>, own: Option<Vec<u8>>| {
        let m = ToHost::Directory {
            path: path.to_vec(),
            id: d.id,
            guarded: d.guarded,
            names,
        };
        link.send_bounded(&m);
        let list = vec![(Vec::new(), own.unwrap_or_default())];
        send_attributes(link, path, d.tells_birth(), list);
    };
    link.names.learn(path, d, tell, |f| link.forget_names(f))
}

fn working_directory(link: &HostLink, r: &Request) -> Option<Vec<u8>> {
    let place = format!("/proc/{}/cwd", r.pid);
    let path = std::fs::read_link(&place).ok()?.into_os_string().into_vec();
    let (there, named) = (std::fs::metadata(&place).ok()?, path.clone());
    let named = std::fs::metadata(OsStr::from_bytes(&named)).ok()?;
    let id = (there.dev(), there.ino());
    // A directory that was removed has another name there, or none.
    if path.first() != Some(&b'/') || id != (named.dev(), named.ino()) {
        return None;
    }
    let told = path.clone();
    link.send(&ToHost::WorkingDirectory {
        pid: HomePid::of_home(r.pid),
        seq: r.seq,
        path: told,
        id,
    });
    Some(if path == b"/" { Vec::new() } else { path })
}

/// Whether a process has our user, user namespace, root directory and mounts, and no security module tells it from us.
fn sees_the_same(pid: Pid) -> bool {
    let id = |pid: &str| {
        let place = |what: &str| std::fs::metadata(format!("/proc/{pid}/{what}"));
        let root = place("root").ok().map(|m| (m.dev(), m.ino()));
        let mounts = place("ns/mnt").ok().map(|m| m.ino());
        let ids = place("ns/user").ok().map(|m| m.ino());
        let label = std::fs::read(format!("/proc/{pid}/attr/current")).ok();
        Some((root?, mounts?, ids?, label))
    };
    let users = |pid| status::read(pid).ok().map(|s| s.uid);
    let its = id(&pid.to_string());
    its.is_some() && its == id("self") && users(pid) == users(std::process::id() as Pid)
}
