//! Hosts of this node: admitting trees, starting the processes that hold their guests, finding
//! them again after a restart.
//!
//! From: a keeper's `Ask::Route`, through the home's daemon. Next: `host/src/main.rs`.

use crate::FarmError;
use crate::core::{Core, Node, Outlet};
use crate::error::{refusal, stays};
use crate::peer::{AdmitAsk, PeerAnswer};
use crate::state::StateDir;
use crate::{Wire, sys};
use armento_balance::{Guest, Need, admit as weigh};
use armento_client::api::{GuestInfo, HostHello, HostStart, HostUp, Refusal};
use armento_client::{encode, read_line};
use armento_link::{Badge, Role};
use armento_model::{NodeName, Stay, TreeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Hosts at once; each is a process with an identity of its own.
const HOSTS_MAX: usize = 4096;
/// Guests of one host that are shown and counted.
const GUESTS_MAX: usize = 4096;
/// From fork to `HostUp`: namespaces and a mount tree on a loaded machine.
const START: Duration = Duration::from_secs(10);
/// First uid of hosts when the daemon is root: above those of people and below nobody's.
const GUEST_UIDS: u32 = 2_000_000;
/// A host's log is emptied when it is longer, bytes.
const LOG_MAX: u64 = 1 << 20;

type Key = (NodeName, TreeId);

/// What is written down of a host, so that a new daemon finds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub home: NodeName,
    pub tree: TreeId,
    pub uid: u32,
    pub guest_uid: u32,
    pub pid: i32,
    /// Start time of the process (`/proc/PID/stat`), so that a reused pid is not taken for it.
    pub started: u64,
    pub addr: SocketAddr,
    pub plain: bool,
}

enum Stage {
    /// Somebody is starting it; wait for `Node::hosts_changed`.
    Starting {
        guest_uid: u32,
    },
    Up(Record),
}

struct Entry {
    stage: Stage,
    session: Option<(u64, Outlet)>,
    guests: Vec<GuestInfo>,
}

#[derive(Default)]
pub struct HostTable(BTreeMap<Key, Entry>);

impl HostTable {
    /// Those that an earlier daemon started and that still live.
    pub fn recover(state: &StateDir) -> HostTable {
        let mut table = HostTable::default();
        let dir = records(state);
        for file in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let name = file.file_name();
            if file.path().extension().is_none_or(|e| e != "json") {
                continue;
            }
            let read = state.read_json::<Record>(&format!("hosts/{}", name.to_string_lossy()));
            match read {
                Ok(Some(r)) if started(r.pid) == Some(r.started) => table.put(r),
                // A host that ended, or a file that is none of ours.
                _ => drop(fs::remove_file(file.path())),
            }
        }
        table
    }

    fn put(&mut self, record: Record) {
        let entry = Entry {
            session: None,
            guests: Vec::new(),
            stage: Stage::Up(record.clone()),
        };
        self.0.insert((record.home, record.tree), entry);
    }

    /// A host says hello. `peer` is the process at the other end of the session.
    pub fn enter(
        &mut self,
        hello: &HostHello,
        peer: Option<i32>,
        session: u64,
        out: Outlet,
    ) -> bool {
        let entry = self.0.get_mut(&(hello.home.clone(), hello.tree));
        match entry {
            Some(e) if e.pid().is_some() && e.pid() == peer => {
                e.session = Some((session, out));
                true
            }
            _ => false,
        }
    }

    /// The session ended; the host may live and come back.
    pub fn gone(&mut self, session: u64) {
        for e in self.0.values_mut() {
            if e.session.as_ref().is_some_and(|(s, _)| *s == session) {
                e.session = None;
            }
        }
    }

    pub fn report(&mut self, session: u64, mut guests: Vec<GuestInfo>) {
        guests.truncate(GUESTS_MAX);
        for ((home, tree), e) in &mut self.0 {
            if e.session.as_ref().is_some_and(|(s, _)| *s == session) {
                for g in &mut guests {
                    g.home = home.clone();
                    g.tree = *tree;
                }
                e.guests = std::mem::take(&mut guests);
            }
        }
    }

    pub fn guests(&self) -> impl Iterator<Item = &GuestInfo> {
        self.0.values().flat_map(|e| &e.guests)
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn outlets(&self) -> impl Iterator<Item = &Outlet> {
        self.0
            .values()
            .filter_map(|e| e.session.as_ref().map(|(_, o)| o))
    }

    /// Hosts that have ended since anybody looked: of those that are not our children nobody
    /// tells us.
    pub fn bury(&mut self) -> Vec<Record> {
        let dead = |e: &Entry| match &e.stage {
            Stage::Up(r) => started(r.pid) != Some(r.started),
            Stage::Starting { .. } => false,
        };
        let keys: Vec<Key> = self
            .0
            .iter()
            .filter(|(_, e)| dead(e))
            .map(|(k, _)| k.clone())
            .collect();
        let gone = keys.iter().filter_map(|k| self.0.remove(k));
        gone.filter_map(|e| match e.stage {
            Stage::Up(r) => Some(r),
            Stage::Starting { .. } => None,
        })
        .collect()
    }

    /// The user a new host becomes: one that no other host has.
    fn free_uid(&self) -> u32 {
        let own = sys::euid();
        if own != 0 {
            return own;
        }
        let taken = |uid: u32| self.0.values().any(|e| e.guest_uid() == uid);
        (GUEST_UIDS..)
            .find(|uid| !taken(*uid))
            .unwrap_or(GUEST_UIDS)
    }
}

