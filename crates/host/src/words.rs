//! Arguments and environment as the body has them: what it writes over them (setproctitle) is seen at home.
//!
//! From: `talk.rs` (now and then), `forward.rs` (an open of such a file). Next: `keeper/src/words.rs`.

use crate::shared::Shared;
use crate::world::{Body, Zoo};
use armento_tracee::{status, sys};
use armento_wire::talk::{ToHome, Words};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Bytes that are looked at: what lies behind them home shows as it was when the process left.
const LEN_MAX: u64 = 64 << 10;

/// Tells home what has changed since the last look.
pub fn tell(sh: &Arc<Shared>) {
    let news = sh.hand.run(look).unwrap_or_default();
    news.into_iter().for_each(|w| sh.tell(&ToHome::Words(w)));
}

fn look(zoo: &mut Zoo) -> Vec<Words> {
    let live = zoo
        .bodies
        .values_mut()
        .filter(|b| !b.quiet && b.releases.is_none());
    live.filter_map(changed).collect()
}

fn changed(b: &mut Body) -> Option<Words> {
    let (at, len) = place(b.here)?;
    let mut bytes = vec![0; len as usize];
    let got = sys::vm_read(b.here, at, &mut bytes).ok()?;
    bytes.truncate(got);
    let mut h = DefaultHasher::new();
    (at, &bytes).hash(&mut h);
    let told = std::mem::replace(&mut b.words, h.finish()) == b.words;
    (!told).then_some(Words {
        pid: b.pid,
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
