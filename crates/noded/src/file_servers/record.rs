//! What is written down of the mount and of a file server, and where.

use crate::process::Process;
use crate::state_dir::StateDir;
use armento_model::NodeName;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// Below the state directory.
const DIR: &str = "mfs";
pub const MOUNT_FILE: &str = "mfs/mount.json";

/// The process that holds the mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountRecord {
    pub process: Process,
    pub point: PathBuf,
    /// It has said that it is mounted.
    pub up: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRecord {
    /// The node with the mount.
    pub asker: NodeName,
    /// The user, there and here.
    pub uid: u32,
    pub process: Process,
    /// 0 until it listens.
    pub port: u16,
}

pub fn dir(state: &StateDir) -> PathBuf {
    state.path().join(DIR)
}

pub fn stem(asker: &NodeName, uid: u32) -> String {
    format!("serve-{asker}-{uid}")
}

pub fn server_file(asker: &NodeName, uid: u32) -> String {
    format!("{DIR}/{}.json", stem(asker, uid))
}

/// Forgets a file server that has ended; its log goes with it when it is empty. One that was started since keeps both.
pub fn erase(state: &StateDir, record: &ServerRecord) {
    let file = server_file(&record.asker, record.uid);
    let written = state.read_json::<ServerRecord>(&file);
    if written.is_ok_and(|w| w.is_some_and(|w| w.process != record.process)) {
        return;
    }
    let _ = fs::remove_file(state.path().join(&file));
    let log = dir(state).join(format!("{}.log", stem(&record.asker, record.uid)));
    if fs::metadata(&log).is_ok_and(|m| m.len() == 0) {
        let _ = fs::remove_file(log);
    }
}
