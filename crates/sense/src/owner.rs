//! Detects a user at this machine.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Further terminals are not checked.
const TERMINALS_MAX: usize = 1024;

/// Time since a user typed at a terminal here, including virtual ones and those of ssh. Input to a window without a
/// terminal is not detected. PAPER: so Condor finds idle workstations. KERNEL: drivers/tty/tty_io.c, `tty_update_time`:
/// a terminal's access time is when it was last read, with a resolution of eight seconds.
pub fn typed_ago() -> Option<Duration> {
    let last = ["/dev/pts", "/dev"].iter().filter_map(|dir| newest(dir));
    let last = UNIX_EPOCH + Duration::from_secs(last.max()?);
    // The clock was set back: counts as just now.
    Some(SystemTime::now().duration_since(last).unwrap_or_default())
}

/// Time at which a terminal in `dir` was last read, Unix time.
fn newest(dir: &str) -> Option<u64> {
    let read_s = |file: fs::DirEntry| {
        let name = file.file_name();
        let number = name.to_str()?.trim_start_matches("tty");
        number.parse::<u32>().ok()?;
        let meta = file.metadata().ok()?;
        let terminal = meta.file_type().is_char_device();
        terminal
            .then_some(meta.atime())
            .and_then(|s| s.try_into().ok())
    };
    let files = fs::read_dir(dir).ok()?.flatten();
    files.filter_map(read_s).take(TERMINALS_MAX).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_terminals_count() {
        // These directories have no terminals.
        assert_eq!(newest("/dev/shm"), None);
        assert_eq!(newest("/no/such/folder"), None);
        let ago = typed_ago();
        assert!(ago.is_none_or(|ago| ago < Duration::from_secs(100 * 365 * 86_400)));
    }
}
