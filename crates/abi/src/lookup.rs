//! Calls that look a path up and whose result may follow from names alone.

use crate::attributes::Form;
use crate::x86_64::nr;

/// What the call wants to know of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Something that names do not tell, if it is there.
    File,
    /// Where a symbolic link leads: the buffer's address and size.
    Link { buf: u64, size: u64 },
    /// What the file is, at this address.
    Attributes { buf: u64, form: Form },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Which argument is the path.
    pub path_arg: usize,
    /// Whether a symbolic link at its end is followed.
    pub follows: bool,
    pub wants: Wants,
}

/// KERNEL: fcntl(2): flags of an open whose path need not be there, or that are refused before it is looked up.
const MAKES: u64 = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) as u64;
/// Flags that the kernel knows; with others it answers before it looks the path up.
const OPEN_FLAGS: u64 = (libc::O_ACCMODE
    | libc::O_NONBLOCK
    | libc::O_NOCTTY
    | libc::O_TRUNC
    | libc::O_CLOEXEC
    | libc::O_NOFOLLOW
    | libc::O_DIRECTORY
    | libc::O_LARGEFILE
    | LARGEFILE) as u64;
/// O_LARGEFILE of the kernel, which glibc says is 0.
const LARGEFILE: i32 = 0o100_000;
/// KERNEL: vfs_statx: flags without an effect on which errors come first.
const STAT_FLAGS: u64 = (libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT) as u64;
/// KERNEL: faccessat(2), mode.
const ACCESS: u64 = 7;
/// KERNEL: statx(2): reserved mask bits are refused.
const STATX_MASK: u64 = 0x7fff_ffff;

/// The lookup that a call makes from the root or the working directory. `None`: it is another call, or with these
/// arguments the kernel may answer before it looks the path up.
pub fn lookup(call: u64, args: &[u64; 6]) -> Option<Lookup> {
    let cwd = args[0] as i32 == libc::AT_FDCWD;
    let opens = |flags: u64| flags & MAKES == 0 && flags & !OPEN_FLAGS == 0;
    let nofollow = |flags: u64| flags & libc::O_NOFOLLOW as u64 != 0;
    let file = |path_arg, follows| {
        Some(Lookup {
            path_arg,
            follows,
            wants: Wants::File,
        })
    };
    let attributes = |path_arg, follows, buf, form| {
        Some(Lookup {
            path_arg,
            follows,
            wants: Wants::Attributes { buf, form },
        })
    };
    let no_link = |flags: u64| flags & libc::AT_SYMLINK_NOFOLLOW as u64 != 0;
    let link = |path_arg, buf, size: u64| {
        // KERNEL: do_readlinkat: an int that is checked first.
        let fine = size as i32 > 0;
        let wants = Wants::Link {
            buf,
            size: u64::from(size as u32),
        };
        fine.then_some(Lookup {
            path_arg,
            follows: false,
            wants,
        })
    };
    match call {
        nr::OPEN if opens(args[1]) => file(0, !nofollow(args[1])),
        nr::OPENAT if cwd && opens(args[2]) => file(1, !nofollow(args[2])),
        nr::STAT => attributes(0, true, args[1], Form::Stat),
        nr::LSTAT => attributes(0, false, args[1], Form::Stat),
        nr::ACCESS if args[1] & !ACCESS & 0xffff_ffff == 0 => file(0, true),
        nr::FACCESSAT if cwd && args[2] & !ACCESS & 0xffff_ffff == 0 => file(1, true),
        nr::NEWFSTATAT if cwd && args[3] & !STAT_FLAGS & 0xffff_ffff == 0 => {
            attributes(1, !no_link(args[3]), args[2], Form::Stat)
        }
        nr::STATX if cwd && args[2] & !STAT_FLAGS == 0 && args[3] & !STATX_MASK == 0 => {
            attributes(1, !no_link(args[2]), args[4], Form::Statx(args[3] as u32))
        }
        nr::READLINK => link(0, args[1], args[2]),
        nr::READLINKAT if cwd => link(1, args[2], args[3]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lookups_that_names_can_answer() {
        let cwd = libc::AT_FDCWD as u64;
        let of = |call, args: [u64; 4]| {
            let [a, b, c, d] = args;
            lookup(call, &[a, b, c, d, 0, 0]).map(|l| (l.path_arg, l.follows))
        };
        assert_eq!(of(nr::OPEN, [1, 0, 0, 0]), Some((0, true)));
        assert_eq!(of(nr::OPEN, [1, libc::O_CREAT as u64, 0, 0]), None);
        assert_eq!(of(nr::OPEN, [1, libc::O_PATH as u64, 0, 0]), None);
        assert_eq!(of(nr::OPENAT, [cwd, 1, 0, 0]), Some((1, true)));
        assert_eq!(of(nr::OPENAT, [5, 1, 0, 0]), None);
        assert_eq!(of(nr::LSTAT, [1, 2, 0, 0]), Some((0, false)));
        assert_eq!(of(nr::ACCESS, [1, 8, 0, 0]), None, "EINVAL comes first");
        assert_eq!(of(nr::READLINK, [1, 2, 0, 0]), None, "EINVAL comes first");
        assert_eq!(of(nr::READLINK, [1, 2, 9, 0]), Some((0, false)));
        let empty = libc::AT_EMPTY_PATH as u64;
        assert_eq!(of(nr::NEWFSTATAT, [cwd, 1, 2, empty]), None);
    }
}
