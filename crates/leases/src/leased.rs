//! A file with a lease.

use crate::client::{self, Held};
use crate::{own, sys};
use std::fs::File;
use std::ops::Deref;

/// A file with a read lease; dropped, its description has neither a lease nor an owner any more.
pub struct Leased {
    /// By a lease holder; `None`: by this process.
    held: Option<Held>,
    file: File,
    /// The description is a program's.
    theirs: bool,
}

impl Leased {
    /// A lease on a description that a program has as well. `None` also for one that has a lease or an owner already.
    /// Dropped, nothing of ours refers to that description.
    pub fn take(theirs: File) -> Option<Leased> {
        let plain = !sys::has_io_owner(&theirs) && sys::lease(&theirs) == libc::F_UNLCK;
        if plain {
            Leased::new(theirs, true)
        } else {
            None
        }
    }

    /// A lease on a file that this process opened. Dropped, [`client::settle`] tells when a lease holder has let go of it.
    pub fn take_own(file: File) -> Option<Leased> {
        Leased::new(file, false)
    }

    fn new(file: File, theirs: bool) -> Option<Leased> {
        let held = match own::try_take(&file) {
            Ok(()) => None,
            Err(e) if e.raw_os_error() == Some(libc::EACCES) => Some(client::take(&file)?),
            Err(_) => return None,
        };
        Some(Leased { held, file, theirs })
    }

    /// Whether a process waits to write the file, or did.
    pub fn is_wanted(&self) -> bool {
        self.held.as_ref().is_some_and(Held::is_lost) || own::wanted(&self.file)
    }
}

impl Deref for Leased {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        match self.held.take() {
            Some(held) => {
                drop(held);
                if self.theirs {
                    client::settle();
                }
            }
            None => sys::end_lease(&self.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_s_description_is_left_as_it_was() {
        let path = std::env::temp_dir().join(format!("armento-leased-{}", std::process::id()));
        std::fs::write(&path, "x").expect("written");
        let f = File::open(&path).expect("opened");
        let dup = f.try_clone().expect("duplicated");
        let l = Leased::take(dup).expect("a lease");
        assert!(!own::wanted(&f), "it is the description's");
        drop(l);
        assert_eq!(sys::lease(&f), libc::F_UNLCK);
        assert!(!sys::has_io_owner(&f));
        std::fs::remove_file(path).expect("removed");
    }
}
