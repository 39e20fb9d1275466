//! What tells one file of a file system from all others, and one state of it from others.

use crate::sys;
use armento_model::FileIdentity;
use rustix::fs::{AtFlags, Statx, StatxFlags, statx};
use rustix::io::Errno;
use std::os::fd::AsFd;

pub(crate) fn statx_of(file: impl AsFd, more: StatxFlags) -> Result<Statx, Errno> {
    statx(
        file,
        c"",
        AtFlags::EMPTY_PATH,
        StatxFlags::BASIC_STATS | more,
    )
}

/// Reads it from the file system, of any descriptor.
pub fn identity(file: impl AsFd) -> Option<FileIdentity> {
    let s = statx_of(&file, StatxFlags::empty()).ok()?;
    Some(FileIdentity {
        ino: s.stx_ino,
        size: s.stx_size,
        mtime: (s.stx_mtime.tv_sec, s.stx_mtime.tv_nsec),
        mode: s.stx_mode.into(),
        uid: s.stx_uid,
        handle: sys::handle(file.as_fd()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn names_of_one_file_have_one_identity_and_a_write_changes_it() {
        let at = std::env::temp_dir().join(format!("dfsa-identity-{}", std::process::id()));
        let other = at.with_extension("other");
        let mut f = std::fs::File::create(&at).expect("made");
        std::fs::hard_link(&at, &other).expect("linked");
        let again = std::fs::File::open(&other).expect("opened");
        let (one, same) = (identity(&f).expect("read"), identity(&again).expect("read"));
        assert_eq!(one, same);
        f.write_all(b"x").expect("written");
        assert_ne!(identity(&again).expect("read"), one);
        let third = std::fs::File::create(at.with_extension("third")).expect("made");
        assert_ne!(identity(&third).expect("read").ino, one.ino);
        for path in [&at, &other, &at.with_extension("third")] {
            std::fs::remove_file(path).expect("removed");
        }
    }
}
