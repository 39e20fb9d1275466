//! Memory of the machine, before any control group.

/// KiB of one line of `/proc/meminfo`.
pub(crate) fn meminfo_kib(text: &str, key: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Total, and what programs could still get without swapping.
pub(crate) fn machine_kib(text: &str) -> (u64, u64) {
    let total = meminfo_kib(text, "MemTotal").unwrap_or(0);
    (
        total,
        meminfo_kib(text, "MemAvailable").unwrap_or(0).min(total),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_lines_are_found_by_their_whole_name() {
        let text =
            "MemTotal:       24650000 kB\nMemFree:          100 kB\nMemAvailable:   2000 kB\n";
        assert_eq!(machine_kib(text), (24_650_000, 2000));
        assert_eq!(meminfo_kib(text, "Mem"), None);
        assert_eq!(machine_kib(""), (0, 0));
    }
}
