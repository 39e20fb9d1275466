//! A file server for one user of another node's mount.
//!
//! From: `noded/src/peer_server.rs`. Next: `cli/src/mfs/serve.rs`, the process itself.
//!
//! A user is the same here and there: a number with the same name. Nodes vouch for their users, as for guests; so whom
//! `accept_from` leaves out as a guest has no files either, and root none without `allow_root`.

use super::child;
use crate::config::exports;
use crate::error::{Result, refusal};
use crate::file_servers::{ServerRecord, Stage, erase, server_file, stem};
use crate::hosts::{Cgroups, apart};
use crate::process::Process;
use crate::state::{Core, Node, kill_server};
use crate::sys;
use armento_client::api::{Answer, FilesStart};
use armento_link::Badge;
use armento_model::NodeName;
use std::net::SocketAddr;
use std::process::Child;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Instant;

/// File servers at once: nodes times users.
const SERVERS_MAX: usize = 1024;

/// The address of the file server for user `uid` of `asker`, called `name` there. Blocks while one starts.
pub fn serve_files(node: &Arc<Node>, asker: &NodeName, uid: u32, name: &str) -> Result<SocketAddr> {
    allowed(node, &node.lock(), asker, uid)?;
    let user = local_user(node, asker, uid, name)?;
    let mfs = &node.mfs;
    {
        let mut servers = mfs.servers();
        let until = Instant::now() + child::START;
        loop {
            match servers.stage(asker, uid) {
                None => break,
                Some(Stage::Up(r)) if r.process.lives() => return Ok(address(node, r.port)),
                Some(Stage::Up(_)) => break,
                Some(Stage::Starting) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(failed(node, "a file server takes too long to start"));
                    }
                    let wait = mfs.servers_changed.wait_timeout(servers, left);
                    servers = wait.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        if servers.count() >= SERVERS_MAX {
            return Err(failed(node, "it has too many file servers"));
        }
        servers.starting(asker, uid);
    }
    let started = start(node, asker, uid, &user);
    let mut servers = mfs.servers();
    match &started {
        Ok((record, _)) => servers.up(record.clone()),
        Err(_) => servers.remove(asker, uid),
    }
    drop(servers);
    mfs.servers_changed.notify_all();
    let (record, child) = started.map_err(|why| {
        tracing::warn!("no file server for user {uid} of {asker}: {why}");
        failed(node, &why)
    })?;
    let port = record.port;
    watch(node, child, record);
    Ok(address(node, port))
}

fn address(node: &Node, port: u16) -> SocketAddr {
    // Where this node is now: the file server may have been started elsewhere.
    SocketAddr::new(node.addr().ip(), port)
}

fn failed(node: &Node, why: &str) -> armento_client::api::Refusal {
    let log = "see the daemon's log there, and mfs/ in its state directory";
    refusal("failed", format!("{}: {why}", node.farm.node), log)
}

/// Whether that user of `asker` may have files of this node at all.
fn allowed(node: &Node, core: &Core, asker: &NodeName, uid: u32) -> Result<()> {
    let me = &node.farm.node;
    let no = |code: &str, what: String, hint: &str| Err(refusal(code, what, hint));
    if core.leaving {
        return no(
            "leaving",
            format!("{me} is leaving the farm"),
            "use another node",
        );
    }
    if !core.switches.mfs() {
        let what = format!("{me} serves no files (MFS is off there)");
        return no("mfs-off", what, "switch it on there: `armento mfs on`");
    }
    let trust = node.trust();
    let stranger = asker != me && !core.members.contains(asker);
    // `asker` is the name in a certificate. It vouches for its users.
    let excluded = asker != me && !trust.lists(asker).has(uid);
    if stranger || excluded || core.draining.contains_key(asker) {
        let what = format!("accept_from of {me} leaves out user {uid} of {asker}");
        return no("not-trusted", what, "change it there: `armento farm trust`");
    }
    if uid == 0 && asker != me && !trust.allow_root {
        let what = format!("{me} serves no files to root of another node (allow_root)");
        return no(
            "privileged",
            what,
            "use another user, or set allow_root there",
        );
    }
    Ok(())
}

/// The user of this node with that number, who must have the same name at both.
fn local_user(node: &Node, asker: &NodeName, uid: u32, name: &str) -> Result<sys::User> {
    let me = &node.farm.node;
    let Some(user) = sys::user_of(uid) else {
        let what = format!("{me} has no user with the number {uid}");
        return Err(refusal("no-such-user", what, "make that user there"));
    };
    if user.name != name {
        let what = format!("user {uid} of {me} is not user {uid} of {asker}");
        let hint = "users need the same number and name on both nodes";
        return Err(refusal("another-user", what, hint));
    }
    if sys::euid() != 0 && sys::euid() != uid {
        let what = format!("the daemon of {me} is not root's: it serves its own user's files only");
        return Err(refusal(
            "not-permitted",
            what,
            "run the daemon as root there",
        ));
    }
    Ok(user)
}

fn start(
    node: &Arc<Node>,
    asker: &NodeName,
    uid: u32,
    user: &sys::User,
) -> std::result::Result<(ServerRecord, Child), String> {
    let given = node.settings();
    let order = FilesStart {
        listen: SocketAddr::new(node.farm.listen.ip(), 0).to_string(),
        identity: identity(node, uid)?,
        expect: Badge::files(asker, uid),
        uid,
        gid: user.gid,
        groups: user.groups.clone(),
        exports: exports(&given.mfs, &given.mfs_export, node.state.path()),
    };
    let stem = stem(asker, uid);
    let fresh = child::start(node, "mfs-serve", &[], &stem)?;
    let mut record = ServerRecord {
        asker: asker.clone(),
        uid,
        process: fresh.process,
        port: 0,
    };
    // Before it reads its line, without which it ends: should this daemon end now, the next one knows of it.
    note(node, &record);
    move_apart(&stem, fresh.process);
    match fresh.instruct(&order) {
        Ok((child, port)) => {
            record.port = port;
            note(node, &record);
            Ok((record, child))
        }
        Err(why) => {
            erase(&node.state, &record);
            Err(why)
        }
    }
}

fn note(node: &Node, record: &ServerRecord) {
    let file = server_file(&record.asker, record.uid);
    if let Err(e) = node.state.note_json(&file, record) {
        tracing::warn!("{e}: a restarted daemon will not know this file server");
    }
}

/// Out of the daemon's control group, where there is another: beside its start, for it takes milliseconds.
pub fn move_apart(stem: &str, process: Process) {
    let name = format!("mfs-{stem}");
    let _ = thread::Builder::new()
        .name("cgroup".into())
        .spawn(move || apart(&name, process.pid));
}

/// Reaps the file server when it ends.
fn watch(node: &Arc<Node>, mut child: Child, record: ServerRecord) {
    let node = node.clone();
    thread::spawn(move || {
        let status = child.wait();
        let (asker, uid) = (&record.asker, record.uid);
        tracing::debug!("the file server of user {uid} of {asker} ended: {status:?}");
        forget(&node, &record);
    });
}

fn forget(node: &Node, record: &ServerRecord) {
    node.mfs.servers().ended(record);
    erase(&node.state, record);
    node.mfs.servers_changed.notify_all();
    let stem = stem(&record.asker, record.uid);
    Cgroups::apart(&format!("mfs-{stem}"), record.process.pid).remove();
}

/// Once a second: those of an earlier daemon that have ended are forgotten; whoever may not be served any more is not.
pub fn look(node: &Node) {
    let all: Vec<ServerRecord> = node.mfs.servers().all().cloned().collect();
    for record in &all {
        if !record.process.lives() {
            forget(node, record);
            continue;
        }
        let allowed = allowed(node, &node.lock(), &record.asker, record.uid);
        if let Err(no) = allowed {
            tracing::info!("{}", no.message);
            kill_server(record);
        }
    }
}

/// Keys for its streams. Always keys: without them any program that reaches the port would have the user's files.
fn identity(node: &Node, uid: u32) -> std::result::Result<armento_link::Identity, String> {
    let badge = Badge::files(&node.farm.node, uid);
    let signed = node.credentials.signed(&badge, &node.revoked);
    signed.map_err(|e| e.to_string())
}

/// A new identity for the file server that asks; it can have that of no other.
pub fn new_identity(node: &Node, process: Option<Process>) -> Result<Answer> {
    let server = process.and_then(|p| node.mfs.server_of(p));
    let Some(server) = server else {
        let what = "only a file server of this daemon has an identity";
        return Err(refusal("not-trusted", what, "it ends by itself"));
    };
    let identity = identity(node, server.uid).map_err(|why| failed(node, &why))?;
    Ok(Answer::Identity { identity })
}
