//! What home sends: replies to calls, and orders.
//!
//! From: `connections.rs`. Next: the room that carries an order out.

use crate::state::{Base, HomeReader, Host};
use crate::sync::lock;
use crate::{calls, moves, sys, threads};
use armento_migrate::failpoint::point;
use armento_migrate::phase::Failpoint;
use armento_model::Stay;
use armento_tracee::spawn;
use armento_tracee::sys::SigInfo;
use armento_wire::call::{PART, REPLY, decode_reply};
use armento_wire::talk::{self, TALK, ToHome, ToHost};
use armento_wire::{WireError, session};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Reads one connection of the stream of calls, replies and orders, until it breaks. Before: `HomeLink::claim`.
pub fn read_messages(host: &Arc<Host>, mut r: HomeReader) {
    session::never_wait();
    let mut buf = Vec::new();
    let why = loop {
        let fine = match host.home.session.hear(&mut r, &mut buf) {
            Ok(kind @ (REPLY | PART)) => {
                decode_reply(&buf).map(|reply| calls::reply(host, &reply, kind == PART))
            }
            Ok(TALK) => talk::decode::<ToHost>(&buf, "message").map(|m| receive(host, m)),
            Ok(_) => Err(WireError::Garbled("message")),
            Err(e) => Err(e),
        };
        if let Err(e) = fine {
            break e;
        }
    };
    eprintln!("home: {why}");
    host.home.session.cut();
    if !matches!(why, WireError::Io(_)) {
        // Not an error of the network, and the messages are not repeated.
        std::process::exit(1);
    }
}

