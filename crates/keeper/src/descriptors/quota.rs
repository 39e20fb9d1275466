//! Whether a file system counts what users write: then EDQUOT can come at any write.

use crate::sync::lock;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long an answer holds: a quota is switched on by an administrator.
const HOLDS: Duration = Duration::from_secs(1);
/// Devices that are remembered.
const KNOWN_MAX: usize = 64;

/// Words of mount options. KERNEL: xfs(5), ext4(5), tmpfs(5); "noquota" is none of them.
const WORDS: [&str; 12] = [
    "quota",
    "usrquota",
    "grpquota",
    "prjquota",
    "uquota",
    "gquota",
    "pquota",
    "usrquota_block_hardlimit",
    "grpquota_block_hardlimit",
    "uqnoenforce",
    "gqnoenforce",
    "pqnoenforce",
];

static KNOWN: Mutex<Option<HashMap<u64, (bool, Instant)>>> = Mutex::new(None);

/// When it cannot be read, yes.
pub fn has_quota(dev: u64) -> bool {
    let mut known = lock(&KNOWN);
    let known = known.get_or_insert_default();
    if let Some((has, at)) = known.get(&dev)
        && at.elapsed() < HOLDS
    {
        return *has;
    }
    let text = std::fs::read_to_string("/proc/self/mountinfo");
    let has = text.map_or(true, |text| mounted_with_quota(&text, dev));
    if known.len() >= KNOWN_MAX {
        known.clear();
    }
    known.insert(dev, (has, Instant::now()));
    has
}

/// Whether a mount of this device has such an option. KERNEL: proc_pid_mountinfo(5): field 3 is the device, the last the
/// options of the file system. One that shows another device for its files (btrfs, overlayfs) is not found: it is asked
/// for by no device of its own, so any mount of such a kind counts.
fn mounted_with_quota(text: &str, dev: u64) -> bool {
    let number = format!("{}:{}", libc::major(dev), libc::minor(dev));
    let quota = |options: &str| {
        options.split(',').any(|o| {
            let word = o.split('=').next().unwrap_or(o);
            WORDS.contains(&word)
        })
    };
    let all: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|l| Some((l.split(' ').nth(2)?, l.rsplit(' ').next()?)))
        .collect();
    let of_device: Vec<_> = all.iter().filter(|(d, _)| *d == number).collect();
    match of_device.is_empty() {
        false => of_device.iter().any(|(_, o)| quota(o)),
        true => all.iter().any(|(_, o)| quota(o)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 22 8:2 / /home rw,relatime shared:2 - xfs /dev/sda2 rw,attr2,inode64,usrquota
31 22 0:40 / /tmp rw shared:3 - tmpfs tmpfs rw,size=1024k,noquota";

    #[test]
    fn quota_is_found_by_device() {
        let dev = libc::makedev;
        assert!(!mounted_with_quota(TEXT, dev(8, 1)));
        assert!(mounted_with_quota(TEXT, dev(8, 2)));
        assert!(!mounted_with_quota(TEXT, dev(0, 40)), "noquota is none");
    }

    #[test]
    fn a_device_that_no_mount_shows_may_be_any_of_them() {
        assert!(mounted_with_quota(TEXT, libc::makedev(0, 99)));
    }
}
