//! `armento mfs stat`: the mount process says what its streams did, this daemon the rest.
//!
//! From: `noded/src/control/requests.rs`. Next: `cli/src/mfs/mount.rs`, which answers.

use crate::config::exports;
use crate::state::Node;
use armento_client::api::{MfsInfo, MfsServer, MfsStream, socket_of_mount};
use armento_client::read_line;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The mount process answers from its counters, at once.
const ANSWERED: Duration = Duration::from_secs(3);

/// For `uid`, who sees only what is its own, unless that is 0. Blocks.
pub fn stat(node: &Node, uid: u32) -> MfsInfo {
    let (on, given) = (node.lock().switches.mfs(), node.settings());
    let mount = node.mfs.mount().clone();
    let lives = mount.record.as_ref().filter(|r| r.up && r.process.lives());
    let mut why = match lives {
        Some(_) => String::new(),
        None => mount.why,
    };
    let streams = match lives.map(|_| streams(node)) {
        Some(Ok(streams)) => streams,
        // Switched off, it ends: that is not the reason why it is still there.
        Some(Err(_)) if !on => Vec::new(),
        Some(Err(e)) => {
            why = format!("the mount process does not answer: {e}");
            Vec::new()
        }
        None => Vec::new(),
    };
    let sees = |of: u32| uid == 0 || uid == of;
    let server = |r: &crate::file_servers::ServerRecord| MfsServer {
        node: r.asker.clone(),
        uid: r.uid,
        pid: r.process.pid,
    };
    MfsInfo {
        node: node.farm.node.clone(),
        on,
        point: lives.map_or_else(|| given.mfs.point().to_owned(), |r| r.point.clone()),
        mounted: lives.is_some(),
        why,
        streams: streams.into_iter().filter(|s| sees(s.uid)).collect(),
        servers: node
            .mfs
            .servers()
            .all()
            .filter(|r| sees(r.uid))
            .map(server)
            .collect(),
        exports: exports(&given.mfs, &given.mfs_export, node.state.path()),
    }
}

fn streams(node: &Node) -> Result<Vec<MfsStream>, String> {
    let path = socket_of_mount(&node.config.socket_path());
    let stream = UnixStream::connect(path).map_err(|e| e.to_string())?;
    stream
        .set_read_timeout(Some(ANSWERED))
        .map_err(|e| e.to_string())?;
    read_line(&mut BufReader::new(stream)).map_err(|e| e.to_string())
}
