//! The daemon: what is started, in which order, and how it ends.
//!
//! Its end, however sudden, ends no host and no keeper: hosts lead sessions of their own, keepers are not its children.

use crate::address;
use crate::announce::announce;
use crate::config::Config;
use crate::control;
use crate::dfsa;
use crate::error::FarmError;
use crate::gossip::Gossip;
use crate::membership::listen_refused;
use crate::mfs;
use crate::peer_server;
use crate::policy::{make_old_trees_safe, order_moves_when_freed, reload};
use crate::state::Node;
use crate::state_dir::{Lock, StateDir, forget_earlier};
use crate::systemd::{ready, reloading, stopping};
use crate::upgrade::upgrade_keepers;
use crate::version::shown_version;
use crate::web;
use armento_client::api::{RENEW, node_note};
use armento_link::{Closer, LinkError, sockets};
use armento_sense::boot_incarnation;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::net::{UdpSocket, UnixListener};
use tokio::signal::unix::{SignalKind, signal};

pub struct Options {
    pub config: Config,
    /// What is called as `PROGRAM host` to hold guests; if not given this very program, also when its file has been
    /// replaced: a daemon and its hosts are of one version.
    pub host_program: Option<PathBuf>,
}

/// A daemon that runs in a thread of this process.
pub struct Running {
    node: Arc<Node>,
    thread: JoinHandle<()>,
}

/// Everything that can refuse to start, already started.
struct Parts {
    node: Arc<Node>,
    gossip: Gossip,
    control: UnixListener,
    closer: Closer,
    lock: Lock,
}

impl Running {
    /// Ends it, as a signal would. The farm will see this node go down. Returns what [`Running::wait`] does.
    pub fn stop(self) -> bool {
        self.node.stop.send_replace(true);
        self.wait()
    }

    /// Waits until it has ended by itself, as it does after leaving. True: this process is to become the program at its path.
    pub fn wait(self) -> bool {
        // A panic was printed where it happened.
        let _ = self.thread.join();
        self.node.restarts.load(Ordering::Relaxed)
    }

    pub fn addr(&self) -> SocketAddr {
        self.node.addr()
    }

    /// Until it is told to end, or has left its farm.
    pub async fn ends(&self) {
        let mut stop = self.node.stop.subscribe();
        // The sender lives in `node`.
        let _ = stop.wait_for(|s| *s).await;
    }

    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Starts a daemon beside whatever this process does. After `Ok` it listens.
pub fn start(options: Options, signals: bool) -> Result<Running, FarmError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(FarmError::state("cannot start the daemon"))?;
    let parts = runtime.block_on(async { open(options) })?;
    let node = parts.node.clone();
    // Without signals it is a part of another process.
    node.own_process.store(signals, Ordering::Relaxed);
    let listens = listens(&node);
    tracing::info!("{listens}");
    if signals {
        ready(&listens);
    }
    let thread = thread::Builder::new()
        .name("daemon".into())
        .spawn(move || {
            runtime.block_on(serve(parts, signals));
            // Questions that wait for other nodes are not waited for.
            runtime.shutdown_background();
        })
        .map_err(FarmError::state("cannot start the daemon"))?;
    Ok(Running { node, thread })
}

fn listens(node: &Node) -> String {
    let farm = &node.farm;
    let (me, name, listen) = (&farm.node, &farm.farm, farm.listen);
    format!(
        "{me} of farm {name} listens on {listen}, version {}",
        shown_version()
    )
}

/// A daemon that was killed a moment ago holds its lock and its sockets until the kernel has released them.
const DYING_MAX: Duration = Duration::from_secs(2);
const DYING_LOOK: Duration = Duration::from_millis(20);

fn retry<T>(mut tries: impl FnMut() -> Result<T, FarmError>) -> Result<T, FarmError> {
    let until = Instant::now() + DYING_MAX;
    loop {
        match tries() {
            Err(FarmError::Locked { .. } | FarmError::Listen { .. }) if Instant::now() < until => {
                thread::sleep(DYING_LOOK);
            }
            done => return done,
        }
    }
}

