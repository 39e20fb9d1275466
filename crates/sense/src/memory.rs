//! Memory of the machine, before any control group.

/// Memory of this machine that programs can still get without swapping, KiB, before any control group.
pub fn available_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    machine_kib(&text, false).1
}

/// Most of this node's memory that one checkpoint may take, bytes: half of what is available now.
pub fn half_of_available() -> u64 {
    available_kib() * 1024 / 2
}

/// KiB of one line of `/proc/meminfo`.
pub(crate) fn meminfo_kib(text: &str, key: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Total, and memory that programs can still get without swapping; `pressed`: the page cache is in use.
pub(crate) fn machine_kib(text: &str, pressed: bool) -> (u64, u64) {
    let total = meminfo_kib(text, "MemTotal").unwrap_or(0);
    let free = if pressed { "MemFree" } else { "MemAvailable" };
    (total, meminfo_kib(text, free).unwrap_or(0).min(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_lines_are_matched_by_full_name() {
        let text =
            "MemTotal:       24650000 kB\nMemFree:          100 kB\nMemAvailable:   2000 kB\n";
        assert_eq!(machine_kib(text, false), (24_650_000, 2000));
        assert_eq!(machine_kib(text, true), (24_650_000, 100));
        assert_eq!(meminfo_kib(text, "Mem"), None);
        assert_eq!(machine_kib("", false), (0, 0));
    }
}
