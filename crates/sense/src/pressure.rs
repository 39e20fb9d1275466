//! Detects memory pressure.
//!
//! KERNEL: Documentation/accounting/psi.rst: `some` counts the time in which at least one process was stalled because
//! its pages were being read back.

use crate::cgroup::{Group, Read};
use std::time::Instant;

/// From this percentage of stalled time on the page cache counts as in use, whatever the kernel considers reclaimable:
/// a thrashing process waits most of the time, and first reads of pages are no pressure.
const HIGH_PERCENT: u64 = 10;
/// Shorter spans are too inaccurate, milliseconds.
const SPAN_MS_MIN: u64 = 100;

#[derive(Debug, Default)]
pub(crate) struct Pressure {
    last: Option<(Instant, u64)>,
    high: bool,
}

impl Pressure {
    /// Since the last sample, or over the minimum span. `group`: that of this node's memory.
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

/// Stalled time of this node, microseconds since the machine booted. A version 1 group with a limit has no such
/// counter, and the machine's would include other nodes.
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
    fn kernel_counter_is_read() {
        assert_eq!(some_us(TEXT), Some(33_638));
        assert_eq!(some_us("full total=1\n"), None);
        assert_eq!(share(25_000, 250), 10);
        assert_eq!(share(24_000, 250), 9);
        assert_eq!(share(1, 0), 0);
    }

    #[test]
    fn limited_group_uses_its_own_counter() {
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
