//! Kernel versions.

/// Oldest kernel that supports moves: tested down to it. Debian 12's.
pub const KERNEL_MIN: (u32, u32) = (6, 1);
/// From this version on moves have short pauses. KERNEL: PAGEMAP_SCAN and asynchronous write-protection.
pub const KERNEL_FULL: (u32, u32) = (6, 7);

/// The first two numbers of a release (`uname -r`); zeros if it has none.
pub fn kernel_version(release: &str) -> (u32, u32) {
    let mut numbers = release
        .trim()
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_parsed() {
        let check = |release: &str, want| assert_eq!(kernel_version(release), want, "{release}");
        check("6.18.44-fc-v657\n", (6, 18));
        check("2.6.78", (2, 6));
        check("10.0", (10, 0));
        check("", (0, 0));
    }
}
