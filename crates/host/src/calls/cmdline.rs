//! Arguments and environment as the body has them: what it writes over them (setproctitle) is seen at home.
//!
//! From: `talk.rs` (now and then), `forward.rs` (an open of such a file), `fork.rs` (a child may be
//! about to look). Next: `keeper/src/words.rs`.

use crate::state::shared::{Cell, Shared, lock};
use armento_tracee::{status, sys};
use armento_wire::talk::{ToHome, Words};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes that are looked at: what lies behind them home shows as it was when the process left.
const LEN_MAX: u64 = 64 << 10;

/// Tells home what has changed since the last look. Not by the hand: it may wait for a call that our caller serves.
pub fn tell(sh: &Shared) {
    of_these(sh, &sh.leaders());
}

/// The same of one process, by any thread of it.
pub fn tell_one(sh: &Shared, cell: &Arc<Cell>) {
    of_these(sh, std::slice::from_ref(cell));
}

fn of_these(sh: &Shared, cells: &[Arc<Cell>]) {
    // Who finds nothing new knows that it is told.
    let _one = lock(&sh.telling);
    let live = cells.iter().filter(|c| c.proc.live.load(Ordering::Acquire));
    for w in live.filter_map(|c| changed(c)) {
        sh.tell(&ToHome::Words(w));
    }
}

fn changed(c: &Cell) -> Option<Words> {
    let (at, len) = place(c.here)?;
    let mut bytes = vec![0; len as usize];
    let got = sys::vm_read(c.here, at, &mut bytes).ok()?;
    bytes.truncate(got);
    let mut h = DefaultHasher::new();
    (at, &bytes).hash(&mut h);
    let now = h.finish();
    (c.proc.words.swap(now, Ordering::Relaxed) != now).then_some(Words {
        pid: c.pid,
        at,
        bytes,
    })
}

/// From the first argument to the end of the environment. KERNEL: proc_pid_stat(5), fields 48 and 51.
fn place(here: i32) -> Option<(u64, u64)> {
    let f = status::stat_fields(here).ok()?;
    let field = |n: usize| f.get(n - 3).copied().unwrap_or(0) as u64;
    let (start, end) = (field(48), field(51));
    let len = end.checked_sub(start)?.min(LEN_MAX);
    (start != 0 && len != 0).then_some((start, len))
}
