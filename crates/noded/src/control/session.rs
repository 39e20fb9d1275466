//! One control session: lines from a command, a keeper or a host, and the answers.
//!
//! From: `noded/src/control/socket.rs`. Next: `noded/src/control/requests.rs`.

use super::client::Client;
use super::requests::{at_once, in_time};
use crate::dfsa;
use crate::error::refusal;
use crate::kept::keeper_gone;
use crate::line_sender::LINES_MAX;
use crate::policy::{Asked, Chosen, choose};
use crate::state::{Asker, Node, sha256};
use armento_client::api::{Answer, Ask, Body, LINE_MAX, Line, Ran, Refusal, Report};
use armento_client::{encode, version};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

/// Between two looks whether the keepers from before have come.
const REJOIN_LOOK: Duration = Duration::from_millis(10);

pub async fn session(node: Arc<Node>, stream: UnixStream) {
    let Ok(cred) = stream.peer_cred() else { return };
    let (read, write) = stream.into_split();
    let (tx, rx) = mpsc::channel(LINES_MAX);
    let writer = tokio::spawn(send_lines(rx, write));
    let mut client = Client::new(node, &cred, tx);
    if let Err(e) = receive(&mut client, read).await {
        tracing::debug!("session of pid {:?}: {e}", client.pid);
    }
    let tree = {
        let mut core = client.node.lock();
        let now = client.node.now();
        let tree = core
            .keepers
            .of_session(client.session)
            .map(|k| k.hello.tree);
        if let Some(tree) = tree {
            client.node.history.ended(tree);
        }
        let ended = core.keepers.session_ended(client.session);
        if !ended.is_empty() {
            client.node.freed.notify_one();
        }
        for pid in ended {
            core.ledger.ended(pid, now);
            client.node.launch_queue.leave(pid);
        }
        core.hosts.session_ended(client.session);
        tree
    };
    if let Some(tree) = tree {
        keeper_gone(&client.node, tree);
    }
    // Ends when the last question in flight has been answered and its sender is gone.
    drop(client);
    let _ = writer.await;
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

async fn receive(client: &mut Client, read: OwnedReadHalf) -> Result<(), std::io::Error> {
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
            Ok(line) => take(client, line).await,
            Err(e) => garbled(client, &line, &e),
        }
    }
}

async fn take(client: &mut Client, line: Line) {
    if let Some(no) = version::too_old("whoever asks", line.v) {
        if let Body::Ask(Ask::Host(hello)) = &line.body {
            client.node.lock().hosts.still_there(hello, client.pid);
        }
        client.out.send(line.id, Body::Err(no));
        return;
    }
    match line.body {
        Body::Ask(Ask::Act { secret }) => {
            let body = act_for(client, &secret).map_or_else(Body::Err, Body::Ok);
            client.out.send(line.id, body);
        }
        Body::Ask(ask) => match may_ask(client, &ask) {
            Ok(()) => answer(client, line.id, ask).await,
            Err(no) => drop(client.out.send(line.id, Body::Err(no))),
        },
        Body::Report(_) if client.acts_for.is_some() => {}
        Body::Report(report) => take_report(client, report),
        // Only daemons answer and order.
        Body::Ok(_) | Body::Err(_) | Body::Order(_) => {}
    }
}

/// From now on this session has the rights of a browser's user, and no others.
fn act_for(client: &mut Client, secret: &str) -> Result<Answer, Refusal> {
    let sha = sha256(secret);
    let session = client.node.web.session(&sha)?;
    client.uid = session.uid;
    client.acts_for = Some(sha);
    Ok(Answer::WebSession(session))
}

/// A session that acts for a browser asks what pages need, for as long as the browser is signed in.
fn may_ask(client: &Client, ask: &Ask) -> Result<(), Refusal> {
    let Some(sha) = &client.acts_for else {
        return Ok(());
    };
    client.node.web.session(sha)?;
    if ask.is_for_pages() {
        return Ok(());
    }
    let what = "the dashboard does not do this";
    let hint = "use the command on that node; `armento --help` lists them";
    Err(refusal("not-permitted", what, hint))
}

