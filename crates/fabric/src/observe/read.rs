//! Asks `ip` and sysfs.

use super::parse::{Counters, Observed, parse};
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Why a machine's network could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    #[error("cannot run ip(8): {0}")]
    Run(std::io::Error),
    #[error("`ip {0}` failed: {1}")]
    Failed(String, String),
    #[error("the output of `ip {0}` was not understood: {1}")]
    Output(&'static str, serde_json::Error),
}

impl ObserveError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            ObserveError::Run(_) => "install the package iproute2",
            ObserveError::Failed(..) => "changes need root; the message is the kernel's",
            ObserveError::Output(..) => "iproute2 6.1 or later is needed",
        }
    }
}

/// This machine's network now; of kernel settings those that are asked for.
pub fn observe<'a>(sysctls: impl Iterator<Item = &'a str>) -> Result<Observed, ObserveError> {
    let addresses = run_ip(&["-d", "-j", "address", "show"], None)?;
    let v4 = run_ip(&["-j", "route", "show", "table", "main"], None)?;
    let v6 = run_ip(&["-6", "-j", "route", "show", "table", "main"], None)?;
    let mut observed = parse(&addresses, &[&v4, &v6]).map_err(|e| ObserveError::Output("-j", e))?;
    for link in &mut observed.links {
        link.counters = counters(&link.name);
    }
    for key in sysctls {
        // Keys of links that do not exist have no file.
        if let Ok(value) = fs::read_to_string(format!("/proc/sys/{key}")) {
            observed
                .sysctls
                .insert(key.to_owned(), value.trim().to_owned());
        }
    }
    Ok(observed)
}

fn counters(link: &str) -> Counters {
    let read = |file: &str| fs::read_to_string(format!("/sys/class/net/{link}/{file}")).ok();
    let count = |file: &str| read(file).and_then(|t| t.trim().parse().ok()).unwrap_or(0);
    Counters {
        carrier_changes: count("carrier_changes"),
        speed_mbit: read("speed").and_then(|t| t.trim().parse().ok()),
        duplex: read("duplex")
            .map(|t| t.trim().to_owned())
            .filter(|t| t != "unknown")
            .unwrap_or_default(),
        tx_bytes: count("statistics/tx_bytes"),
        rx_bytes: count("statistics/rx_bytes"),
        rx_crc_errors: count("statistics/rx_crc_errors"),
        collisions: count("statistics/collisions"),
        tx_window_errors: count("statistics/tx_window_errors"),
        rx_dropped: count("statistics/rx_dropped"),
    }
}

/// Runs `ip` with these words and this input; its output.
pub fn run_ip(words: &[&str], input: Option<&[u8]>) -> Result<String, ObserveError> {
    let mut child = Command::new("ip")
        .args(words)
        .env("LC_ALL", "C")
        .stdin(if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(ObserveError::Run)?;
    if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
        // A broken pipe: `ip` has failed already, and says why below.
        let _ = pipe.write_all(input);
    }
    let output = child.wait_with_output().map_err(ObserveError::Run)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(ObserveError::Failed(words.join(" "), said));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