impl Entry {
    fn pid(&self) -> Option<i32> {
        match &self.stage {
            Stage::Up(r) => Some(r.pid),
            Stage::Starting { .. } => None,
        }
    }

    fn guest_uid(&self) -> u32 {
        match &self.stage {
            Stage::Up(r) => r.guest_uid,
            Stage::Starting { guest_uid } => *guest_uid,
        }
    }
}

/// Tells the ledger which guests live here.
pub fn settle(core: &mut Core, now: armento_gossip::Tick) {
    let guest = |g: &GuestInfo| Guest {
        home: g.home.clone(),
        pid: g.pid,
        threads: g.threads,
        runnable: g.runnable,
    };
    let guests: Vec<Guest> = core.hosts.guests().map(guest).collect();
    core.ledger.guests(&guests, now);
}

/// Takes in a tree of `home`'s, or says why not. Blocks while a host starts.
pub(crate) fn admit(
    node: &Arc<Node>,
    home: &NodeName,
    ask: &AdmitAsk,
) -> Result<PeerAnswer, Refusal> {
    let key = (home.clone(), ask.tree);
    let guest_uid = {
        let mut core = node.lock();
        consider(node, &mut core, home, ask)?;
        let until = Instant::now() + START;
        loop {
            match core.hosts.0.get(&key).map(|e| &e.stage) {
                None => break,
                Some(Stage::Up(r)) if started(r.pid) == Some(r.started) => {
                    return Ok(answer(r));
                }
                Some(Stage::Up(_)) => {
                    core.hosts.0.remove(&key);
                    break;
                }
                Some(Stage::Starting { .. }) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(failed(node, "its host takes too long to start"));
                    }
                    let wait = node.hosts_changed.wait_timeout(core, left);
                    core = wait.unwrap_or_else(std::sync::PoisonError::into_inner).0;
                }
            }
        }
        if core.hosts.count() >= HOSTS_MAX {
            return Err(failed(node, "it has too many hosts"));
        }
        let guest_uid = core.hosts.free_uid();
        let entry = Entry {
            stage: Stage::Starting { guest_uid },
            session: None,
            guests: Vec::new(),
        };
        core.hosts.0.insert(key.clone(), entry);
        guest_uid
    };
    let result = start(node, home, ask, guest_uid);
    let mut core = node.lock();
    match &result {
        Ok(record) => core.hosts.put(record.clone()),
        Err(_) => {
            core.hosts.0.remove(&key);
            core.ledger.unexpect(home, ask.pid);
        }
    }
    drop(core);
    node.hosts_changed.notify_all();
    let record = result.map_err(|why| failed(node, &why))?;
    Ok(answer(&record))
}

fn answer(r: &Record) -> PeerAnswer {
    PeerAnswer::Admitted {
        addr: r.addr,
        plain: r.plain,
    }
}

fn failed(node: &Node, why: &str) -> Refusal {
    let subject = format!("the process (wanted on {})", node.farm.node);
    stays(&subject, Stay::TargetFailed, why)
}

/// Trust first, then room.
fn consider(node: &Node, core: &mut Core, home: &NodeName, ask: &AdmitAsk) -> Result<(), Refusal> {
    let me = &node.farm.node;
    let no = |stay| Err(stays("the process", stay, &format!("says {me}")));
    if core.leaving {
        return Err(refusal(
            "leaving",
            format!("{me} is leaving the farm"),
            "choose another node",
        ));
    }
    if !node.config.accepts_from(home) {
        return no(Stay::NotTrusted);
    }
    if ask.uid == 0 && !node.config.allow_root {
        return no(Stay::Privileged);
    }
    let need = Need {
        rss_kib: ask.need_kib,
        cpu: None,
        load_there: None,
    };
    let view = node.view(core);
    if let Err(stay) = weigh(&view, &node.policy, &need) {
        return no(stay);
    }
    let now = node.now();
    core.ledger.expect(home, ask.pid, ask.need_kib, now);
    Ok(())
}

fn records(state: &StateDir) -> PathBuf {
    state.path().join("hosts")
}

fn stem(home: &NodeName, tree: TreeId) -> String {
    format!("{home}-{tree}")
}

