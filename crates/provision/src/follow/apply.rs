//! Makes a directory equal to a list of items, file by file: each path is the old one or the new one.

use super::items::{Item, Kind, is_below, items, set_owner};
use crate::problem::{At, BootError};
use rustix::fs::{CWD, FileType, Mode};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    pub changed: usize,
    /// Files that were changed while they came: the next attempt has them.
    pub missed: usize,
}

/// Writes a file's content to a path. `false`: it changed meanwhile, or is gone.
pub type Fetch<'a> = &'a mut dyn FnMut(&Item, &Path) -> Result<bool, BootError>;

/// `incoming`: a path of the same file system for what is not complete. After an error the next call goes on.
pub fn apply(
    root: &Path,
    incoming: &Path,
    want: &[Item],
    fetch: Fetch,
) -> Result<Applied, BootError> {
    let mut have: BTreeMap<String, Item> = items(root)?
        .into_iter()
        .map(|i| (i.path.clone(), i))
        .collect();
    let mut done = Applied::default();
    let mut directories = BTreeSet::from([String::new()]);
    for item in want {
        let parent = item.path.rsplit_once('/').map_or("", |(p, _)| p);
        if !is_below(&item.path) || !directories.contains(parent) {
            return Err(BootError::refused(
                format!(
                    "the other boot server names {:?}, which is no path of a root",
                    item.path
                ),
                "does it run the same version?",
            ));
        }
        if item.kind.is_directory() {
            directories.insert(item.path.clone());
        }
        let before = have.remove(&item.path);
        if before.as_ref() == Some(item) {
            continue;
        }
        let path = root.join(&item.path);
        if before.as_ref().is_some_and(|b| b.kind == item.kind) {
            set_owner(&path, item).at(&path)?;
            // KERNEL: utimensat(2) is not needed: none of these calls changes st_mtim.
            done.changed += 1;
            continue;
        }
        if before.as_ref().is_some_and(|b| b.kind.is_directory()) {
            fs::remove_dir_all(&path).at(&path)?;
            let below = format!("{}/", item.path);
            have.retain(|p, _| !p.starts_with(&below));
        }
        match make(item, &path, incoming, before.is_some(), fetch)? {
            true => done.changed += 1,
            false => done.missed += 1,
        }
    }
    // What is in a directory before the directory.
    for (name, item) in have.iter().rev() {
        let path = root.join(name);
        match item.kind.is_directory() {
            true => fs::remove_dir(&path),
            false => fs::remove_file(&path),
        }
        .at(&path)?;
        done.changed += 1;
    }
    Ok(done)
}

fn make(
    item: &Item,
    path: &Path,
    incoming: &Path,
    is_there: bool,
    fetch: Fetch,
) -> Result<bool, BootError> {
    if item.kind.is_directory() {
        if is_there && !path.is_dir() {
            fs::remove_file(path).at(path)?;
        }
        match fs::create_dir(path) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => made.at(path)?,
        }
        set_owner(path, item).at(path)?;
        return Ok(true);
    }
    let _ = fs::remove_file(incoming);
    match &item.kind {
        Kind::File { changed, .. } => {
            if !fetch(item, incoming)? {
                let _ = fs::remove_file(incoming);
                return Ok(false);
            }
            set_owner(incoming, item).at(incoming)?;
            let file = File::options().write(true).open(incoming).at(incoming)?;
            file.set_modified(time(*changed)).at(incoming)?;
        }
        Kind::Link { to } => {
            std::os::unix::fs::symlink(to, incoming).at(incoming)?;
            set_owner(incoming, item).at(incoming)?;
        }
        kind => {
            let (kind, number) = match kind {
                Kind::Device {
                    block: true,
                    number,
                } => (FileType::BlockDevice, *number),
                Kind::Device { number, .. } => (FileType::CharacterDevice, *number),
                _ => (FileType::Fifo, 0),
            };
            rustix::fs::mknodat(CWD, incoming, kind, Mode::from_raw_mode(0o600), number)
                .map_err(std::io::Error::from)
                .at(incoming)?;
            set_owner(incoming, item).at(incoming)?;
        }
    }
    fs::rename(incoming, path).at(path)?;
    Ok(true)
}

fn time((seconds, nanoseconds): (i64, i64)) -> SystemTime {
    let rest = Duration::from_nanos(nanoseconds.unsigned_abs());
    match seconds >= 0 {
        true => UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs()) + rest,
        false => UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()) + rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    struct Dir(std::path::PathBuf);

    impl Dir {
        fn new(name: &str) -> Dir {
            let name = format!("armento-follow-{name}-{}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&dir);
            for below in ["from/etc", "to/old/deep", "to/turned"] {
                fs::create_dir_all(dir.join(below)).expect("directory");
            }
            Dir(dir)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_copy_is_equal_and_the_second_time_there_is_nothing_to_do() {
        let dir = Dir::new("equal");
        let (from, to) = (dir.0.join("from"), dir.0.join("to"));
        fs::write(from.join("etc/hosts"), "1").expect("file");
        fs::write(from.join("turned"), "a file").expect("file");
        symlink("etc/hosts", from.join("link")).expect("link");
        fs::create_dir(from.join("made")).expect("directory");
        let mode = fs::Permissions::from_mode(0o4750);
        fs::set_permissions(from.join("turned"), mode).expect("mode");
        fs::write(to.join("old/deep/file"), "x").expect("file");
        fs::write(to.join("made"), "a file").expect("file");
        fs::write(to.join("turned/x"), "x").expect("file");
        let want = items(&from).expect("items");
        let mut fetch = |item: &Item, to: &Path| {
            fs::copy(from.join(&item.path), to).at(to)?;
            Ok(true)
        };
        let incoming = dir.0.join("incoming");
        let first = apply(&to, &incoming, &want, &mut fetch).expect("applied");
        assert!(first.changed > 5 && first.missed == 0, "{first:?}");
        assert_eq!(items(&to).expect("items"), want);
        let none = &mut |_: &Item, _: &Path| panic!("nothing is fetched");
        let second = apply(&to, &incoming, &want, none).expect("applied");
        assert_eq!(second, Applied::default());
        // A mode alone needs no content.
        let mode = fs::Permissions::from_mode(0o600);
        let before = super::super::items::sign(&from).expect("sign");
        fs::set_permissions(from.join("turned"), mode).expect("mode");
        assert_ne!(super::super::items::sign(&from).expect("sign"), before);
        let want = items(&from).expect("items");
        let third = apply(&to, &incoming, &want, none).expect("applied");
        assert_eq!(third.changed, 1);
        assert_eq!(items(&to).expect("items"), want);
    }

    #[test]
    fn paths_below_links_and_outside_are_refused() {
        let dir = Dir::new("outside");
        let item = |path: &str, kind: Kind| Item {
            path: path.into(),
            mode: 0o755,
            uid: 0,
            gid: 0,
            kind,
            attributes: Vec::new(),
        };
        let link = item("a", Kind::Link { to: "/tmp".into() });
        for bad in ["a/x", "../x", "/x", "none/x"] {
            let want = [link.clone(), item(bad, Kind::Pipe)];
            let none = &mut |_: &Item, _: &Path| Ok(false);
            let e = apply(&dir.0.join("to"), &dir.0.join("incoming"), &want, none);
            assert!(e.is_err(), "{bad}");
        }
    }
}
