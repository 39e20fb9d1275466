//! What statx(2) says of files and directories, as it is sent to hosts.

use super::sys;
use armento_abi::attributes::ASKED;
use std::fs::File;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// KERNEL: relatime_need_update: the time of access is set anew after so long.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// What is known is known for shorter than that.
const MARGIN: Duration = Duration::from_secs(60);

pub fn of_file(f: &File) -> Option<Vec<u8>> {
    Some(trimmed(sys::statx(f, ASKED)?))
}

/// Of a watched directory. `None`: reading it changes its time of access.
pub fn of_directory(d: &File) -> Option<Vec<u8>> {
    let x = sys::statx(d, ASKED)?;
    (!set_by_reads(d, &x)?).then(|| trimmed(x))
}

/// Whether reading it sets its time of access.
pub fn is_seen_read(f: &File) -> Option<bool> {
    set_by_reads(f, &sys::statx(f, ASKED)?)
}

fn set_by_reads(f: &File, x: &[u8]) -> Option<bool> {
    let time = |at: usize| Some((long(x, at)?, word(x, at + 8)?));
    let (a, m, c) = (time(0x40)?, time(0x70)?, time(0x60)?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()? + MARGIN;
    // One that lies ahead is not old.
    let age = now.saturating_sub(Duration::from_secs(a.0));
    Some(match sys::access_times(f)? {
        sys::AccessTimes::Never => false,
        // KERNEL: relatime_need_update.
        sys::AccessTimes::Relative => a <= m || a <= c || age >= DAY,
        sys::AccessTimes::Always => true,
    })
}

/// Whether the file system tells the time of birth also when it is not asked for.
pub fn tells_birth(d: &File) -> bool {
    let told = sys::statx(d, libc::STATX_BASIC_STATS);
    told.and_then(|x| word(&x, 0))
        .is_some_and(|mask| mask & libc::STATX_BTIME != 0)
}

fn word(x: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(x.get(at..at + 4)?.try_into().ok()?))
}

fn long(x: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(x.get(at..at + 8)?.try_into().ok()?))
}

/// Without the zeros at its end.
fn trimmed(mut x: Vec<u8>) -> Vec<u8> {
    let last = x.iter().rposition(|b| *b != 0);
    x.truncate(last.map_or(0, |last| last + 1));
    x
}
