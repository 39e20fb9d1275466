//! Connections that are used much become direct, if they can.
//!
//! From: `keeper/src/deputy/traffic.rs`. Next: `pair.rs`, `connection.rs`.

use super::connection::{Life, Over};
use super::pair;
use crate::deputy::HostLink;
use crate::state::Keep;
use armento_model::Pid;
use armento_tracee::spawn;
use armento_wire::sockets::{Recall, SocketNews};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A connection that cannot be direct now is looked at again after this.
const PAUSE: Duration = Duration::from_secs(2);
/// After a move it may be direct again soon.
const MOVED_PAUSE: Duration = Duration::from_millis(200);

/// Looks, for ever, at descriptors that are used much.
pub fn run(keep: &Arc<Keep>) {
    loop {
        let (pid, fd) = keep.traffic.next();
        if let Err(why) = offer(keep, pid, fd) {
            keep.traffic.pause(pid, fd, Instant::now() + PAUSE);
            log(pid, fd, why);
        }
    }
}

fn log(pid: Pid, fd: i32, what: &str) {
    if std::env::var_os("ARMENTO_KEEPER_LOG").is_some() {
        eprintln!("process {pid}: descriptor {fd}: {what}");
    }
}

fn offer(keep: &Arc<Keep>, pid: Pid, fd: i32) -> Result<(), pair::Not> {
    if keep.saving.load(Ordering::Acquire) {
        return Err("a checkpoint is being written");
    }
    let ino = pair::socket_inode(pid, fd).ok_or("it is no socket")?;
    if keep.sockets.waits(ino, Instant::now()) {
        return Err("it was needed at home lately");
    }
    let ends = pair::find(keep, pid, fd)?;
    let [a, b] = &ends;
    let inodes = [a.ino, b.ino];
    let links = [a.link.clone(), b.link.clone()];
    let descriptors = [(a.pid, a.fd), (b.pid, b.fd)];
    let (known, events) = keep
        .sockets
        .begin(inodes, links)
        .ok_or("it is direct already, or too many are")?;
    let k = keep.clone();
    let number = known.number;
    let live = move || {
        let life = Life {
            keep: &k,
            known: &known,
            ends,
            events,
        };
        let over = life.live();
        k.sockets.end(&known);
        after(&k, inodes, descriptors, &over);
    };
    spawn::start("socket", live).map_err(|_| {
        keep.sockets.forget(number);
        "there is no thread for it"
    })
}

fn after(keep: &Keep, inodes: [u64; 2], descriptors: [(Pid, i32); 2], over: &Over) {
    let now = Instant::now();
    let until = match over {
        Over::Recalled(Recall::Moves, _) => now + MOVED_PAUSE,
        Over::Recalled(Recall::Call | Recall::Link, direct) => {
            keep.sockets.back_off(inodes, *direct, now)
        }
        Over::Not(_) => now + PAUSE,
    };
    for (pid, fd) in descriptors {
        keep.traffic.pause(pid, fd, until);
        match over {
            Over::Not(why) => log(pid, fd, why),
            Over::Recalled(why, direct) => {
                log(pid, fd, &format!("direct for {direct:?}, until {why:?}"))
            }
        }
    }
}

/// A host says something about an end at it.
pub fn news(keep: &Keep, link: &Arc<HostLink>, news: SocketNews) {
    keep.sockets.tell(link, news);
}
