//! A service that waits for its node to have a farm, and after `armento leave` for the next one.
//!
//! From: `armento node --wait` (`packaging/armento.service`). Next: `noded/src/daemon/start.rs`.

use super::goes_on::goes_on;
use super::start::{Options, Running, start};
use crate::config::Config;
use crate::error::FarmError;
use crate::state_dir::{Lock, StateDir};
use crate::systemd::{ready, stopping};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Between two looks whether there is a farm, or whether the address can be had.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const NO_FARM: &str = "no farm yet: `armento farm init` makes one, `armento join` joins one";

/// The daemon that waits in this state directory for a farm, if one does: its pid, where it is known.
/// Before: the node has no farm; otherwise it is a daemon that runs.
pub fn is_waiting(config: &Config) -> Option<Option<i32>> {
    let dir = StateDir::new(config.state_dir());
    match dir.lock() {
        Err(FarmError::Locked { pid, .. }) if dir.farm().is_err() => Some(pid),
        _ => None,
    }
}

/// Runs daemon after daemon until a signal ends it (SIGTERM, SIGINT). `file`: settings, read anew for each.
/// Before: this process has one thread.
pub fn wait_and_run(file: Option<&Path>) -> Result<(), FarmError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(FarmError::state("cannot start the daemon"))?;
    let mut signals = runtime.block_on(async { Signals::new() })?;
    let mut waits = Waits::default();
    loop {
        let config = Config::load(file)?;
        let dir = StateDir::new(config.state_dir());
        if let Err(FarmError::NotJoined(_)) = dir.farm() {
            waits.hold(&dir)?;
            waits.log_once(NO_FARM);
        } else {
            waits.lock = None;
            let options = Options {
                config,
                host_program: None,
            };
            match start(options, true) {
                Ok(running) => {
                    waits = Waits::default();
                    let signalled = runtime.block_on(signals.end_or(&running));
                    if running.stop() {
                        return goes_on(true);
                    }
                    if signalled || runtime.block_on(signals.end_within(Duration::ZERO)) {
                        return Ok(());
                    }
                    if dir.farm().is_ok() {
                        let cause = std::io::Error::other("a bug: see what it printed");
                        return Err(FarmError::state("the daemon ended by itself")(cause));
                    }
                    continue;
                }
                // The interface may come up later, the other daemon may end.
                Err(e @ (FarmError::Listen { .. } | FarmError::Locked { .. })) => {
                    waits.log_once(&e.to_string());
                }
                Err(e) => return Err(e),
            }
        }
        if runtime.block_on(signals.end_within(LOOK_EVERY)) {
            stopping("ends; processes and guests go on");
            return Ok(());
        }
    }
}

/// What is waited for.
#[derive(Default)]
struct Waits {
    /// By this `armento farm init` and `join` see that a daemon waits.
    lock: Option<(PathBuf, Lock)>,
    /// What was last said.
    last: String,
}

impl Waits {
    fn hold(&mut self, dir: &StateDir) -> Result<(), FarmError> {
        if self
            .lock
            .as_ref()
            .is_some_and(|(held, _)| held == dir.path())
        {
            return Ok(());
        }
        dir.create()?;
        self.lock = match dir.lock() {
            Ok(lock) => Some((dir.path().to_owned(), lock)),
            // A command looks at it just now.
            Err(FarmError::Locked { .. }) => None,
            Err(e) => return Err(e),
        };
        Ok(())
    }

    fn log_once(&mut self, why: &str) {
        if self.last != why {
            tracing::info!("waits: {why}");
            ready(why);
            why.clone_into(&mut self.last);
        }
    }
}

/// Those that end the daemon, and the one that has it read its settings again: here they are read anyway.
struct Signals([Signal; 3]);

impl Signals {
    /// Before: within a runtime.
    fn new() -> Result<Signals, FarmError> {
        let watch = |kind| signal(kind).map_err(FarmError::state("cannot watch signals"));
        Ok(Signals([
            watch(SignalKind::terminate())?,
            watch(SignalKind::interrupt())?,
            watch(SignalKind::hangup())?,
        ]))
    }

    /// True when told to end within that time.
    async fn end_within(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.end()).await.is_ok()
    }

    /// True when told to end; false when the daemon ends by itself, as it does after `armento leave`.
    async fn end_or(&mut self, running: &Running) -> bool {
        loop {
            let ends = tokio::time::timeout(LOOK_EVERY, running.ends());
            tokio::select! {
                () = self.end() => return true,
                ended = ends => if ended.is_ok() || running.has_ended() { return false },
            }
        }
    }

    async fn end(&mut self) {
        let [term, int, hup] = &mut self.0;
        loop {
            tokio::select! {
                _ = term.recv() => return,
                _ = int.recv() => return,
                _ = hup.recv() => {}
            }
        }
    }
}
