//! Proof that two nodes see one file system: a file of random name and content that one has written, and the other finds.
//!
//! A copy of a file system has the same numbers of device, inode and volume, and other bytes from then on. The file lies in
//! a directory of its own, [`DIRECTORY`], in the root of the mount, and is its user's alone.

use crate::{Root, identity};
use armento_model::FileIdentity;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, statat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The directory of these files below the root of a mount: any user may make files in it, and remove only their own.
pub const DIRECTORY: &str = ".armento-dfsa";
/// As /tmp: inode(7), the sticky bit.
const MODE: u32 = 0o1777;
/// 128 bits: nobody else makes the same.
const RANDOM: usize = 16;
/// Bytes of a proof's content.
const CONTENT: usize = 32;

/// A proof is looked for within seconds; one of this age, in seconds, was left behind.
const OLD: i64 = 3600;
/// Entries of the directory that are looked at for such.
const LOOKED_AT: usize = 1024;

/// A file that this node wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Below [`DIRECTORY`].
    pub name: String,
    pub content: Vec<u8>,
    pub identity: FileIdentity,
}

/// Makes the directory of proofs, if it is not there. Before: the caller may write in the root of the mount.
pub fn make_directory(root: &Root) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let open = || root.open_below(Path::new(DIRECTORY), flags, Mode::empty());
    if open().is_ok() {
        return Ok(());
    }
    root.make_below(Path::new(DIRECTORY))?;
    // Whatever the umask is.
    rustix::fs::fchmod(open()?, Mode::from_raw_mode(MODE))
}

impl Proof {
    /// Writes one, and removes those that the same user has left behind.
    pub fn write(root: &Root) -> io::Result<Proof> {
        remove_old(root);
        let mut random = [0u8; RANDOM + CONTENT];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let name: String = random[..RANDOM]
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        let content = random[RANDOM..].to_vec();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let mut file = root.open_below(&path(&name), flags, Mode::RUSR | Mode::WUSR)?;
        // Its close sends it to a server that other nodes ask.
        let known = file.write_all(&content).map(|()| identity(&file));
        match known {
            Ok(Some(identity)) => Ok(Proof {
                name,
                content,
                identity,
            }),
            failed => {
                remove(root, &name);
                Err(failed.err().unwrap_or_else(|| Errno::IO.into()))
            }
        }
    }
}

/// Reads the proof that another node has written.
pub fn read(root: &Root, name: &str) -> io::Result<(Vec<u8>, FileIdentity)> {
    if !is_name(name) {
        return Err(Errno::INVAL.into());
    }
    // A pipe of that name would be waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file = root.open_below(&path(name), flags, Mode::empty())?;
    let identity = identity(&file).ok_or(Errno::IO)?;
    let mut content = Vec::new();
    file.take(CONTENT as u64 + 1).read_to_end(&mut content)?;
    Ok((content, identity))
}

/// Removes a proof, whoever of the two nodes wrote it.
pub fn remove(root: &Root, name: &str) {
    if is_name(name) {
        // Gone already, or another's: it is small, and a sign of what went wrong.
        let _ = root.remove_below(&path(name));
    }
}

/// A program that ended while its home was looking leaves one. Those of other users cannot be removed.
fn remove_old(root: &Root) -> Option<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let dir = root
        .open_below(Path::new(DIRECTORY), flags, Mode::empty())
        .ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs() as i64;
    for entry in Dir::read_from(&dir).ok()?.flatten().take(LOOKED_AT) {
        let name = entry.file_name();
        let old = |s: rustix::fs::Stat| s.st_mtime < now - OLD;
        let stat = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW);
        if name.to_str().is_ok_and(is_name) && stat.is_ok_and(old) {
            let _ = unlinkat(&dir, name, AtFlags::empty());
        }
    }
    Some(())
}

/// Whether it can be the name of a proof.
pub fn is_name(name: &str) -> bool {
    name.len() == 2 * RANDOM && name.bytes().all(|b| b.is_ascii_hexdigit())
}

fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

impl Root {
    fn make_below(&self, path: &Path) -> Result<(), Errno> {
        match rustix::fs::mkdirat(self.file(), path, Mode::from_raw_mode(MODE)) {
            Err(Errno::EXIST) => Ok(()),
            other => other,
        }
    }

    /// Removes a file in a directory right below the root.
    fn remove_below(&self, path: &Path) -> Result<(), Errno> {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::INVAL);
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let dir = self.open_below(dir, flags, Mode::empty())?;
        unlinkat(dir, name, AtFlags::empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_writes_the_other_finds_with_the_same_identity() {
        let root = Root::open(Path::new("/dev/shm")).expect("a mount point");
        let had = Path::new("/dev/shm").join(DIRECTORY).exists();
        make_directory(&root).expect("made");
        make_directory(&root).expect("it is there");
        let proof = Proof::write(&root).expect("written");
        assert!(is_name(&proof.name));
        let (content, identity) = read(&root, &proof.name).expect("found");
        assert_eq!((content, identity), (proof.content, proof.identity));
        remove(&root, &proof.name);
        assert!(read(&root, &proof.name).is_err());
        let left = Path::new("/dev/shm").join(path(&proof.name));
        let long_ago = SystemTime::now() - std::time::Duration::from_secs(2 * OLD as u64);
        let made = File::create(&left).and_then(|f| f.set_modified(long_ago));
        made.expect("made");
        remove(&root, &Proof::write(&root).expect("written").name);
        assert!(!left.exists(), "it was left behind");
        for bad in ["", "../../etc/passwd", "0123", &"x".repeat(32)] {
            assert!(!is_name(bad) && read(&root, bad).is_err(), "{bad}");
        }
        if !had {
            std::fs::remove_dir(Path::new("/dev/shm").join(DIRECTORY)).expect("removed");
        }
    }
}
