//! The server of the dashboard: started when somebody may be signed in, or for as long as the daemon if `web.listen` is set.
//!
//! ```text
//! not needed ──token, web.listen──► up ──nobody can be signed in any more──► not needed
//!                ▲                  │ it ended by itself
//!                └── pause, longer ◄┘
//! ```
//! It is this program as another user, without rights (`nobody`), and ends when its standard input does: with this daemon,
//! however that ends. Next: `cli/src/web_server.rs`.

use super::certificate::{keys, names};
use crate::hosts::open_log;
use crate::state::{Node, Served};
use crate::sys;
use armento_client::api::{WebStart, WebUp};
use armento_client::{encode, read_line};
use std::fs::File;
use std::io::{BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

pub const VERB: &str = "web-server";
/// Between two looks while it runs, or should.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After a failure, doubled each time up to the second.
const AGAIN: Duration = Duration::from_secs(2);
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// From fork to its answer, on a loaded machine.
const START: Duration = Duration::from_secs(10);
/// It goes on for a moment when nobody is signed in any more, so that open pages learn why they are signed out.
const LINGER: Duration = Duration::from_secs(5);
/// The user that owns nothing (Debian: `nobody`, `nogroup`).
const NOBODY: u32 = 65_534;

/// A running server.
struct Server {
    child: Child,
    /// Closed, it ends.
    _stdin: ChildStdin,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is our child and not reaped, so the pid is its own; it has nothing to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Default)]
struct Tries {
    server: Option<Server>,
    next: Option<Instant>,
    pause: Duration,
    since: Option<Instant>,
    /// Since when nobody can be signed in.
    unneeded: Option<Instant>,
}

/// Runs as long as the daemon does.
pub async fn supervise(node: Arc<Node>) {
    let mut tries = Tries::default();
    loop {
        let looking = node.clone();
        let looked = tokio::task::spawn_blocking(move || {
            settle(&looking, &mut tries);
            tries
        });
        tries = match looked.await {
            Ok(tries) => tries,
            Err(e) => {
                tracing::error!("the dashboard is looked after no more: {e}");
                return;
            }
        };
        let rests = tries.server.is_none() && tries.next.is_none();
        let sleep = async {
            match rests {
                true => std::future::pending().await,
                false => tokio::time::sleep(LOOK_EVERY).await,
            }
        };
        tokio::select! {
            () = node.web.changed.notified() => tries.next = None,
            () = sleep => {}
        }
    }
}

/// Has a server where there is to be one, and none otherwise.
fn settle(node: &Arc<Node>, tries: &mut Tries) {
    let web = &node.config.web;
    let needed = web.always() || node.web.is_needed();
    if needed {
        tries.unneeded = None;
    }
    let lingers = !needed && tries.server.is_some() && {
        let since = *tries.unneeded.get_or_insert_with(Instant::now);
        since.elapsed() < LINGER
    };
    let Some(addr) = web.addr().filter(|_| needed || lingers) else {
        tries.server = None;
        tries.next = None;
        node.web.serves(Served::Off);
        return;
    };
    if let Some(server) = &mut tries.server {
        let Ok(Some(status)) = server.child.try_wait() else {
            return;
        };
        tracing::warn!(
            "the dashboard's server ended ({status}); see web.log in the state directory"
        );
        tries.server = None;
        node.web.serves(Served::Off);
        failed(tries);
    }
    if tries.next.is_some_and(|at| Instant::now() < at) {
        return;
    }
    match start(node, addr) {
        Ok(server) => {
            tries.server = Some(server);
            tries.next = None;
            tries.since = Some(Instant::now());
            node.web.serves(Served::Up);
            tracing::info!("the dashboard listens on {addr}");
        }
        Err(why) => {
            tracing::warn!("no dashboard on {addr}: {why}");
            node.web.serves(Served::Failed(why));
            failed(tries);
        }
    }
}

fn failed(tries: &mut Tries) {
    if tries
        .since
        .take()
        .is_some_and(|at| at.elapsed() > AGAIN_MAX)
    {
        tries.pause = Duration::ZERO;
    }
    tries.pause = (tries.pause * 2).clamp(AGAIN, AGAIN_MAX);
    tries.next = Some(Instant::now() + tries.pause);
}

fn start(node: &Node, addr: SocketAddr) -> Result<Server, String> {
    let web = &node.config.web;
    let order = WebStart {
        listen: addr.to_string(),
        socket: node.config.socket_path(),
        keys: keys(node, web)?,
        names: names(node, web),
        reports: web.reports.clone(),
    };
    let mut command = Command::new(&node.host_program);
    command
        // For `ps`; its file may be another by now.
        .arg0(std::env::args_os().next().unwrap_or_default())
        .arg(VERB)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log(&node.state.path().join("web.log")))
        .current_dir("/")
        // Nothing of the daemon's surroundings is its business.
        .env_clear()
        // Signals to the daemon's group do not reach it: it ends with its standard input.
        .process_group(0);
    if sys::euid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    let spawned = sys::as_others(|| command.spawn());
    let mut child = spawned.map_err(|e| format!("{}: {e}", node.host_program.display()))?;
    let stdin = child.stdin.take();
    let up = stdin.ok_or_else(|| "it has no standard input".to_owned());
    let up = up.and_then(|stdin| instruct(&mut child, stdin, &order));
    match up {
        Ok(_stdin) => Ok(Server { child, _stdin }),
        Err(why) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(why)
        }
    }
}

/// A log of its own, begun anew.
fn log(path: &Path) -> Stdio {
    let fresh = |f: File| f.set_len(0).map(|()| f);
    match open_log(path).and_then(fresh) {
        Ok(log) => Stdio::from(log),
        Err(_) => Stdio::null(),
    }
}

/// Sends it its line and waits until it listens. The returned end keeps it alive.
fn instruct(
    child: &mut Child,
    mut stdin: ChildStdin,
    order: &WebStart,
) -> Result<ChildStdin, String> {
    let line = encode(order).map_err(|e| e.to_string())?;
    let stdout = child.stdout.take().ok_or("it has no standard output")?;
    stdin
        .write_all(&line)
        .map_err(|e| format!("it did not listen: {e}"))?;
    let (tx, rx) = mpsc::channel();
    // Ends with the child's standard output, which a child that fails is killed to close.
    let heard = thread::Builder::new().name("web-up".into()).spawn(move || {
        let _ = tx.send(read_line(&mut BufReader::new(stdout)));
    });
    heard.map_err(|e| format!("its answer cannot be read: {e}"))?;
    match rx.recv_timeout(START) {
        Ok(Ok(WebUp::Up { .. })) => Ok(stdin),
        Ok(Ok(WebUp::Unable { why })) => Err(why),
        Ok(Err(e)) => Err(format!("it ended before it was up ({e})")),
        Err(_) => Err("it was not up in time".to_owned()),
    }
}
