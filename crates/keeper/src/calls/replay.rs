//! A body that was built again makes the calls of its record again: they get the recorded results.
//!
//! From: `dispatch.rs`. Next: nothing, or `keeper/src/hosts/lost.rs` for one that goes another way.

use crate::deputy::Deputy;
use crate::hosts::end_other_way;
use crate::record::{Answer, CallId, Next, Record};
use crate::state::Keep;
use armento_abi::row;
use armento_model::HomeTid;
use armento_tracee::spawn;
use armento_wire::call::Call;
use armento_wire::talk::{self, FileKey, ToHost};
use std::sync::Arc;
use std::time::Duration;

/// Whether the call has its answer from the record, or has ended its process.
pub fn replayed(keep: &Keep, d: &Arc<Deputy>, c: &Call) -> bool {
    let Some(record) = replaying(d) else {
        return false;
    };
    match record.next(d.tid, CallId::of(&c.packed)) {
        Next::Live => false,
        Next::Recorded(answer) => {
            answer_again(d, c.seq, answer);
            true
        }
        Next::Other(nr) => {
            other_way(keep, d, nr, &name(c.packed.nr));
            true
        }
    }
}

/// What took less than this is answered at once.
const SHORT: Duration = Duration::from_millis(1);

/// A call that waited takes as long again: a program that has slept is not to find that it has not.
fn answer_again(d: &Arc<Deputy>, seq: u32, a: Answer) {
    let (d, took) = (d.clone(), a.took);
    if let Some((addr, bytes)) = a.poke {
        let tid = HomeTid::of_home(d.tid);
        d.link().send(&ToHost::Poke { tid, addr, bytes });
    }
    let answer = move || match a.part {
        true => d.link().part(d.tid, seq, a.ret, &a.outs),
        false => d.link().reply(d.tid, seq, a.ret, &a.outs),
    };
    if took < SHORT {
        return answer();
    }
    spawn::soon("again", move || {
        std::thread::sleep(took);
        answer();
    });
}

/// Calls that change nothing: what they say may be asked again.
const ONLY_ASK: [i64; 33] = [
    libc::SYS_stat,
    libc::SYS_fstat,
    libc::SYS_lstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_getppid,
    libc::SYS_getpgid,
    libc::SYS_getpgrp,
    libc::SYS_getsid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
];

/// `--safe=exact`: holds a call that no checkpoint covers yet. `Some`: it is to be made.
pub fn held_until_covered(keep: &Keep, d: &Arc<Deputy>, c: Box<Call>) -> Option<Box<Call>> {
    let exact = d.common.record.as_ref().filter(|r| r.exact);
    let Some(record) = exact else { return Some(c) };
    let nr = i64::from(c.packed.nr);
    if ONLY_ASK.contains(&nr) || record.covers(d.tid, CallId::of(&c.packed)) {
        return Some(c);
    }
    let ask = || keep.checkpoints.push(d.pid);
    keep.held_output.hold(d.clone(), c, ask);
    None
}

/// The same for a mapping of a file.
pub fn replayed_mapping(keep: &Keep, d: &Deputy, seq: u32, args: &[u64; 6]) -> bool {
    let Some(record) = replaying(d) else {
        return false;
    };
    match record.next(d.tid, CallId::of_mapping(args)) {
        Next::Live => false,
        Next::Recorded(Answer { ret, outs, .. }) => {
            let key: Option<FileKey> = talk::decode(&outs, "recorded file").unwrap_or_default();
            d.link().send(&ToHost::Mapped {
                seq,
                ret,
                key,
                stay: None,
            });
            true
        }
        Next::Other(nr) => {
            other_way(keep, d, nr, "a mapping of a file");
            true
        }
    }
}

/// A mapping was made.
pub fn note_mapping(d: &Deputy, args: &[u64; 6], ret: i64, key: Option<FileKey>) {
    if let Some(record) = &d.common.record {
        let nr = libc::SYS_mmap as u16;
        let answer = Answer {
            ret,
            outs: talk::encode(&key),
            ..Answer::default()
        };
        record.note(d.tid, CallId::of_mapping(args), nr, answer);
    }
}

/// A body does something that no record holds. True: it has calls to make again before, and its process was ended.
pub fn met_by_replay(keep: &Keep, d: &Deputy, what: &str) -> bool {
    let Some(record) = &d.common.record else {
        return false;
    };
    if let Some(nr) = record.expects(d.tid) {
        other_way(keep, d, nr, what);
        return true;
    }
    record.leave_gap(|| what.to_owned());
    false
}

/// The record, if the thread has calls to make again.
fn replaying(d: &Deputy) -> Option<&Arc<Record>> {
    let record = d.common.record.as_ref()?;
    record.expects(d.tid).map(|_| record)
}

fn other_way(keep: &Keep, d: &Deputy, before: u16, now: &str) {
    let (pid, before) = (d.pid, name(before));
    let what = match before == now {
        true => format!("its {now} passed other bytes than before"),
        false => format!("{now} came where {before} had come"),
    };
    keep.tracer.post(move |t| end_other_way(t, pid, &what));
}

fn name(nr: u16) -> String {
    row(nr.into()).map_or_else(|| format!("call {nr}"), |r| r.name.to_string())
}
