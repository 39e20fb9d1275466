//! A body that was built again makes the calls of its record again: they get the recorded results.
//!
//! From: `dispatch.rs`. Next: nothing, or `keeper/src/hosts/lost.rs` for one that goes another way.

use crate::deputy::Deputy;
use crate::hosts::end_other_way;
use crate::record::{Answer, CallId, Next, Record, only_asks};
use crate::state::Keep;
use crate::sync::lock;
use armento_abi::row;
use armento_migrate::failpoint::point;
use armento_migrate::image::files::{file_key, rescued};
use armento_migrate::phase::Failpoint;
use armento_model::HomeTid;
use armento_tracee::spawn;
use armento_wire::call::Call;
use armento_wire::talk::{self, FileKey, ToHost};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Whether the call has its answer from the record, or has ended its process.
pub fn replayed(keep: &Keep, d: &Arc<Deputy>, c: &Call) -> bool {
    let Some(record) = replaying(d) else {
        return false;
    };
    match record.next(d.tid, CallId::of(&c.packed)) {
        Next::Live => false,
        Next::Recorded(answer) => {
            let last = record.expects(d.tid).is_none();
            point(if last {
                Failpoint::SafeLast
            } else {
                Failpoint::SafeRecorded
            });
            answer_again(d, record, c.seq, answer);
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
fn answer_again(d: &Arc<Deputy>, record: &Arc<Record>, seq: u32, a: Answer) {
    let waits = a.done.filter(|done| record.peers_are_behind(Some(*done)));
    let record = record.clone();
    let (d, link, took) = (d.clone(), d.link(), a.took);
    if let Some((addr, bytes)) = a.poke {
        let tid = HomeTid::of_home(d.tid);
        link.send(&ToHost::Poke { tid, addr, bytes });
    }
    let answer = move || match a.part {
        true => link.part(d.tid, seq, a.ret, &a.outs),
        false => link.reply(d.tid, seq, a.ret, &a.outs),
    };
    if took < SHORT && waits.is_none() {
        return answer();
    }
    spawn::soon("again", move || {
        if waits.is_some() {
            await_peers(&record, waits);
        }
        std::thread::sleep(took);
        answer();
    });
}

/// How long a process that shares its memory is waited for, and how often it is looked at. One that went another way will
/// not come.
const PEERS_MAX: Duration = Duration::from_secs(10);
const PEERS_LOOK: Duration = Duration::from_micros(500);

/// Waits until all that share its memory have made their calls again that had begun before `until`; none: all calls.
pub fn await_peers(record: &Record, until: Option<Instant>) {
    let end = Instant::now() + PEERS_MAX;
    while record.peers_are_behind(until) {
        if Instant::now() > end {
            return record.forget_peers();
        }
        std::thread::sleep(PEERS_LOOK);
    }
}

/// A call that is made anew waits for those that share its memory. `Some`: their calls are not all made again yet.
pub fn behind_peers(d: &Deputy) -> Option<Arc<Record>> {
    let record = d.common.record.as_ref()?;
    let waits = record.expects(d.tid).is_none() && record.peers_are_behind(None);
    waits.then(|| record.clone())
}

/// `--safe=exact`: holds a call that no checkpoint covers yet. `Some`: it is to be made.
pub fn held_until_covered(keep: &Keep, d: &Arc<Deputy>, c: Box<Call>) -> Option<Box<Call>> {
    let exact = d.common.record.as_ref().filter(|r| r.exact);
    let Some(record) = exact else { return Some(c) };
    if only_asks(c.packed.nr) {
        return Some(c);
    }
    if record.covers(d.tid, CallId::of(&c.packed)) {
        point(Failpoint::SafeCovered);
        return Some(c);
    }
    point(Failpoint::SafeHeld);
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
            if key.is_some_and(|key| has_changed(keep, &key)) {
                other_way(
                    keep,
                    d,
                    libc::SYS_mmap as u16,
                    "a mapping of a file that has changed since",
                );
                return true;
            }
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

/// Whether a file that was mapped shows other bytes now.
fn has_changed(keep: &Keep, key: &FileKey) -> bool {
    let known = lock(&keep.files).get(key).cloned();
    known.is_some_and(|f| !rescued(key) && file_key(&f) != Some(*key))
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
        record.note_mapped(d.tid, args);
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
