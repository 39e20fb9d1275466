//! Connections that are used much become direct, if they can.
//!
//! From: `keeper/src/deputy/traffic.rs`. Next: `pair.rs`, `connection.rs`.

use super::connection::{Life, Over};
use super::pair;
use crate::deputy::HostLink;
use crate::state::{Keep, SocketEnd};
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
        let now = Instant::now();
        // What is no socket is no connection that goes over home.
        let Some(ino) = pair::socket_inode(pid, fd) else {
            keep.traffic.pause(pid, fd, now + PAUSE);
            continue;
        };
        let end = SocketEnd { pid, fd, ino };
        if keep.sockets.waits(ino, now) {
            keep.traffic.pause(pid, fd, now + PAUSE);
            keep.busy_sockets.looked(end, now);
        } else if let Err(why) = offer(keep, end) {
            keep.traffic.pause(pid, fd, now + PAUSE);
            keep.busy_sockets.over_home(end, why, now);
            log(pid, fd, why);
        }
    }
}

fn log(pid: Pid, fd: i32, what: &str) {
    if std::env::var_os("ARMENTO_KEEPER_LOG").is_some() {
        eprintln!("process {pid}: descriptor {fd}: {what}");
    }
}

fn offer(keep: &Arc<Keep>, end: SocketEnd) -> Result<(), pair::Not> {
    if let Some(why) = keep.settings.never_direct() {
        return Err(why);
    }
    if keep.saving.load(Ordering::Acquire) {
        return Err("a checkpoint is being written");
    }
    let ends = pair::find(keep, end)?;
    let [a, b] = &ends;
    let inodes = [a.ino, b.ino];
    let links = [a.link.clone(), b.link.clone()];
    let both = [a.end(), b.end()];
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
        after(&k, both, &over);
    };
    spawn::start("socket", live).map_err(|_| {
        keep.sockets.forget(number);
        "there is no thread for it"
    })
}

fn after(keep: &Keep, ends: [SocketEnd; 2], over: &Over) {
    let now = Instant::now();
    let inodes = ends.map(|end| end.ino);
    let until = match over {
        Over::Recalled(Recall::Moves, _) => now + MOVED_PAUSE,
        Over::Recalled(Recall::Call | Recall::Link, direct) => {
            keep.sockets.back_off(inodes, *direct, now)
        }
        Over::Not(_) => now + PAUSE,
    };
    let why = match over {
        Over::Recalled(Recall::Moves, _) => "one of its processes has moved",
        Over::Recalled(Recall::Call, _) => "a call on it was made that home makes",
        Over::Recalled(Recall::Link, _) => "the way between its nodes broke",
        Over::Not(why) => why,
    };
    keep.busy_sockets.home_again(ends, why, now);
    for SocketEnd { pid, fd, .. } in ends {
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
