//! The files that a body maps: their names and contents.

use super::body::MappedFile;
use crate::state::Keep;
use crate::sync::lock;
use armento_migrate::image::files::{file_key, rescued};
use armento_migrate::image::{Area, files_of};
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{Pid, Stay};
use armento_tracee::maps;
use armento_wire::talk::FileKey;
use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;

/// Their names, as the process at home has them mapped: a deputy keeps the mappings of its body.
pub fn names(keep: &Keep, pid: Pid, areas: &[Area]) -> Result<HashMap<FileKey, PathBuf>> {
    let list = maps::read(pid).map_err(|_| MigrateError::Ended)?;
    let known = lock(&keep.names).clone();
    let mut names = HashMap::new();
    for key in files_of(areas) {
        let mapped = list
            .iter()
            .find(|v| v.is_file() && known.get(v) == Some(key));
        let name = mapped.map(|v| v.name.as_str());
        match name.filter(|n| !rescued(&key) && !n.ends_with(" (deleted)")) {
            Some(name) => names.insert(key, PathBuf::from(name)),
            None => {
                let which = name.unwrap_or("a file without a name");
                let why = format!("it maps {which}, by which it could not be found again");
                return Err(MigrateError::Stays(Stay::KernelState, why));
            }
        };
    }
    Ok(names)
}

/// With their contents' digests, which are known for those that were read before.
pub fn read(
    names: &HashMap<FileKey, PathBuf>,
    known: &mut HashMap<FileKey, [u8; 32]>,
) -> Result<Vec<MappedFile>> {
    let mut all = Vec::new();
    for (key, path) in names {
        let digest = match known.get(key) {
            Some(digest) => *digest,
            None => {
                let digest = armento_checkpoint::home::sha256(path).local("read a mapped file")?;
                let now = File::open(path).ok().and_then(|f| file_key(&f));
                if now != Some(*key) {
                    let why = format!("{}, which it maps, has changed just now", path.display());
                    return Err(MigrateError::Stays(Stay::Busy, why));
                }
                known.insert(*key, digest);
                digest
            }
        };
        all.push(MappedFile::new(*key, path, digest));
    }
    Ok(all)
}
