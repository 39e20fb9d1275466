//! The control socket: sessions of commands, keepers and hosts on this node.

use crate::core::{LINES_MAX, Node, Outlet};
use crate::error::refusal;
use crate::{FarmError, act, asks, yama};
use armento_client::api::{Answer, Ask, Body, LINE_MAX, Line, Report};
use armento_client::{encode, version};
use armento_model::Pid;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf, UCred};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};

/// Sessions at once: a keeper a tree, a host a tree, and commands.
const SESSIONS_MAX: usize = 16_384;
/// Questions of one session that are being answered; the next wait.
const ASKED_MAX: usize = 64;
/// Between two looks whether the keepers from before have come.
const AWAITED_LOOK: Duration = Duration::from_millis(10);

/// Takes the socket's place. Before: this daemon holds the state directory's lock.
pub fn bind(path: &Path) -> Result<UnixListener, FarmError> {
    let fails = |e: std::io::Error| {
        FarmError::Listen {
        addr: path.display().to_string(),
        cause: e.to_string(),
        hint: "choose another socket with `socket =` or ARMENTO_SOCKET; its folder must be this user's to write".into(),
    }
    };
    if let Some(dir) = path.parent().filter(|dir| !dir.exists()) {
        fs::create_dir_all(dir).map_err(fails)?;
        // Whatever our umask: everybody must reach the socket.
        fs::set_permissions(dir, Permissions::from_mode(0o755)).map_err(fails)?;
    }
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        let busy = std::io::Error::from(std::io::ErrorKind::AddrInUse);
        return Err(fails(busy));
    }
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(fails(e)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(fails)?;
    // Everybody may ask; who is told what is decided by the peer's credentials.
    fs::set_permissions(path, Permissions::from_mode(0o666)).map_err(fails)?;
    Ok(listener)
}

