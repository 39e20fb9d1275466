//! Reads from endless devices: the kernel ends them early only for a signal, or for one of our ptrace stops.

use armento_model::Tid;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// KERNEL: drivers/char/mem.c: /dev/zero, full, random, urandom.
const MEM_MAJOR: u32 = 1;
const ENDLESS: [u32; 4] = [5, 7, 8, 9];
/// Longer reads may return short: they would restart from the beginning at every stop.
const WHOLE_MAX: u64 = 64 << 20;

/// Whether this call, which returned `ret`, was cut short although there is more data. Then it may be repeated from its
/// beginning, because all data of such a device is equally good. KERNEL: read_zero, get_random_bytes_user.
pub fn cut(tid: Tid, nr: i64, args: &[u64; 6], ret: i64) -> bool {
    let asked = match nr {
        libc::SYS_getrandom => args[1],
        libc::SYS_read | libc::SYS_pread64 => args[2],
        _ => return false,
    };
    let short = ret > 0 && (ret as u64) < asked && asked <= WHOLE_MAX;
    short && (nr == libc::SYS_getrandom || is_endless(tid, args[0] as i32))
}

fn is_endless(tid: Tid, fd: i32) -> bool {
    let of = std::fs::metadata(format!("/proc/{tid}/fd/{fd}"));
    of.is_ok_and(|m| {
        let (major, minor) = (libc::major(m.rdev()), libc::minor(m.rdev()));
        m.file_type().is_char_device() && major == MEM_MAJOR && ENDLESS.contains(&minor)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn only_reads_of_endless_devices_are_cut() {
        let me = std::process::id() as Tid;
        let zero = std::fs::File::open("/dev/zero").expect("a device");
        let file = std::fs::File::open("/proc/self/exe").expect("a file");
        let read = |f: &std::fs::File, ret| {
            let args = [f.as_raw_fd() as u64, 0, 1000, 0, 0, 0];
            cut(me, libc::SYS_read, &args, ret)
        };
        assert!(read(&zero, 10) && !read(&zero, 1000) && !read(&zero, -4) && !read(&zero, 0));
        assert!(!read(&file, 10));
        assert!(cut(me, libc::SYS_getrandom, &[0, 1000, 0, 0, 0, 0], 256));
        assert!(!cut(
            me,
            libc::SYS_getrandom,
            &[0, 1 << 30, 0, 0, 0, 0],
            256
        ));
        assert!(!cut(me, libc::SYS_write, &[0, 0, 1000, 0, 0, 0], 10));
    }
}
