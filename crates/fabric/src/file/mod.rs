//! Replaces a file as a whole: a reader, and a machine that loses power, has the old or the new one. It writes no part of a file
//! in place. Start at [`replace`].

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::Path;

/// Of a file that was not there before, less the umask. POSIX: open(2), as other programs make files.
const NEW: u32 = 0o666;
/// Until owner and mode are set, the new file is closed to others.
const CLOSED: u32 = 0o600;
/// KERNEL: inode(7), S_ISUID and S_ISGID.
const SET_ID: u32 = 0o6000;
const GROUP: u32 = 0o070;

/// Replaces a file; mode and owner stay what they were, as far as this process may set the owner. Before: no other user may
/// make files in its directory, whose owner this file would keep.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let before = match fs::symlink_metadata(path) {
        Ok(before) => Some(before).filter(Metadata::is_file),
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    let mode = before.as_ref().map_or(NEW, |_| CLOSED);
    put(path, bytes, mode, |file| {
        before.map_or(Ok(()), |before| keep(file, &before))
    })
}

/// Replaces a file by one with this mode, which belongs to this process's user.
pub fn replace_with_mode(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let set = |file: &File| file.set_permissions(Permissions::from_mode(mode));
    put(path, bytes, CLOSED, set)
}

/// Replaces a file by a new one, which keeps nothing of it: for directories in which other users make files, too.
pub fn replace_by_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, NEW, |_| Ok(()))
}

/// Makes a file beside `path` with `mode`, has `set` give it its rights, and gives it that name. A symbolic link of that name is
/// replaced, not followed.
fn put(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    set: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let new = path.with_added_extension(format!("new-{}", std::process::id()));
    let written = create(&new, mode).and_then(|mut file| {
        file.write_all(bytes)?;
        set(&file)?;
        file.sync_all()
    });
    let done = written.and_then(|()| fs::rename(&new, path));
    if done.is_err() {
        // Half of it is of no use, and takes room that may be missing.
        let _ = fs::remove_file(&new);
        return done;
    }
    // KERNEL: fsync(2): the new name is on the disk when its directory is. The old file is as whole as the new one.
    let dir = path.parent().filter(|p| !p.as_os_str().is_empty());
    let _ = File::open(dir.unwrap_or(Path::new("."))).and_then(|dir| dir.sync_all());
    Ok(())
}

fn create(new: &Path, mode: u32) -> io::Result<File> {
    // What a process with this number left when it was killed.
    match fs::remove_file(new) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    options.open(new)
}

/// Gives a new file owner, group and mode of the old one.
fn keep(file: &File, before: &Metadata) -> io::Result<()> {
    let made = file.metadata()?;
    let user = made.uid() == before.uid() || permitted(fchown(file, Some(before.uid()), None))?;
    let group = made.gid() == before.gid() || permitted(fchown(file, None, Some(before.gid())))?;
    // After the owner. KERNEL: chown(2) clears these bits.
    file.set_permissions(Permissions::from_mode(mode(before.mode(), user, group)))
}

/// KERNEL: chown(2): only root gives files away, and only to its own groups does a user.
fn permitted(done: io::Result<()>) -> io::Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => Ok(false),
        Err(e) => Err(e),
    }
}

/// The mode of a file whose owner and group could be kept or not: another user's rights are not given to this process's user,
/// nor the rights of one group to another.
fn mode(before: u32, user: bool, group: bool) -> u32 {
    let mut mode = before & 0o7777;
    if !(user && group) {
        mode &= !SET_ID;
    }
    if !group {
        let others = (mode & 0o007) << 3;
        mode = (mode & !GROUP) | (mode & GROUP & others);
    }
    mode
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};
    use std::path::PathBuf;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Dir {
            let name = format!("armento-file-{name}-{}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&dir);
            fs::create_dir_all(&dir).expect("directory");
            Dir(dir)
        }

        fn names(&self) -> Vec<String> {
            let all = fs::read_dir(&self.0).expect("directory");
            let name = |e: io::Result<fs::DirEntry>| e.expect("entry").file_name();
            let mut names: Vec<String> = all
                .map(|e| name(e).to_string_lossy().into_owned())
                .collect();
            names.sort();
            names
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).expect("file").mode() & 0o7777
    }

    #[test]
    fn a_replaced_file_keeps_mode_and_owner() {
        let dir = Dir::new("kept");
        let path = dir.0.join("farm.toml");
        fs::write(&path, "old").expect("old");
        fs::set_permissions(&path, Permissions::from_mode(0o664)).expect("mode");
        let other = (1234, 4321);
        // Only root gives a file away; another user's own file stays his in any case.
        let given = permitted(chown(&path, Some(other.0), Some(other.1))).expect("owner");
        let before = fs::metadata(&path).expect("file");
        replace(&path, b"new").expect("replaced");
        let after = fs::metadata(&path).expect("file");
        assert_eq!(fs::read(&path).expect("file"), b"new");
        assert_eq!(mode_of(&path), 0o664);
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
        assert!(!given || (after.uid(), after.gid()) == other);
        assert_ne!(after.ino(), before.ino(), "readers of the old one have it");
        assert_eq!(dir.names(), ["farm.toml"]);
    }

    #[test]
    fn a_file_with_a_mode_has_that_one() {
        let dir = Dir::new("given");
        let path = dir.0.join("key");
        fs::write(&path, "old").expect("old");
        replace_with_mode(&path, b"new", 0o600).expect("replaced");
        assert_eq!(mode_of(&path), 0o600);
        replace_with_mode(&path, b"newer", 0o644).expect("replaced");
        assert_eq!(
            (mode_of(&path), fs::read(&path).expect("file")),
            (0o644, b"newer".to_vec())
        );
    }

    #[test]
    fn a_link_is_replaced_and_what_it_names_stays() {
        let dir = Dir::new("link");
        let (file, link) = (dir.0.join("file"), dir.0.join("link"));
        fs::write(&file, "old").expect("old");
        fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("mode");
        for replaced in [replace, replace_by_new] {
            let _ = fs::remove_file(&link);
            symlink("file", &link).expect("link");
            replaced(&link, b"new").expect("replaced");
            assert!(fs::symlink_metadata(&link).expect("file").is_file());
            assert_eq!(fs::read(&link).expect("file"), b"new");
            assert_eq!(fs::read(&file).expect("file"), b"old");
        }
        assert_eq!(dir.names(), ["file", "link"]);
    }

    #[test]
    fn a_new_file_keeps_nothing() {
        let dir = Dir::new("new");
        let path = dir.0.join("file");
        fs::write(&path, "old").expect("old");
        let own = mode_of(&path);
        fs::set_permissions(&path, Permissions::from_mode(0o4777)).expect("mode");
        replace_by_new(&path, b"new").expect("replaced");
        assert_eq!(mode_of(&path), own);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_stays_and_nothing_is_left() {
        let dir = Dir::new("failed");
        let path = dir.0.join("place");
        fs::create_dir(&path).expect("directory");
        assert!(replace(&path, b"new").is_err());
        assert_eq!(dir.names(), ["place"]);
        assert!(replace(&dir.0.join("none/file"), b"new").is_err());
    }

    #[test]
    fn rights_are_not_handed_to_other_owners() {
        assert_eq!(mode(0o100_640, true, true), 0o640);
        assert_eq!(mode(0o106_755, true, true), 0o6755);
        assert_eq!(mode(0o106_755, false, true), 0o755);
        assert_eq!(mode(0o100_664, true, false), 0o644);
        assert_eq!(mode(0o100_640, false, false), 0o600);
    }
}
