//! Keeps dnsmasq running, reads what it logs, and starts it anew when the inventory changes.

use super::state::State;
use crate::layout::{Settings, replace_with_mode};
use crate::problem::{At, BootError};
use crate::stage::read_line;
use armento_fabric::inventory::{Farm, Node};
use armento_fabric::render::{BootService, Dhcp, dnsmasq};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Notify;

/// Between two starts of a dnsmasq that fails: at first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// A dnsmasq that ran so long is taken to be well.
const WELL: Duration = Duration::from_secs(60);

/// The configuration for this boot server.
pub fn configuration(farm: &Farm, settings: &Settings) -> Result<String, BootError> {
    let server: &Node = farm.node(&settings.server).ok_or_else(|| {
        BootError::refused(
            format!("the inventory has no node `{}`", settings.server),
            "armento boot init says which node this boot server is",
        )
    })?;
    let service = BootService {
        dhcp: match settings.proxy {
            true => Dhcp::Proxy,
            false => Dhcp::Own,
        },
        port: settings.http,
        tftp: settings.tftp.display().to_string(),
    };
    dnsmasq(farm, server, &service).ok_or_else(|| {
        BootError::refused(
            format!("{} is in no net that nodes boot from", server.name),
            "add boot = true to a net, and give the server a link in it",
        )
    })
}

/// Copies iPXE to where dnsmasq may read it.
pub fn lay_out_loaders(state: &State) -> Result<(), BootError> {
    let (from, to) = (state.boot.loaders(), &state.settings.tftp);
    fs::create_dir_all(to).at(to)?;
    fs::set_permissions(to, Permissions::from_mode(0o755)).at(to)?;
    for entry in fs::read_dir(&from).at(&from)? {
        let entry = entry.at(&from)?;
        let file = to.join(entry.file_name());
        replace_with_mode(&file, &fs::read(entry.path()).at(&entry.path())?, 0o644)?;
    }
    Ok(())
}

/// Runs dnsmasq for ever. `changed`: its configuration is another one.
pub async fn supervise(state: Arc<State>, changed: Arc<Notify>) {
    let mut wait = AGAIN.0;
    loop {
        let begun = std::time::Instant::now();
        match start(&state) {
            Err(e) => tracing::error!("dnsmasq does not start: {e}"),
            Ok(mut child) => {
                let out = child.stdout.take();
                let err = child.stderr.take();
                tokio::select! {
                    status = child.wait() => {
                        tracing::error!("dnsmasq ended ({status:?}); it is started again");
                    }
                    () = follow(&state, out, err) => {}
                    () = changed.notified() => {
                        tracing::info!("the inventory changed: dnsmasq is started again");
                        let _ = child.kill().await;
                        wait = AGAIN.0;
                        continue;
                    }
                }
                let _ = child.kill().await;
            }
        }
        wait = match begun.elapsed() > WELL {
            true => AGAIN.0,
            false => (wait * 2).min(AGAIN.1),
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = changed.notified() => {}
        }
    }
}

fn start(state: &State) -> std::io::Result<Child> {
    let configuration = format!("--conf-file={}", state.boot.dnsmasq().display());
    let noted = state.boot.dnsmasq_pid();
    end_the_one_before(&noted, &configuration);
    let child = Command::new("dnsmasq")
        .arg(&configuration)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(pid) = child.id() {
        fs::write(noted, format!("{pid}\n"))?;
    }
    Ok(child)
}

/// A boot server that was killed leaves its dnsmasq, which has the ports.
fn end_the_one_before(noted: &Path, configuration: &str) {
    let pid = fs::read_to_string(noted).ok();
    let Some(pid) = pid.and_then(|p| p.trim().parse::<i32>().ok()) else {
        return;
    };
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_ours = words
        .split(|b| *b == 0)
        .any(|w| w == configuration.as_bytes());
    if let Some(pid) = rustix::process::Pid::from_raw(pid).filter(|_| is_ours) {
        tracing::info!("ending the dnsmasq of a boot server before");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// Reads both outputs until they end.
async fn follow(
    state: &State,
    out: Option<impl AsyncRead + Unpin>,
    err: Option<impl AsyncRead + Unpin>,
) {
    tokio::join!(lines(state, out), lines(state, err));
}

async fn lines(state: &State, from: Option<impl AsyncRead + Unpin>) {
    let Some(from) = from else { return };
    let mut lines = BufReader::new(from).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        let line = String::from_utf8_lossy(&line);
        tracing::debug!("{line}");
        match read_line(&line) {
            Some(seen) => state.seen(seen),
            None if line.contains("failed") || line.contains("error") => {
                tracing::warn!("{line}");
            }
            None => {}
        }
    }
}
