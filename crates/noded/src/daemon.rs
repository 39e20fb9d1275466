//! The daemon itself: what is started, in which order, and how it ends.
//!
//! Its end, however sudden, ends no host and no keeper: hosts lead sessions of their own, keepers
//! are nobody's children here.

use crate::config::Config;
use crate::core::Node;
use crate::gossip::Gossip;
use crate::peer::serve as peers;
use crate::service;
use crate::state::{Lock, StateDir};
use crate::{FarmError, act, address, boot, control, enrol, sys};
use armento_client::api::{RENEW, node_note};
use armento_client::version;
use armento_link::{Closer, LinkError, sockets};
use armento_sense::boot_incarnation;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::net::{UdpSocket, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// What `nodes`, `status` and joins say.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// … which tests must be able to tell from a version to come.
pub fn version() -> String {
    match version::is_to_come() {
        true => format!("{VERSION}-control{}", version::spoken()),
        false => VERSION.into(),
    }
}

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
    /// Ends it, as a signal would. The farm will see this node go down.
    pub fn stop(self) {
        self.node.stop.send_replace(true);
        self.wait();
    }

    /// Waits until it has ended by itself, as it does after leaving.
    pub fn wait(self) {
        // A panic was printed where it happened.
        let _ = self.thread.join();
    }

    pub fn addr(&self) -> SocketAddr {
        self.node.addr()
    }

    /// Until it is told to end, or has left its farm.
    pub(crate) async fn ends(&self) {
        let mut stop = self.node.stop.subscribe();
        // The sender lives in `node`.
        let _ = stop.wait_for(|s| *s).await;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Runs the daemon until it is told to end (SIGTERM, SIGINT, leaving).
pub fn run(options: Options) -> Result<(), FarmError> {
    begin();
    let running = start(options, true)?;
    running.wait();
    Ok(())
}

/// As a service (`service/wait.rs`). `guests`: the unit in whose control group guests live.
pub fn run_service(file: Option<&Path>, wait: bool, guests: Option<&str>) -> Result<(), FarmError> {
    begin();
    if let Some(unit) = guests {
        match service::start_guests_unit(unit) {
            Ok(()) => tracing::info!("guests live in {unit}"),
            Err(why) => tracing::warn!(
                "{unit} cannot be had for guests: {why}; \
                 they live in the daemon's own control group, see `armento doctor`"
            ),
        }
    }
    if wait {
        return service::run(file);
    }
    let options = Options {
        config: Config::load(file)?,
        host_program: None,
    };
    start(options, true)?.wait();
    Ok(())
}

fn begin() {
    // A thread for each host's start, end and group: each would leave an arena of malloc's behind.
    armento_tracee::sys::frugal_malloc();
    log();
    sys::be_prompt();
    sys::stay_in_memory();
}

/// What happens goes to standard error, one line each; `ARMENTO_LOG` chooses how much of it.
fn log() {
    let quiet = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let wanted = std::env::var("ARMENTO_LOG").ok();
    let filter = wanted.and_then(|text| text.parse::<Targets>().ok());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(!quiet && std::io::stderr().is_terminal());
    // Fails when this process has a log already, which is then used.
    let _ = tracing_subscriber::registry()
        .with(filter.unwrap_or_else(|| Targets::new().with_default(Level::INFO)))
        .with(lines)
        .try_init();
}

/// Starts a daemon beside whatever this process does. After `Ok` it listens.
pub fn start(options: Options, signals: bool) -> Result<Running, FarmError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(FarmError::state("cannot start the daemon"))?;
    let parts = runtime.block_on(async { open(options) })?;
    let node = parts.node.clone();
    let listens = listens(&node);
    tracing::info!("{listens}");
    if signals {
        service::ready(&listens);
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
        version()
    )
}

/// A daemon that was killed a moment ago holds its lock and its doors until the kernel has taken it apart.
const DYING_MAX: Duration = Duration::from_secs(2);
const DYING_LOOK: Duration = Duration::from_millis(20);

fn patient<T>(mut tries: impl FnMut() -> Result<T, FarmError>) -> Result<T, FarmError> {
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

/// Order: lock, keys, doors; so that a daemon that must not run disturbs nothing.
fn open(options: Options) -> Result<Parts, FarmError> {
    let Options {
        config,
        host_program,
    } = options;
    let state = StateDir::new(config.state_dir());
    let mut farm = state.farm()?;
    let lock = patient(|| state.lock())?;
    boot::forget_earlier(&state)?;
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
    let listen = node.farm.listen;
    let busy = |e: &io::Error| enrol::listen_refused(listen, e);
    let datagrams = patient(|| sockets::bind_udp(listen, true).map_err(|e| busy(&e)))?;
    let datagrams = datagrams
        .set_nonblocking(true)
        .and_then(|()| UdpSocket::from_std(datagrams))
        .map_err(|e| busy(&e))?;
    let control = control::bind(&socket)?;
    // Of a daemon that was killed.
    let _ = std::fs::remove_file(node_note(&socket));
    let (doors, closer) =
        patient(|| peers::listen(&node, &node.me()).map_err(|e| busy(&io_error(e))))?;
    *node.doors.lock().unwrap_or_else(PoisonError::into_inner) = Some(doors);
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
    tokio::spawn(act::use_room(node.clone()));
    tokio::spawn(renew(node.clone()));
    if signals {
        tokio::spawn(obey(node.clone()));
    }
    // The sender lives in `node`, so this ends by its word only.
    let _ = stop.wait_for(|s| *s).await;
    if let Err(e) = gossip.await {
        tracing::error!("membership ended badly: {e}");
    }
    closer.close();
    node.doors
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    // One breath for answers on their way, that of `leave` among them.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let socket = node.config.socket_path();
    let _ = std::fs::remove_file(&socket);
    let _ = std::fs::remove_file(node_note(&socket));
    drop(lock);
}

async fn obey(node: Arc<Node>) {
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
                service::reloading();
                match node.reload() {
                    Ok(_) => tracing::info!("the configuration was read again"),
                    Err(e) => tracing::error!("{e}; what held before holds"),
                }
                service::ready(&listens(&node));
            }
        }
    }
    service::stopping();
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