/// A question of a later version: its sender is told, the session goes on. A report is passed over.
fn garbled(client: &Client, line: &[u8], e: &serde_json::Error) {
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
    client.out.send(head.id, Body::Err(no));
}

fn take_report(client: &Client, report: Report) {
    let now = client.node.now();
    let mut core = client.node.lock();
    if let Report::Mounts { node, verdicts } = report {
        let known = core.keepers.of_session(client.session).is_some();
        drop(core);
        if known {
            dfsa::learn(&client.node, &node, verdicts);
        }
        return;
    }
    if let Report::Used(used) = report {
        let tree = core.keepers.of_session(client.session);
        if let Some(tree) = tree.map(|k| k.hello.tree) {
            client.node.history.used(tree, used);
        }
        return;
    }
    let core = &mut *core;
    if let Report::Guests { guests } = report {
        core.hosts.report(client.session, guests);
    } else if core.keepers.of_session(client.session).is_some() {
        match &report {
            Report::Placed { pid } => client.node.launch_queue.leave(*pid),
            Report::Procs { procs, .. } => {
                let tree = core
                    .keepers
                    .of_session(client.session)
                    .map(|k| k.hello.tree);
                let pids = procs.iter().map(|p| p.pid);
                tree.into_iter()
                    .for_each(|tree| core.consents.reported(tree, pids.clone()));
            }
            _ => {}
        }
        let freed = core
            .keepers
            .report(client.session, report, &core.me, &mut core.ledger, now);
        if freed {
            client.node.freed.notify_one();
        }
    }
}

async fn answer(client: &Client, id: u64, ask: Ask) {
    if let Ask::Place {
        pid,
        portable,
        command,
        program,
        parent,
        waiting,
        ran,
        ..
    } = ask
    {
        ended(client, &ran);
        let asked = Asked {
            pid,
            portable,
            command: &command,
            program: &program,
            parent,
            waiting: waiting.into(),
        };
        return place(client, id, &asked).await;
    }
    if matches!(&ask, Ask::Keep(hello) if !hello.was_there()) {
        keepers_rejoined(client).await;
    }
    if let Some(answer) = at_once(client, &ask) {
        let body = answer.map_or_else(Body::Err, Body::Ok);
        client.out.send(id, body);
        return;
    }
    let Ok(turn) = client.asked.clone().acquire_owned().await else {
        return;
    };
    let asker = Asker {
        node: client.node.clone(),
        session: client.session,
        uid: client.uid,
    };
    let out = client.out.clone();
    tokio::spawn(async move {
        let body = in_time(&asker, ask).await.map_or_else(Body::Err, Body::Ok);
        out.send(id, body);
        drop(turn);
    });
}

/// Waits, soon after this daemon's start, for keepers that may hold what a new one wants to.
async fn keepers_rejoined(client: &Client) {
    loop {
        {
            let mut core = client.node.lock();
            // It may itself be one of those that were there.
            core.rejoin.came(client.pid.unwrap_or(0));
            if !core.rejoin.any() {
                return;
            }
        }
        tokio::time::sleep(REJOIN_LOOK).await;
    }
}

/// Programs of this keeper have ended.
fn ended(client: &Client, ran: &[Ran]) {
    let now = client.node.now();
    let mut core = client.node.lock();
    let core = &mut *core;
    let ended = core.keepers.ran(client.session, ran, &mut core.ledger, now);
    if ended {
        client.node.freed.notify_one();
    }
}

/// Where a program starts is chosen at once, since it counts from now on; it begins when the launch queue lets it.
async fn place(client: &Client, id: u64, asked: &Asked<'_>) {
    let node = match choose(&client.node, client.session, asked) {
        Chosen::Short => {
            let node = None;
            client.out.send(id, Body::Ok(Answer::Placed { node }));
            return;
        }
        Chosen::At(node) => node,
    };
    let pid = asked.pid;
    let Ok(turn) = client.asked.clone().acquire_owned().await else {
        return;
    };
    let (queue, out) = (client.node.launch_queue.clone(), client.out.clone());
    tokio::spawn(async move {
        match node {
            Some(_) => queue.enter(pid).await,
            None => queue.few_leave().await,
        }
        out.send(id, Body::Ok(Answer::Placed { node }));
        drop(turn);
    });
}
