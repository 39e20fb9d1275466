//! Features that make a farm faster or safer, but are not required.

use super::check::{Check, Need, State};
use super::clock;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

/// Files a keeper with many descriptors and threads may need.
const FILES_MIN: u64 = 4096;

/// The owner of this node's daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DaemonOwner {
    ByRoot,
    ByOthers,
    No,
}

/// Determined by the owner of the socket that answers.
pub(super) fn daemon_owner() -> DaemonOwner {
    let path = armento_client::api::socket_path();
    if UnixStream::connect(&path).is_err() {
        return DaemonOwner::No;
    }
    match fs::metadata(&path).map(|m| m.uid()) {
        Ok(0) => DaemonOwner::ByRoot,
        _ => DaemonOwner::ByOthers,
    }
}

pub(super) fn checks() -> Vec<Check> {
    vec![
        huge_pages(),
        limits(),
        clock::own(),
        daemon(),
        clock::others(),
    ]
}

fn huge_pages() -> Check {
    let text =
        fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let mode = text
        .split_once('[')
        .and_then(|(_, r)| r.split_once(']'))
        .map_or("absent", |(m, _)| m);
    let state = if matches!(mode, "always" | "madvise") {
        State::Ok
    } else {
        State::Limited
    };
    Check::new(
        "huge-pages",
        Need::Nothing,
        state,
        format!("transparent huge pages: {mode}"),
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; moves receive memory faster with them",
    )
}

fn limits() -> Check {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let hard = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name))?;
        Some(line.split_whitespace().nth(1)?.parse().unwrap_or(u64::MAX)) // "unlimited"
    };
    let files = hard("Max open files").unwrap_or(0);
    let state = if files >= FILES_MIN {
        State::Ok
    } else {
        State::Limited
    };
    let processes = hard("Max processes").unwrap_or(0);
    let show = |n: u64| {
        if n == u64::MAX {
            "unlimited".into()
        } else {
            n.to_string()
        }
    };
    Check::new(
        "limits",
        Need::Nothing,
        state,
        format!(
            "open files at most {}, processes at most {}",
            show(files),
            show(processes)
        ),
        "raise `nofile` to 4096 or more in /etc/security/limits.conf",
    )
}

fn daemon() -> Check {
    let path = armento_client::api::socket_path();
    let shown = path.display().to_string();
    match UnixStream::connect(&path) {
        Ok(_) => Check::new(
            "daemon",
            Need::Nothing,
            State::Ok,
            format!("answers at {shown}"),
            "",
        ),
        Err(e) => Check::new(
            "daemon",
            Need::Nothing,
            State::Limited,
            format!("{shown}: {e}"),
            "start it: armento node (after armento farm init or armento join)",
        ),
    }
}
