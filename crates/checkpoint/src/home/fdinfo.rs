//! `/proc/PID/fdinfo/N`: what the kernel says of a descriptor. KERNEL: proc_pid_fdinfo(5).

use super::kinds::{Timer, Watched};
use super::values::Lock;

/// Locks in the words of the kernel. KERNEL: fs/locks.c, lock_get_status.
#[derive(Debug, PartialEq, Eq)]
pub enum Held {
    Flock(Lock),
    Record(Lock),
    OfDescription(Lock),
    /// A lease, or what a later kernel has.
    Other(String),
}

#[derive(Debug, Default)]
pub struct FdInfo {
    pub offset: u64,
    pub flags: u32,
    pub locks: Vec<Held>,
    pub event_count: u64,
    pub event_semaphore: bool,
    pub mask: u64,
    pub timer: Timer,
    pub watched: Vec<Watched>,
    pub inotify: Vec<Watch>,
}

/// A watch of inotify(7).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    pub number: i32,
    pub ino: u64,
    /// As the kernel has it: the minor number in 20 bits.
    pub device: u64,
    pub mask: u32,
    pub handle_type: i32,
    pub handle: Vec<u8>,
}

pub fn parse(text: &str) -> FdInfo {
    let mut info = FdInfo::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        let hex = |v: &str| u64::from_str_radix(v, 16).unwrap_or(0);
        match name {
            "pos" => info.offset = value.parse().unwrap_or(0),
            "flags" => info.flags = u32::from_str_radix(value, 8).unwrap_or(0),
            "lock" => info.locks.extend(lock(value)),
            "eventfd-count" => info.event_count = hex(value),
            "eventfd-semaphore" => info.event_semaphore = value == "1",
            "sigmask" => info.mask = hex(value),
            "clockid" => info.timer.clock = value.parse().unwrap_or(0),
            "ticks" => info.timer.ticks = value.parse().unwrap_or(0),
            "settime flags" => info.timer.flags = u32::from_str_radix(value, 8).unwrap_or(0),
            "it_value" => info.timer.left_ns = span(value),
            "it_interval" => info.timer.interval_ns = span(value),
            "tfd" => info.watched.extend(watched(value)),
            _ => {}
        }
        if let Some(rest) = line.strip_prefix("inotify ") {
            info.inotify.extend(watch(rest));
        }
    }
    info
}

/// "wd:3 ino:9e7e sdev:800013 mask:800afce ignored_mask:0 fhandle-bytes:8 fhandle-type:1 f_handle:7e9e0000640d1b6d", all but
/// the first in hexadecimal. A kernel that cannot tell the handle leaves the end out.
fn watch(text: &str) -> Option<Watch> {
    let of = |name: &str| {
        let mut words = text.split_whitespace().filter_map(|w| w.split_once(':'));
        words.find(|(key, _)| *key == name).map(|(_, v)| v)
    };
    let hex = |name: &str| u64::from_str_radix(of(name)?, 16).ok();
    let bytes = of("f_handle").unwrap_or_default();
    let byte = |at: usize| u8::from_str_radix(bytes.get(at..at + 2)?, 16).ok();
    Some(Watch {
        number: of("wd")?.parse().ok()?,
        ino: hex("ino")?,
        device: hex("sdev")?,
        mask: hex("mask")? as u32,
        handle_type: hex("fhandle-type").unwrap_or(0) as i32,
        handle: (0..bytes.len() / 2).filter_map(|n| byte(2 * n)).collect(),
    })
}

/// "(3, 250000000)": seconds and nanoseconds.
fn span(text: &str) -> u64 {
    let inner = text.trim_start_matches('(').trim_end_matches(')');
    let Some((s, ns)) = inner.split_once(',') else {
        return 0;
    };
    let s: u64 = s.trim().parse().unwrap_or(0);
    let ns: u64 = ns.trim().parse().unwrap_or(0);
    s.saturating_mul(1_000_000_000).saturating_add(ns)
}

/// "5 events:       19 data:                5  pos:0 ino:2e3 sdev:d"
fn watched(text: &str) -> Option<Watched> {
    let mut words = text.split_whitespace();
    let fd = words.next()?.parse().ok()?;
    let rest: Vec<&str> = words.collect();
    let of = |name: &str| {
        let at = rest.iter().position(|w| *w == name)?;
        u64::from_str_radix(rest.get(at + 1)?, 16).ok()
    };
    Some(Watched {
        fd,
        events: of("events:")? as u32,
        data: of("data:")?,
    })
}

/// "1: FLOCK  ADVISORY  WRITE 359 00:13:11691 0 EOF"
fn lock(text: &str) -> Option<Held> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, sort, _, access, _, _, start, end, ..] = words[..] else {
        return None;
    };
    let lock = Lock {
        exclusive: access == "WRITE",
        start: start.parse().unwrap_or(0),
        end: end.parse().ok(),
    };
    Some(match sort {
        "FLOCK" => Held::Flock(lock),
        "POSIX" => Held::Record(lock),
        "OFDLCK" => Held::OfDescription(lock),
        other => Held::Other(other.to_lowercase()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_on_files_are_read() {
        let text = "pos:\t0\nflags:\t00\nmnt_id:\t15\nino:\t2057\n\
            inotify wd:3 ino:9e7e sdev:800013 mask:800afce ignored_mask:0 fhandle-bytes:8 fhandle-type:1 f_handle:7e9e0000640d1b6d\n\
            inotify wd:1 ino:2 sdev:1 mask:8 ignored_mask:0\n";
        let found = parse(text).inotify;
        let first = Watch {
            number: 3,
            ino: 0x9e7e,
            device: 0x80_0013,
            mask: 0x800_afce,
            handle_type: 1,
            handle: vec![0x7e, 0x9e, 0, 0, 0x64, 0x0d, 0x1b, 0x6d],
        };
        assert_eq!((found.len(), &found[0]), (2, &first));
        assert_eq!((found[1].number, found[1].handle.len()), (1, 0));
    }

    #[test]
    fn lines_of_the_kernel_are_read() {
        let text = "pos:\t4711\nflags:\t02102001\nmnt_id:\t29\nino:\t93\n\
            lock:\t1: FLOCK  ADVISORY  WRITE 359 00:13:11691 0 EOF\n\
            lock:\t2: POSIX  ADVISORY  READ 359 00:13:11691 100 199\n\
            lock:\t3: LEASE  ACTIVE    READ 359 00:13:11691 0 EOF\n";
        let info = parse(text);
        assert_eq!((info.offset, info.flags), (4711, 0o2102001));
        let whole = |exclusive, start, end| Lock {
            exclusive,
            start,
            end,
        };
        assert_eq!(
            info.locks,
            [
                Held::Flock(whole(true, 0, None)),
                Held::Record(whole(false, 100, Some(199))),
                Held::Other("lease".into())
            ]
        );
        let text = "clockid: 1\nticks: 2\nsettime flags: 01\nit_value: (3, 250000000)\nit_interval: (1, 0)\n";
        let timer = Timer {
            clock: 1,
            flags: 1,
            ticks: 2,
            left_ns: 3_250_000_000,
            interval_ns: 1_000_000_000,
        };
        assert_eq!(parse(text).timer, timer);
        let text = "tfd:        5 events:       1d data: ffffffffffffffff  pos:0 ino:2e3 sdev:d\n";
        let one = Watched {
            fd: 5,
            events: 0x1d,
            data: u64::MAX,
        };
        assert_eq!(parse(text).watched, [one]);
    }
}
