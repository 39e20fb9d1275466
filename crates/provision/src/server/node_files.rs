//! Each node's own files: name, addresses, network, what tags give it. They are written over the image at each boot.

use crate::problem::{At, BootError};
use crate::view::{Client, lookup, split};
use armento_fabric::inventory::{Farm, Node};
use armento_fabric::plan::plan;
use armento_fabric::render::{self, Backend, File, node_files as network_files};
use ring::digest::{SHA256, digest};
use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

/// Directories that are searched for tags: a loop of links is not followed, but a tree may be deep.
const DEPTH_MAX: usize = 64;

/// The node's own files of the inventory.
pub fn node_files(farm: &Farm, node: &Node) -> Vec<File> {
    let file = |path: &str, text: String| File {
        path: path.into(),
        text,
        mode: 0o644,
    };
    let mut files = vec![
        file("/etc/hostname", format!("{}\n", node.name)),
        file(
            "/etc/hosts",
            format!(
                "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n{}",
                render::hosts(farm)
            ),
        ),
        file(
            "/etc/machine-id",
            format!("{}\n", machine_id(&farm.name, &node.name)),
        ),
    ];
    files.extend(network_files(&plan(farm, node), Backend::Networkd));
    let net = farm.boot_net();
    if let Some(link) = net.and_then(|n| node.link_in(&n.name)) {
        // The root is behind this card: what the initramfs set up stays.
        files.push(file(
            &format!(
                "/etc/systemd/network/10-armento-{}.network.d/boot.conf",
                link.name
            ),
            "[Network]\nKeepConfiguration=yes\n".into(),
        ));
    }
    let servers = farm.boot_servers.iter().filter_map(|s| farm.node(s));
    let addresses = servers.filter_map(|s| s.address(&net?.name));
    let clocks: String = addresses
        .map(|a| format!("server {a} iburst minpoll 0 maxpoll 4\n"))
        .collect();
    files.push(file("/etc/chrony/conf.d/armento-boot.conf", clocks));
    files
}

/// The same node has the same machine-id at each boot, on whichever server: the farm knows machines by it.
pub fn machine_id(farm: &str, node: &str) -> String {
    let sum = digest(
        &SHA256,
        format!("armento machine-id\0{farm}\0{node}").as_bytes(),
    );
    sum.as_ref()[..16]
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// All of the node's own files as a tar archive. `root`: of an image in memory, whose tags are resolved here; a live root's
/// are resolved by the NFS server.
pub fn node_tar(farm: &Farm, node: &Node, root: Option<&Path>) -> Result<Vec<u8>, BootError> {
    let mut tar = tar::Builder::new(Vec::new());
    let nowhere = Path::new("node.tar");
    if let Some(root) = root
        && let Some(client) = client(farm, node)
    {
        tagged(
            root,
            Path::new(""),
            Path::new(""),
            false,
            &client,
            &mut tar,
            0,
        )?;
    }
    for one in node_files(farm, node) {
        let path = one.path.trim_start_matches('/');
        let mut head = tar::Header::new_gnu();
        head.set_size(one.text.len() as u64);
        head.set_mode(one.mode);
        head.set_uid(0);
        head.set_gid(0);
        head.set_cksum();
        tar.append_data(&mut head, path, one.text.as_bytes())
            .at(nowhere)?;
    }
    tar.into_inner().at(nowhere)
}

fn client(farm: &Farm, node: &Node) -> Option<Client> {
    let address: IpAddr = node.address(&farm.boot_net()?.name)?;
    Some(Client {
        name: Some(node.name.clone()),
        address,
    })
}

/// Adds what the node sees otherwise than it lies in the image. `from`: the directory in the image; `to`: as the node names
/// it; `inside`: a directory above has a tag, so everything in this one is the node's own.
fn tagged(
    root: &Path,
    from: &Path,
    to: &Path,
    inside: bool,
    client: &Client,
    tar: &mut tar::Builder<Vec<u8>>,
    depth: usize,
) -> Result<(), BootError> {
    let dir = root.join(from);
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(&dir).at(&dir)? {
        names.insert(entry.at(&dir)?.file_name().to_string_lossy().into_owned());
    }
    let bases: BTreeSet<&str> = names.iter().map(|n| split(n).0).collect();
    for base in bases {
        let chosen = lookup(&names, base, client, &|_| true);
        let path = dir.join(&chosen.name);
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        let own = inside || chosen.name != base;
        let (from, to) = (from.join(&chosen.name), to.join(base));
        if own {
            tar.follow_symlinks(false);
            tar.append_path_with_name(&path, &to).at(&path)?;
        }
        if meta.is_dir() && depth < DEPTH_MAX {
            tagged(root, &from, &to, own, client, tar, depth + 1)?;
        }
    }
    Ok(())
}
