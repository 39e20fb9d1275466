//! The node's own files, and what its unit needs to join: written into the new root before it starts.

use super::http::{Joining, Servers};
use super::order::{Order, ServerAddress};
use super::root::NEW;
use rustix::mount::{MountFlags, mount};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Where the unit finds [`NodeFile`]: below /run, in memory, for root alone.
pub const NODE_FILE: &str = "/run/armento-boot/node.json";

/// What the initramfs leaves for the node's unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFile {
    pub node: String,
    pub mac: armento_fabric::addr::Mac,
    /// The address by which the farm knows it.
    pub address: std::net::Ipv4Addr,
    /// HTTP of its boot servers.
    pub servers: Vec<std::net::SocketAddrV4>,
    /// None where no boot server made a token: the unit asks again.
    pub joining: Option<Joining>,
}

/// Unpacks the node's own files. Before: the root is mounted.
pub fn write_node_files(order: &Order, servers: &Servers) -> Result<(), String> {
    let bytes = servers.get(&format!("/node.tar?mac={}", order.mac))?;
    let mut tar = tar::Archive::new(bytes.as_slice());
    tar.set_preserve_permissions(true);
    tar.set_preserve_ownerships(true);
    tar.set_overwrite(true);
    tar.unpack(NEW)
        .map_err(|e| format!("the node's own files: {e}"))
}

/// Mounts /run and writes there what the node's unit needs.
pub fn write_node_orders(order: &Order, servers: &Servers) -> Result<(), String> {
    let run = format!("{NEW}/run");
    fs::create_dir_all(&run).map_err(|e| format!("{run}: {e}"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", &run, "tmpfs", flags, c"mode=0755").map_err(|e| format!("{run}: {e}"))?;
    // A farm may have been made elsewhere, or not yet: the node starts all the same.
    let joining = servers.joining().ok();
    let word = NodeFile {
        node: order.node.clone(),
        mac: order.mac,
        address: order.address.addr(),
        servers: order
            .servers
            .iter()
            .map(|s: &ServerAddress| s.http)
            .collect(),
        joining,
    };
    let path = format!("{NEW}{NODE_FILE}");
    let at = |e: std::io::Error| format!("{path}: {e}");
    let dir = Path::new(&path).parent().unwrap_or(Path::new(NEW));
    fs::DirBuilder::new().mode(0o700).create(dir).map_err(at)?;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(at)?;
    let bytes = serde_json::to_vec(&word).map_err(|e| e.to_string())?;
    file.write_all(&bytes).map_err(at)
}
