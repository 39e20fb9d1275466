//! Mounts that this node shares with others (DFSA): declared by an administrator, proved by keepers.
//!
//! The daemon opens no file for a program. From: `noded/src/work/start_host.rs`, `noded/src/control/requests.rs`. Next:
//! `crates/keeper/src/shared_mounts`, `crates/host/src/shared_mounts`.

use crate::config::shared_mounts;
use crate::state::Node;
use crate::sys;
use armento_client::api::{
    DfsaInfo, DfsaMount, DfsaNode, MountVerdict, SharedMount, SharedStart, SharedUser,
};
use armento_dfsa::{Coherence, Root, kind, make_directory};
use armento_model::{NodeName, clean};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Verdicts that are kept, of nodes times mounts.
const VERDICTS_MAX: usize = 4096;
/// How long a shared file system may take to make a directory before the daemon serves.
const PREPARED: Duration = Duration::from_secs(2);
/// Longest reason that is kept, bytes.
const WHY_MAX: usize = 512;

/// The mounts that keepers of this node may share.
pub fn declared(node: &Node) -> Vec<SharedMount> {
    shared_mounts(&node.config.dfsa, &node.config.dfsa_relaxed)
}

/// Makes the directories of proofs, so that users need no right in the roots of the mounts. A file system that does not
/// answer is not waited for.
pub fn prepare(node: &Node) {
    let mounts = declared(node);
    if mounts.is_empty() {
        return;
    }
    let (done, wait) = mpsc::channel();
    let made = thread::Builder::new().name("dfsa".into());
    let made = made.spawn(move || {
        make_directories(&mounts);
        let _ = done.send(());
    });
    if made.is_err() || wait.recv_timeout(PREPARED).is_err() {
        tracing::warn!("dfsa: a shared file system does not answer");
    }
}

fn make_directories(mounts: &[SharedMount]) {
    for mount in mounts {
        let at = mount.path.display();
        let made = Root::open(&mount.path).map(|root| make_directory(&root));
        match made {
            Err(e) => tracing::warn!("dfsa: {e}"),
            // Users may have the right, or the administrator may have made it.
            Ok(Err(e)) => tracing::info!("dfsa: no directory of proofs can be made in {at}: {e}"),
            Ok(Ok(())) => {}
        }
    }
}

/// What a host of user `uid` of another node may open here. Blocks while the user is looked up.
pub fn for_host(node: &Node, uid: u32) -> Option<SharedStart> {
    let mounts = declared(node);
    if mounts.is_empty() {
        return None;
    }
    let other = sys::euid() != 0 && sys::euid() != uid;
    let user = sys::user_of(uid).filter(|_| !other);
    let user = user.map(|u| SharedUser {
        uid,
        gid: u.gid,
        groups: u.groups,
    });
    Some(SharedStart { mounts, user })
}

/// A keeper has looked at its mounts and those of `of`.
pub fn learn(node: &Node, of: &NodeName, verdicts: Vec<MountVerdict>) {
    let declared: Vec<PathBuf> = declared(node).into_iter().map(|m| m.path).collect();
    let mut core = node.lock();
    if !core.members.contains(of) {
        return;
    }
    for v in verdicts.into_iter().filter(|v| declared.contains(&v.path)) {
        let why: String = clean(&v.why).chars().take(WHY_MAX).collect();
        let (path, new) = (v.path, (v.direct, why));
        let known = core.verdicts.get(&(path.clone(), of.clone()));
        if known == Some(&new) || known.is_none() && core.verdicts.len() >= VERDICTS_MAX {
            continue;
        }
        let shown = path.display();
        match &new {
            (true, _) => tracing::info!("dfsa: files below {shown} are opened directly on {of}"),
            (false, why) => tracing::info!("dfsa: {shown} is not shared with {of}: {why}"),
        }
        core.verdicts.insert((path, of.clone()), new);
    }
}

/// What `armento dfsa` shows. Blocks where a file system does.
pub fn status(node: &Node) -> DfsaInfo {
    let verdicts = node.lock().verdicts.clone();
    let one = |m: SharedMount| {
        let (kind, problem) = look(&m);
        let nodes = verdicts.iter().filter(|((path, _), _)| *path == m.path);
        let nodes = nodes.map(|((_, of), (direct, why))| DfsaNode {
            node: of.clone(),
            direct: *direct,
            why: why.clone(),
        });
        DfsaMount {
            nodes: nodes.collect(),
            path: m.path,
            relaxed: m.relaxed,
            kind,
            problem,
        }
    };
    DfsaInfo {
        node: node.farm.node.clone(),
        mounts: declared(node).into_iter().map(one).collect(),
    }
}

/// The kind of file system, and what is wrong with it.
fn look(m: &SharedMount) -> (String, String) {
    let root = match Root::open(&m.path) {
        Ok(root) => root,
        Err(e) => return (String::new(), e.to_string()),
    };
    let Some(kind) = kind(root.magic()) else {
        let problem = match m.relaxed {
            true => String::new(),
            false => "what nodes see of each other's writes there is not known; name it in dfsa_relaxed if programs bear late writes".into(),
        };
        return (format!("{:#x}", root.magic()), problem);
    };
    let late = kind.coherence == Coherence::CloseToOpen && !m.relaxed;
    let problem = match late {
        true => format!(
            "{} shows another node's writes only after a close and an open; name it in dfsa_relaxed if programs bear that",
            kind.name
        ),
        false => String::new(),
    };
    (kind.name.to_owned(), problem)
}