/// Order: lock, keys, sockets; so that a daemon that must not run disturbs nothing.
fn open(options: Options) -> Result<Parts, FarmError> {
    let Options {
        config,
        host_program,
    } = options;
    let state = StateDir::new(config.state_dir());
    let mut farm = state.farm()?;
    let lock = retry(|| state.lock())?;
    forget_earlier(&state)?;
    if config.name.as_ref().is_some_and(|n| *n != farm.node) {
        return Err(FarmError::Config {
            path: "name".into(),
            why: format!(
                "this node joined as `{}`; leave and join to change that",
                farm.node
            ),
        });
    }
    address::settle(&mut farm, &config)?;
    farm.boot = boot_incarnation().max(farm.boot + 1);
    state.write_if_possible("farm.json", &farm, "the number of this start is not kept")?;
    let host_program = match host_program {
        Some(program) => program,
        // Whatever lies at its path by then.
        None => PathBuf::from("/proc/self/exe"),
    };
    let socket = config.socket_path();
    let node = Arc::new(Node::new(config, state, farm, host_program)?);
    dfsa::prepare(&node);
    let listen = node.farm.listen;
    let busy = |e: &io::Error| listen_refused(listen, e);
    let datagrams = retry(|| sockets::bind_udp(listen, true).map_err(|e| busy(&e)))?;
    let datagrams = datagrams
        .set_nonblocking(true)
        .and_then(|()| UdpSocket::from_std(datagrams))
        .map_err(|e| busy(&e))?;
    let control = control::bind(&socket)?;
    // Of a daemon that was killed.
    let _ = std::fs::remove_file(node_note(&socket));
    let (listener, closer) =
        retry(|| peer_server::listen(&node, &node.identity()).map_err(|e| busy(&io_error(e))))?;
    node.credentials.listen(Some(listener));
    Ok(Parts {
        gossip: Gossip::new(node.clone(), datagrams),
        node,
        control,
        closer,
        lock,
    })
}

fn io_error(e: LinkError) -> io::Error {
    match e {
        LinkError::Io(e) => e,
        other => io::Error::other(other),
    }
}

async fn serve(parts: Parts, signals: bool) {
    let Parts {
        node,
        gossip,
        control,
        closer,
        lock,
    } = parts;
    let mut stop = node.stop.subscribe();
    let gossip = tokio::spawn(gossip.run(node.stop.subscribe()));
    tokio::spawn(control::serve(node.clone(), control));
    tokio::spawn(order_moves_when_freed(node.clone()));
    tokio::spawn(renew(node.clone()));
    tokio::spawn(upgrade_keepers(node.clone()));
    tokio::spawn(make_old_trees_safe(node.clone()));
    tokio::spawn(mfs::supervise(node.clone()));
    tokio::spawn(announce(node.clone()));
    tokio::spawn(web::supervise(node.clone()));
    if signals {
        tokio::spawn(follow_signals(node.clone()));
    }
    // The sender lives in `node`, so this ends only when it says so.
    let _ = stop.wait_for(|s| *s).await;
    if let Err(e) = gossip.await {
        tracing::error!("membership ended badly: {e}");
    }
    closer.close();
    node.credentials.listen(None);
    node.history.close();
    // Time for answers on their way, that of `leave` among them.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let socket = node.config.socket_path();
    let _ = std::fs::remove_file(&socket);
    let _ = std::fs::remove_file(node_note(&socket));
    drop(lock);
}

async fn follow_signals(node: Arc<Node>) {
    let watch = |kind| signal(kind);
    let signals = watch(SignalKind::terminate()).and_then(|t| {
        Ok((
            t,
            watch(SignalKind::interrupt())?,
            watch(SignalKind::hangup())?,
        ))
    });
    let Ok((mut term, mut int, mut hup)) = signals else {
        tracing::warn!("signals cannot be watched; the default action is taken");
        return;
    };
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = int.recv() => break,
            _ = hup.recv() => {
                reloading();
                match reload(&node) {
                    Ok(_) => tracing::info!("the configuration was read again"),
                    Err(e) => tracing::error!("{e}; what held before holds"),
                }
                ready(&listens(&node));
            }
        }
    }
    stopping("ends; processes and guests go on");
    tracing::info!("told to end; processes and guests go on");
    node.stop.send_replace(true);
}

async fn renew(node: Arc<Node>) {
    let mut ticks = tokio::time::interval(RENEW);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        if let Err(e) = node.renew() {
            tracing::error!("our certificate could not be renewed: {e}");
        }
    }
}
