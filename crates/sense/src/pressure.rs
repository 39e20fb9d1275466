//! Whether processes wait for memory.
//!
//! KERNEL: Documentation/accounting/psi.rst: `some` counts the time in which at least one process stood still because
//! its pages were being brought back.

use crate::cgroup::{Group, Read};
use std::time::Instant;

/// From this share of the time on, percent, the cache of files is in use, whatever the kernel thinks could go: who
/// thrashes waits most of the time, and what is read for the first time is no pressure.
const HIGH_PERCENT: u64 = 10;
/// Shorter spans say nothing, milliseconds.
const SPAN_MS_MIN: u64 = 100;

#[derive(Debug, Default)]
pub(crate) struct Pressure {
    last: Option<(Instant, u64)>,
    high: bool,
}

impl Pressure {
    /// Since the last look, or over a span that says something. `group`: that of this node's memory.
    pub fn is_high(&mut self, group: Option<&Group>, read: Read) -> bool {
        let Some(waited_us) = waited_us(group, read) else {
            return false;
        };
        let now = Instant::now();
        let Some((then, before_us)) = self.last else {
            self.last = Some((now, waited_us));
            return false;
        };
        let span_ms = now.duration_since(then).as_millis() as u64;
        if span_ms >= SPAN_MS_MIN {
            self.high = share(waited_us.saturating_sub(before_us), span_ms) >= HIGH_PERCENT;
            self.last = Some((now, waited_us));
        }
        self.high
    }
}

fn share(waited_us: u64, span_ms: u64) -> u64 {
    waited_us / (span_ms.max(1) * 10)
}

/// Of this node, microseconds since the machine began. A limit of version 1 has no such account, and that of the machine
/// would speak of others.
fn waited_us(group: Option<&Group>, read: Read) -> Option<u64> {
    let limited = group.is_some_and(|group| group.memory(read, true).is_some());
    let text = match group.filter(|_| limited) {
        Some(group) if group.v2 => read(&format!("{}/memory.pressure", group.levels().next()?)),
        Some(_) => None,
        None => read("/proc/pressure/memory"),
    };
    some_us(&text?)
}

fn some_us(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = line
        .split(' ')
        .find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=33638\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=10253\n";

    #[test]
    fn the_kernels_account_is_read() {
        assert_eq!(some_us(TEXT), Some(33_638));
        assert_eq!(some_us("full total=1\n"), None);
        assert_eq!(share(25_000, 250), 10);
        assert_eq!(share(24_000, 250), 9);
        assert_eq!(share(1, 0), 0);
    }

    #[test]
    fn a_group_with_a_limit_speaks_for_itself() {
        let mounts = "31 22 0:27 / /cg rw - cgroup2 none rw\n";
        let group = Group::find("0::/n1\n", mounts, "memory");
        let files = |limit: &'static str| {
            move |path: &str| match path {
                "/cg/n1/memory.max" => Some(limit.to_owned()),
                "/cg/n1/memory.current" => Some("0".into()),
                "/cg/n1/memory.pressure" => Some(TEXT.replace("33638", "7")),
                "/proc/pressure/memory" => Some(TEXT.into()),
                _ => None,
            }
        };
        assert_eq!(waited_us(group.as_ref(), &files("8192")), Some(7));
        assert_eq!(waited_us(group.as_ref(), &files("max")), Some(33_638));
        assert_eq!(waited_us(None, &files("max")), Some(33_638));
        let v1 = "31 22 0:27 / /cg rw - cgroup none rw,memory\n";
        let group = Group::find("4:memory:/n1\n", v1, "memory");
        let limited = |path: &str| (path == "/cg/n1/memory.limit_in_bytes").then(|| "8192".into());
        assert_eq!(waited_us(group.as_ref(), &limited), None);
    }
}