pub async fn serve(node: Arc<Node>, listener: UnixListener) {
    let room = Arc::new(Semaphore::new(SESSIONS_MAX));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Ok(place) = room.clone().try_acquire_owned() else {
                    tracing::warn!("too many control sessions; one was dropped");
                    continue;
                };
                let node = node.clone();
                tokio::spawn(async move {
                    session(node, stream).await;
                    drop(place);
                });
            }
            Err(e) => {
                tracing::warn!("control socket: {e}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// One client, while its session lasts.
pub struct Client {
    pub node: Arc<Node>,
    pub session: u64,
    pub uid: u32,
    pub pid: Option<i32>,
    pub out: Outlet,
    /// The process at the other end, as it was when it came.
    peer: Option<yama::Peer>,
    asked: Arc<Semaphore>,
}

async fn session(node: Arc<Node>, stream: UnixStream) {
    let Ok(cred) = stream.peer_cred() else { return };
    let (read, write) = stream.into_split();
    let (tx, rx) = mpsc::channel(LINES_MAX);
    let writer = tokio::spawn(send_lines(rx, write));
    let client = client(node, &cred, tx);
    if let Err(e) = hear(&client, read).await {
        tracing::debug!("session of pid {:?}: {e}", client.pid);
    }
    {
        let mut core = client.node.lock();
        let now = client.node.now();
        let ended = core.keepers.gone(client.session);
        if !ended.is_empty() {
            client.node.freed.notify_one();
        }
        for pid in ended {
            core.ledger.ended(pid, now);
            client.node.departures.leave(pid);
        }
        core.hosts.gone(client.session);
    }
    // Ends when the last question in flight has been answered and its outlet is gone.
    drop(client);
    let _ = writer.await;
}

fn client(node: Arc<Node>, cred: &UCred, tx: mpsc::Sender<Line>) -> Client {
    let session = node.lock().next();
    Client {
        session,
        uid: cred.uid(),
        pid: cred.pid(),
        out: Outlet(tx),
        peer: yama::peer(cred.pid()),
        asked: Arc::new(Semaphore::new(ASKED_MAX)),
        node,
    }
}

async fn send_lines(mut lines: mpsc::Receiver<Line>, mut to: OwnedWriteHalf) {
    while let Some(line) = lines.recv().await {
        let bytes = match encode(&line) {
            Ok(bytes) => bytes,
            Err(e) => {
                tracing::warn!("an answer could not be sent: {e}");
                continue;
            }
        };
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn hear(client: &Client, read: OwnedReadHalf) -> Result<(), std::io::Error> {
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = (&mut read).take(LINE_MAX as u64 + 1);
        if bounded.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            return Err(std::io::Error::other("a line is too long or cut off"));
        }
        match serde_json::from_slice::<Line>(&line) {
            Ok(line) => client.take(line).await,
            Err(e) => client.garbled(&line, &e),
        }
    }
}

impl Client {
    /// The process that asks, if it is the one that came.
    pub fn peer(&self) -> Option<yama::Peer> {
        self.peer.filter(yama::Peer::lives)
    }

    async fn take(&self, line: Line) {
        if let Some(no) = version::too_old("whoever asks", line.v) {
            if let Body::Ask(Ask::Host(hello)) = &line.body {
                self.node.lock().hosts.is_there(hello, self.pid);
            }
            self.out.send(line.id, Body::Err(no));
            return;
        }
        match line.body {
            Body::Ask(ask) => self.ask(line.id, ask).await,
            Body::Report(report) => self.report(report),
            // Only daemons answer and order.
            Body::Ok(_) | Body::Err(_) | Body::Order(_) => {}
        }
    }

    /// A question of a later version: its asker is told, the session goes on. A report is passed over.
    fn garbled(&self, line: &[u8], e: &serde_json::Error) {
        #[derive(serde::Deserialize)]
        struct Head {
            #[serde(default)]
            v: u32,
            #[serde(default)]
            id: u64,
        }
        let head = serde_json::from_slice(line).unwrap_or(Head { v: 0, id: 0 });
        let message = format!(
            "the daemon (control version {}) does not understand this: {e}",
            version::both()
        );
        let hint = if head.v > version::spoken() {
            "start the daemon again: it is older than this program, and nothing that runs notices"
        } else {
            "update Armento on this node"
        };
        let no = refusal("unknown-question", message, hint);
        self.out.send(head.id, Body::Err(no));
    }

    fn report(&self, report: Report) {
        let now = self.node.now();
        let mut core = self.node.lock();
        let core = &mut *core;
        if let Report::Guests { guests } = report {
            core.hosts.report(self.session, guests);
        } else if core.keepers.of_session(self.session).is_some() {
            match &report {
                Report::Placed { pid } => self.node.departures.leave(*pid),
                Report::Procs { procs } => {
                    let tree = core.keepers.of_session(self.session).map(|k| k.hello.tree);
                    let pids = procs.iter().map(|p| p.pid);
                    tree.into_iter()
                        .for_each(|tree| core.consents.met(tree, pids.clone()));
                }
                _ => {}
            }
            let freed = core
                .keepers
                .report(self.session, report, &core.me, &mut core.ledger, now);
            if freed {
                self.node.freed.notify_one();
            }
        }
    }

    async fn ask(&self, id: u64, ask: Ask) {
        if let Ask::Place { pid, portable, .. } = ask {
            return self.place(id, pid, portable).await;
        }
        if matches!(&ask, Ask::Keep(hello) if !hello.was_there()) {
            self.others_came().await;
        }
        if let Some(answer) = asks::at_once(self, &ask) {
            let body = answer.map_or_else(Body::Err, Body::Ok);
            self.out.send(id, body);
            return;
        }
        let Ok(turn) = self.asked.clone().acquire_owned().await else {
            return;
        };
        let asker = asks::Asker {
            node: self.node.clone(),
            session: self.session,
            uid: self.uid,
        };
        let out = self.out.clone();
        tokio::spawn(async move {
            let body = asks::in_time(&asker, ask)
                .await
                .map_or_else(Body::Err, Body::Ok);
            out.send(id, body);
            drop(turn);
        });
    }

    /// Waits, soon after this daemon's start, for keepers that may hold what a new one wants to.
    async fn others_came(&self) {
        loop {
            {
                let mut core = self.node.lock();
                // It may itself be one of those who were there.
                core.awaited.came(self.pid.unwrap_or(0));
                if !core.awaited.any() {
                    return;
                }
            }
            tokio::time::sleep(AWAITED_LOOK).await;
        }
    }

    /// Where a program starts is chosen at once, since it counts from now on; it begins when it is its turn.
    async fn place(&self, id: u64, pid: Pid, portable: bool) {
        let node = act::choose(&self.node, self.session, pid, portable);
        let Ok(turn) = self.asked.clone().acquire_owned().await else {
            return;
        };
        let (departures, out) = (self.node.departures.clone(), self.out.clone());
        tokio::spawn(async move {
            match node {
                Some(_) => departures.enter(pid).await,
                None => departures.few_leave().await,
            }
            out.send(id, Body::Ok(Answer::Placed { node }));
            drop(turn);
        });
    }
}
