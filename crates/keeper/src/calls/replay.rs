//! A body that was built again makes the calls of its record again: they get the recorded results.
//!
//! From: `dispatch.rs`. Next: nothing, or `keeper/src/hosts/lost.rs` for one that goes another way.

use crate::deputy::Deputy;
use crate::hosts::end_other_way;
use crate::record::{Answer, CallId, Next, Record};
use crate::state::Keep;
use armento_abi::row;
use armento_wire::call::Call;
use armento_wire::talk::{self, FileKey, ToHost};
use std::sync::Arc;

/// Whether the call has its answer from the record, or has ended its process.
pub fn replayed(keep: &Keep, d: &Deputy, c: &Call) -> bool {
    let Some(record) = replaying(d) else {
        return false;
    };
    match record.next(d.tid, CallId::of(&c.packed)) {
        Next::Live => false,
        Next::Recorded(Answer { ret, outs }) => {
            d.link().reply(d.tid, c.seq, ret, &outs);
            true
        }
        Next::Other(nr) => {
            other_way(keep, d, nr, &name(c.packed.nr));
            true
        }
    }
}

/// The same for a mapping of a file.
pub fn replayed_mapping(keep: &Keep, d: &Deputy, seq: u32, args: &[u64; 6]) -> bool {
    let Some(record) = replaying(d) else {
        return false;
    };
    match record.next(d.tid, CallId::of_mapping(args)) {
        Next::Live => false,
        Next::Recorded(Answer { ret, outs }) => {
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
        record.note(
            d.tid,
            CallId::of_mapping(args),
            nr,
            ret,
            &talk::encode(&key),
        );
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
        false => format!("it did {now} where it had done {before}"),
    };
    keep.tracer.post(move |t| end_other_way(t, pid, &what));
}

fn name(nr: u16) -> String {
    row(nr.into()).map_or_else(|| format!("call {nr}"), |r| r.name.to_string())
}