/// Starts a host of `home`'s tree and waits until it listens.
fn start(
    node: &Arc<Node>,
    home: &NodeName,
    ask: &AdmitAsk,
    guest_uid: u32,
) -> Result<Record, String> {
    let dir = records(&node.state);
    fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let stem = stem(home, ask.tree);
    let log = open_log(&dir.join(format!("{stem}.log"))).map_err(|e| format!("its log: {e}"))?;
    let order = instructions(node, home, ask, guest_uid)?;
    let mut command = Command::new(&node.host_program);
    command
        .arg("host")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .current_dir("/");
    let mut child = sys::own_session(&mut command)
        .spawn()
        .map_err(|e| format!("{}: {e}", node.host_program.display()))?;
    let up = hear(&mut child, &order);
    let pid = i32::try_from(child.id()).unwrap_or(0);
    let up = match up {
        Ok(up) => up,
        Err(why) => {
            // It is our child and not reaped, so the pid is its own.
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!(
                "{why}; see hosts/{stem}.log in its state directory"
            ));
        }
    };
    let record = Record {
        home: home.clone(),
        tree: ask.tree,
        uid: ask.uid,
        guest_uid,
        pid,
        started: started(pid).unwrap_or(0),
        addr: SocketAddr::new(node.farm.addr.ip(), up.port),
        plain: node.wire == Wire::Plain,
    };
    let saved = node
        .state
        .write_json(&format!("hosts/{stem}.json"), &record);
    if let Err(e) = saved {
        tracing::warn!("{e}: a restarted daemon will not know this host");
    }
    watch(node, child, record.clone());
    Ok(record)
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
    let mut expect = vec![badge(home, Role::Keeper)];
    let members: Vec<NodeName> = node.lock().members.keys().cloned().collect();
    expect.extend(members.iter().map(|n| badge(n, Role::Host)));
    let identity = node
        .short(&badge(me, Role::Host))
        .map_err(|e| e.to_string())?;
    let start = HostStart {
        node: me.clone(),
        home: home.clone(),
        tree: ask.tree,
        uid: ask.uid,
        guest_uid,
        listen: SocketAddr::new(node.farm.listen.ip(), 0).to_string(),
        identity,
        expect,
        mem_max_kib: node.config.guest_mem_max_kib,
        freeze_ms: node.config.freeze_ms,
        dead_ms: node.config.dead_ms,
    };
    encode(&start).map_err(|e| e.to_string())
}

/// Gives the child its line and waits for its answer.
fn hear(child: &mut Child, order: &[u8]) -> Result<HostUp, String> {
    let mut stdin = child.stdin.take().ok_or("it has no standard input")?;
    let stdout = child.stdout.take().ok_or("it has no standard output")?;
    stdin
        .write_all(order)
        .map_err(|e| format!("it did not listen: {e}"))?;
    drop(stdin);
    let (tx, rx) = mpsc::channel();
    // Ends with the child's standard output, which a child that fails is killed to close.
    thread::spawn(move || {
        let _ = tx.send(read_line(&mut BufReader::new(stdout)));
    });
    match rx.recv_timeout(START) {
        Ok(Ok(up)) => Ok(up),
        Ok(Err(e)) => Err(format!("it ended before it was up ({e})")),
        Err(_) => Err("it was not up in time".into()),
    }
}

/// Reaps the host when it ends.
fn watch(node: &Arc<Node>, mut child: Child, record: Record) {
    let node = node.clone();
    thread::spawn(move || {
        let status = child.wait();
        tracing::info!(
            "host of {} tree {} ended: {status:?}",
            record.home,
            record.tree
        );
        let key = (record.home.clone(), record.tree);
        let mut core = node.lock();
        if core.hosts.0.get(&key).and_then(Entry::pid) == Some(record.pid) {
            core.hosts.0.remove(&key);
        }
        drop(core);
        erase(&node.state, &record);
        node.hosts_changed.notify_all();
    });
}

/// Forgets a host that ended; its log goes with it when it is empty.
pub fn erase(state: &StateDir, record: &Record) {
    let stem = stem(&record.home, record.tree);
    let of = |end: &str| records(state).join(format!("{stem}.{end}"));
    let _ = fs::remove_file(of("json"));
    if fs::metadata(of("log")).is_ok_and(|m| m.len() == 0) {
        let _ = fs::remove_file(of("log"));
    }
}

fn open_log(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

/// Empties logs that have grown too long. Hosts append, so they go on at the beginning.
pub fn trim_logs(state: &StateDir) -> Result<(), FarmError> {
    for file in fs::read_dir(records(state)).into_iter().flatten().flatten() {
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

/// Start time of a process in clock ticks since boot: field 22 of `/proc/PID/stat`.
fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; fields are counted after it.
    let after = stat.rsplit_once(") ")?.1;
    let mut fields = after.split(' ');
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}
