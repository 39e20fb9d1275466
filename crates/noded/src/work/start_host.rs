//! Starting the process that holds the guests of one tree.
//!
//! It leads a group of its own and outlives the daemon. Next: `host/src/start.rs`.

use crate::config::{Limits, Wire, limits};
use crate::dfsa;
use crate::hosts::{self, Cgroups, Record, erase, file_of, open_log, records, shared_files, stem};
use crate::peer::AdmitAsk;
use crate::process::started;
use crate::state::Node;
use crate::sys;
use crate::systemd::{scope_again, scope_base};
use armento_client::api::{HostSaid, HostStart, HostUp};
use armento_client::{encode, read_line};
use armento_link::{Badge, Role};
use armento_model::{NodeName, Stay};
use std::fs;
use std::io::{BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Stacks of a host's threads, which live for a move, go with them: the C library would keep as many as there ever
/// were at once. glibc, "POSIX Thread Tunables", since 2.34; other libraries do not look.
const NO_SPARE_STACKS: (&str, &str) = ("GLIBC_TUNABLES", "glibc.pthread.stack_cache_size=0");

/// Between two looks whether a host is in its group; `hosts/cgroup.rs` bounds how long that takes.
const APART_LOOK: Duration = Duration::from_millis(1);

/// From fork to `HostUp`: namespaces and a mount tree on a loaded machine.
pub const START: Duration = Duration::from_secs(10);

/// Why there is no host.
pub struct Unable {
    pub stay: Stay,
    pub detail: String,
}

impl From<String> for Unable {
    fn from(detail: String) -> Unable {
        Unable {
            stay: Stay::TargetFailed,
            detail,
        }
    }
}

impl From<&str> for Unable {
    fn from(detail: &str) -> Unable {
        detail.to_owned().into()
    }
}

/// Starts a host of `home`'s tree and waits until it listens.
pub fn start(
    node: &Arc<Node>,
    home: &NodeName,
    ask: &AdmitAsk,
    guest_uid: u32,
) -> Result<Record, Unable> {
    let dir = records(&node.state);
    // Without it, on a disk that takes nothing, a host has no log of its own and no record; it hosts all the same.
    let _ = fs::create_dir_all(&dir);
    let stem = stem(home, ask.tree);
    let log = match open_log(&dir.join(format!("{stem}.log"))) {
        Ok(log) => Stdio::from(log),
        Err(e) => {
            tracing::warn!("cannot write {stem}.log: {e}: what that host says stands here");
            Stdio::inherit()
        }
    };
    let order = instructions(node, home, ask, guest_uid)?;
    let mut command = Command::new(&node.host_program);
    // As it was called, for `ps`; its file may be another by now.
    let called = std::env::args_os().next().unwrap_or_default();
    command
        .arg0(called)
        .arg("host")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .current_dir("/")
        .env(NO_SPARE_STACKS.0, NO_SPARE_STACKS.1)
        .env("ARMENTO_SOCKET", node.config.socket_path())
        // The service manager listens to the daemon only.
        .env_remove("NOTIFY_SOCKET");
    // A group of its own: signals to the daemon's do not reach it. Nothing else is asked for, so that the
    // child is spawned and not forked: a daemon's page tables are large, and many may start at once.
    command.process_group(0);
    let mut child = sys::as_others(|| command.spawn())
        .map_err(|e| format!("{}: {e}", node.host_program.display()))?;
    let pid = i32::try_from(child.id()).unwrap_or(0);
    let mut record = Record {
        home: home.clone(),
        tree: ask.tree,
        uid: ask.uid,
        guest_uid,
        pid,
        started: started(pid).unwrap_or(0),
        addr: SocketAddr::new(node.addr().ip(), 0),
        plain: node.wire == Wire::Plain,
    };
    // Before it reads its line, without which it ends: should this daemon end now, the next one knows of it.
    note(node, &record);
    // Beside its start: the kernel takes milliseconds to move a process into a group.
    let groups = {
        let (node, record) = (node.clone(), record.clone());
        thread::Builder::new()
            .name("cgroup".into())
            .spawn(move || limit(&node, &record))
    };
    let up = match instruct(&mut child, &order) {
        Ok(up) => up,
        Err(why) => {
            // It is our child and not reaped, so the pid is its own.
            let _ = child.kill();
            let _ = child.wait();
            remove(groups);
            erase(&node.state, &record);
            return Err(match why.stay {
                Stay::TargetFailed => format!(
                    "{}; see hosts/{stem}.log in its state directory",
                    why.detail
                )
                .into(),
                _ => why,
            });
        }
    };
    // No guest comes before it is out of the daemon's group, in which a stopped service ends what it finds.
    while scope_base().is_some() && groups.as_ref().is_ok_and(|f| !f.is_finished()) {
        thread::sleep(APART_LOOK);
    }
    record.addr.set_port(up.port);
    note(node, &record);
    watch(node, child, record.clone(), groups);
    Ok(record)
}

fn note(node: &Node, record: &Record) {
    if let Err(e) = node.state.note_json(&file_of(record), record) {
        tracing::warn!("{e}: a restarted daemon will not know this host");
    }
}

/// The line a host reads first.
fn instructions(
    node: &Node,
    home: &NodeName,
    ask: &AdmitAsk,
    guest_uid: u32,
) -> Result<Vec<u8>, String> {
    let badge = |node: &NodeName, role| Badge {
        node: node.clone(),
        tree: Some((ask.tree, ask.uid)),
        role,
    };
    let me = &node.farm.node;
    let identity = node
        .short(&badge(me, Role::Host))
        .map_err(|e| e.to_string())?;
    let given = node.settings();
    let start = HostStart {
        node: me.clone(),
        home: home.clone(),
        tree: ask.tree,
        uid: ask.uid,
        guest_uid,
        listen: SocketAddr::new(node.farm.listen.ip(), 0).to_string(),
        identity,
        expect: badge(home, Role::Keeper),
        files: shared_files(&node.state, home, ask.uid),
        mem_max_kib: given.guest_mem_max_kib,
        procs_max: given.guest_procs_max,
        freeze_ms: given.freeze_ms,
        dead_ms: given.dead_ms,
        dfsa: dfsa::for_host(node, ask.uid),
    };
    encode(&start).map_err(|e| e.to_string())
}

/// Sends the child its instructions and waits for its answer.
fn instruct(child: &mut Child, order: &[u8]) -> Result<HostUp, Unable> {
    let mut stdin = child.stdin.take().ok_or("it has no standard input")?;
    let stdout = child.stdout.take().ok_or("it has no standard output")?;
    stdin
        .write_all(order)
        .map_err(|e| format!("it did not listen: {e}"))?;
    drop(stdin);
    let (tx, rx) = mpsc::channel();
    // Ends with the child's standard output, which a child that fails is killed to close.
    let hears = thread::Builder::new().name("host-up".into());
    let heard = hears.spawn(move || {
        let _ = tx.send(read_line(&mut BufReader::new(stdout)));
    });
    heard.map_err(|e| format!("its answer cannot be read: {e}"))?;
    match rx.recv_timeout(START) {
        Ok(Ok(HostSaid::Up(up))) => Ok(up),
        Ok(Ok(HostSaid::Unable { stay, detail })) => Err(Unable { stay, detail }),
        Ok(Err(e)) => Err(format!("it ended before it was up ({e})").into()),
        Err(_) => Err("it was not up in time".to_owned().into()),
    }
}

/// Reaps the host when it ends.
fn watch(node: &Arc<Node>, mut child: Child, record: Record, groups: Limiting) {
    let node = node.clone();
    thread::spawn(move || {
        let status = child.wait();
        tracing::info!(
            "host of {} tree {} ended: {status:?}",
            record.home,
            record.tree
        );
        node.lock().hosts.ended(&record);
        erase(&node.state, &record);
        node.hosts_changed.notify_all();
        remove(groups);
    });
}

/// Limits a host, in the guests' scope where there is one.
fn limit(node: &Node, record: &Record) -> Cgroups {
    if let Err(why) = scope_again() {
        tracing::warn!("the guests' scope cannot be had: {why}");
    }
    let given = node.settings();
    let tree = Limits {
        mem_max_kib: node.guest_mem_kib(),
        cpu_weight: given.guest_weight(),
        ..Limits::default()
    };
    let user = limits(&given.guest_users, &record.home, record.uid);
    hosts::limit(record, &tree, user.as_ref())
}

/// A host that is being limited.
type Limiting = std::io::Result<thread::JoinHandle<Cgroups>>;

fn remove(groups: Limiting) {
    match groups.map(thread::JoinHandle::join) {
        Ok(Ok(groups)) => groups.remove(),
        Ok(Err(_)) => tracing::warn!("a host's control group could not be made"),
        Err(e) => tracing::warn!("a host's control group could not be made: {e}"),
    }
}
