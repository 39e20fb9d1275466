//! What a host leaves in the state directory and in `/proc`.

use super::cgroup::Cgroups;
use super::record::{Record, file_of, records, stem};
use crate::error::FarmError;
use crate::process::started;
use crate::state_dir::StateDir;
use crate::sys;
use armento_model::NodeName;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A host's log is emptied when it is longer, bytes.
const LOG_MAX: u64 = 1 << 20;

/// The directory for copies of one user's files at one home. The hosts that we start for that user have its
/// descriptor; the directory above keeps all others out.
pub fn shared_files(state: &StateDir, home: &NodeName, uid: u32) -> Option<PathBuf> {
    let all = state.path().join("files");
    let dir = all.join(format!("{home}-{uid}"));
    fs::create_dir_all(&dir).ok()?;
    fs::set_permissions(&all, fs::Permissions::from_mode(0o700)).ok()?;
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).ok()?;
    Some(dir)
}

/// Forgets a host that ended; its log goes with it when it is empty. Another of the same tree that has begun since
/// keeps both.
pub fn erase(state: &StateDir, record: &Record) {
    let written = state.read_json::<Record>(&file_of(record));
    if written.is_ok_and(|w| w.is_some_and(|w| !w.is(record))) {
        return;
    }
    let stem = stem(&record.home, record.tree);
    let of = |end: &str| records(state).join(format!("{stem}.{end}"));
    let _ = fs::remove_file(of("json"));
    if fs::metadata(of("log")).is_ok_and(|m| m.len() == 0) {
        let _ = fs::remove_file(of("log"));
    }
}

pub fn open_log(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

/// Empties logs that have grown too long. Hosts, file servers and the mount append, so they go on at the beginning.
pub fn trim_logs(state: &StateDir) -> Result<(), FarmError> {
    let dirs = [records(state), state.path().join("mfs")];
    let files = dirs.iter().flat_map(fs::read_dir).flatten().flatten();
    for file in files {
        if file.metadata().is_ok_and(|m| m.len() > LOG_MAX) {
            OpenOptions::new()
                .write(true)
                .open(file.path())
                .and_then(|f| f.set_len(0))
                .map_err(FarmError::state("cannot trim a host's log"))?;
        }
    }
    Ok(())
}

/// Ends a host. Another process with its pid, which began at another time, is spared.
pub fn kill(record: &Record) {
    if started(record.pid) == Some(record.started) {
        tracing::info!("host of {} tree {} is not wanted", record.home, record.tree);
        sys::kill(record.pid);
    }
}

/// All that a host of an earlier daemon's leaves, when it has ended or is about to.
pub fn clean_up(state: &StateDir, record: &Record) {
    erase(state, record);
    let groups = Cgroups::of(record);
    // Its last process may end after it: this waits.
    let _ = std::thread::Builder::new()
        .name("cgroup".into())
        .spawn(move || groups.remove());
}
