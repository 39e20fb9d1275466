//! A process that is the daemon: `armento node`, by hand or as a service.
//!
//! From: `cli/src/node.rs`. Next: `noded/src/daemon/start.rs`.

use super::goes_on::goes_on;
use super::start::{Options, start};
use super::wait::wait_and_run;
use crate::config::Config;
use crate::error::FarmError;
use crate::sys;
use crate::systemd::start_scope;
use crate::upgrade::reap_inherited;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Runs the daemon until it is told to end (SIGTERM, SIGINT, leaving).
pub fn run(options: Options) -> Result<(), FarmError> {
    begin();
    goes_on(start(options, true)?.wait())
}

/// As a service (`wait.rs`). `guests`: the unit in whose control group guests live.
pub fn run_service(file: Option<&Path>, wait: bool, guests: Option<&str>) -> Result<(), FarmError> {
    begin();
    if let Some(unit) = guests {
        match start_scope(unit) {
            Ok(()) => tracing::info!("guests live in {unit}"),
            Err(why) => tracing::warn!(
                "{unit} cannot be had for guests: {why}; \
                 they live in the daemon's own control group, see `armento doctor`"
            ),
        }
    }
    if wait {
        return wait_and_run(file);
    }
    let options = Options {
        config: Config::load(file)?,
        host_program: None,
    };
    goes_on(start(options, true)?.wait())
}

fn begin() {
    // A thread for each host's start, end and group: each would leave an arena of malloc's behind.
    armento_tracee::sys::frugal_malloc();
    log();
    reap_inherited();
    sys::be_prompt();
    sys::stay_in_memory();
}

/// What happens goes to the journal if standard error does, with its fields; else to standard error, one line each.
/// `ARMENTO_LOG` chooses how much of it.
fn log() {
    let quiet = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let wanted = std::env::var("ARMENTO_LOG").ok();
    let filter = wanted.and_then(|text| text.parse::<Targets>().ok());
    let journal = is_journal()
        .then(|| tracing_journald::layer().ok())
        .flatten();
    let lines = journal.is_none().then(|| {
        tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(!quiet && std::io::stderr().is_terminal())
    });
    // Fails when this process has a log already, which is then used.
    let _ = tracing_subscriber::registry()
        .with(filter.unwrap_or_else(|| Targets::new().with_default(Level::INFO)))
        .with(journal.map(|j| j.with_syslog_identifier("armento".into())))
        .with(lines)
        .try_init();
}

/// Whether standard error is connected to the journal: systemd.exec(5), JOURNAL_STREAM.
fn is_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let stderr = std::fs::metadata("/proc/self/fd/2");
    stderr.is_ok_and(|m| named == format!("{}:{}", m.dev(), m.ino()))
}