pub fn receive(host: &Arc<Host>, m: ToHost) {
    match m {
        ToHost::Forked { seq, .. } | ToHost::Mapped { seq, .. } | ToHost::Held { seq } => {
            host.home.answered(seq, m, true)
        }
        ToHost::Ahead {
            pid,
            seq,
            fd,
            at,
            bytes,
            end,
        } => {
            let piece = calls::Piece {
                seq,
                fd,
                at,
                bytes: &bytes,
                end,
            };
            calls::readahead_came(host, pid, &piece);
        }
        ToHost::TellReads { pid, fd } => calls::tell_reads(host, pid, fd),
        ToHost::AheadOff { pid, fd } => {
            if let Some(c) = host.threads.of_home(pid.leader()) {
                calls::end_readahead_of(host, &c.proc, pid, fd);
            }
        }
        ToHost::FileBytes { seq, end, .. } => host.home.answered(seq, m, end),
        ToHost::Execed { pid } | ToHost::Kill { pid } => host.tracer.post(move |guests| {
            guests.early.retain(|e| e.id != pid.leader());
            threads::remove_body(guests, pid);
        }),
        ToHost::Warm { mv, files } => {
            let host = host.clone();
            spawn::soon("warm", move || {
                for key in &files {
                    // A file that does not come now comes with its process.
                    calls::fetch_file(&host, key, false);
                }
                host.home.send(&ToHome::Warmed { mv });
            });
        }
        ToHost::Forget { object } => drop(lock(&host.objects).remove(&object)),
        ToHost::Drop { pid, .. } => host
            .tracer
            .post(move |guests| moves::drop_later(guests, pid)),
        ToHost::Signal { pid, tid, info } => {
            if let Ok(info) = info.0.as_slice().try_into() {
                let info: SigInfo = info;
                // Queued before any later reply is read: the order home sent them in.
                host.tracer.run(move |guests| {
                    threads::queue_signal(guests, pid, tid, &info);
                    if let Some(b) = guests.bodies.get(&pid) {
                        b.proc.signals_received.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        }
        ToHost::Defaulted { pid, tid, stopped } => host
            .tracer
            .post(move |guests| threads::default_taken(guests, pid, tid, stopped)),
        ToHost::Dumps { pid, tid } => host
            .tracer
            .post(move |guests| threads::dumps_at_home(guests, pid, tid)),
        ToHost::Continue { pid } => host
            .tracer
            .post(move |guests| threads::continued(guests, pid)),
        ToHost::TimerVoid { pid, timer } => {
            host.tracer
                .run(move |guests| threads::timer_was_set(guests, pid, timer));
        }
        ToHost::Poke { tid, addr, bytes } => {
            if let Some(c) = host.threads.of_home(tid) {
                c.write(addr, &bytes);
            }
        }
        ToHost::Limits { pid, limits } => {
            if let Some(c) = host.threads.of_home(pid.leader()) {
                for (resource, soft, hard) in limits {
                    if resource == libc::RLIMIT_FSIZE && soft != libc::RLIM_INFINITY {
                        // Home's kernel cuts its writes, or kills it.
                        calls::end_direct(host, &c.proc, pid);
                    }
                    sys::set_limit(c.here, resource, soft, hard);
                }
            }
        }
        ToHost::Nice { list } => {
            for (tid, nice) in list {
                if let Some(c) = host.threads.of_home(tid) {
                    sys::set_nice(c.here, nice);
                }
            }
        }
        ToHost::Send { mv, pid, to } => {
            let s = host.clone();
            // Before the next message: those that share memory look for the orders of the others.
            host.outgoing.order(mv, pid);
            if let Err(e) = spawn::start("send", move || moves::depart(&s, mv, pid, to)) {
                host.outgoing.over(mv, pid);
                let (stay, detail) = (Stay::NoRoom, format!("no thread for the move: {e}"));
                host.home.send(&ToHome::Failed { mv, stay, detail });
            }
        }
        ToHost::Abort { mv, pid } => {
            point(Failpoint::HostReleased);
            moves::abort(host, mv);
            host.tracer
                .run(move |guests| moves::drop_unthawed(guests, mv, pid));
            moves::unfreeze(host, pid);
        }
        ToHost::Thaw { mv, pid } => host.tracer.post(move |guests| moves::thaw(guests, mv, pid)),
        ToHost::Descriptor {
            tid,
            seq,
            fd,
            writes,
            stat,
            begin,
            device,
        } => {
            let about = calls::About {
                seq,
                fd,
                writes,
                device,
            };
            calls::descriptor_known(host, tid, about, stat, begin);
        }
        ToHost::Direct { tid, seq, fd, file } => calls::may_open(host, tid, seq, fd, file),
        ToHost::ProveMount { seq, mount, name } => {
            let host = host.clone();
            // A file system may take its time.
            spawn::soon("prove", move || {
                let seen = host.shared_mounts.prove(&mount, name);
                host.home.send(&ToHome::MountSeen { seq, seen });
            });
        }
        ToHost::MountProved { mount, name } => {
            let host = host.clone();
            spawn::soon("proved", move || host.shared_mounts.proved(&mount, name));
        }
        ToHost::Directory {
            path,
            id,
            guarded,
            names,
        } => lock(&host.names).learn(path, id, guarded, &names),
        ToHost::Link { path, target } => lock(&host.names).learn_link(path, target),
        ToHost::Attributes { path, birth, list } => {
            let list = list.into_iter().map(|(n, a)| (n.into_vec(), a.into_vec()));
            lock(&host.names).learn_attributes(&path, birth, list.collect());
        }
        ToHost::ForgetAll => lock(&host.names).forget_all(),
        ToHost::ForgetNames { below, files } => {
            let mut names = lock(&host.names);
            files.iter().for_each(|path| names.forget_file(path));
            below.iter().for_each(|top| names.forget_below(top));
        }
        ToHost::WorkingDirectory { pid, seq, path, id } => {
            calls::working_directory(host, pid, seq, Base { path, id });
        }
        ToHost::Posted(made) => host.home.posts_made(made),
        ToHost::PostFailed { pid, fd, errno } => {
            if let Some(c) = host.threads.of_home(pid.leader()) {
                lock(&c.proc.descriptors).fail(fd, errno);
            }
        }
        ToHost::Socket(order) => calls::socket_order(host, order),
        // Clock: asked for before the first body, and answered there.
        ToHost::Clock { .. } | ToHost::Alive => {}
        ToHost::End => host.tracer.post(|guests| {
            if guests.bodies.is_empty() {
                eprintln!("no guest is here, and home needs this host no more: it ends");
                std::process::exit(0);
            }
        }),
    }
}
