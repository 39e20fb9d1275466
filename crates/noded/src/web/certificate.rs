//! The certificate with which the dashboard is served beyond loopback: an administrator's, or one that is made here.

use crate::clock::unix_now;
use crate::config::Web;
use crate::error::FarmError;
use crate::state::Node;
use armento_client::api::WebKeys;
use armento_link::{fingerprint, web_keys};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::Path;

const FILE: &str = "web-keys.json";
/// It is made anew then, seconds: it is valid for 396 days from the start.
const RENEW_S: u64 = 300 * 24 * 3600;
/// Longest file that is read as a certificate or key, bytes.
const PEM_MAX: u64 = 1 << 20;

#[derive(Serialize, Deserialize)]
struct Made {
    names: Vec<String>,
    /// Unix time, seconds.
    made: u64,
    keys: WebKeys,
}

/// Names under which browsers may ask, besides addresses and `localhost`.
pub fn names(node: &Node, web: &Web) -> Vec<String> {
    let mut names = vec![node.farm.node.to_string()];
    names.extend(std::fs::read_to_string("/proc/sys/kernel/hostname").map(|h| h.trim().to_owned()));
    names.extend(web.names.iter().map(|n| n.to_lowercase()));
    names.retain(|n| !n.is_empty());
    names.sort();
    names.dedup();
    names
}

/// `None` where plain HTTP is enough.
pub fn keys(node: &Node, web: &Web) -> Result<Option<WebKeys>, String> {
    if let (Some(chain), Some(key)) = (&web.certificate, &web.key) {
        return Ok(Some(WebKeys {
            chain_pem: read(chain)?,
            key_pem: read(key)?,
        }));
    }
    if !web.needs_tls() {
        return Ok(None);
    }
    let mut names = names(node, web);
    names.push("localhost".into());
    let listen = web.addr().map(|a| a.ip()).filter(|ip| !ip.is_unspecified());
    let addresses: [Option<IpAddr>; 2] = [listen, Some(node.addr().ip())];
    names.extend(addresses.iter().flatten().map(IpAddr::to_string));
    names.sort();
    names.dedup();
    let known: Option<Made> = node.state.read_json(FILE).unwrap_or_else(|e: FarmError| {
        tracing::warn!("{e}: the dashboard gets a new certificate");
        None
    });
    let fresh = |m: &Made| m.names == names && unix_now() < m.made + RENEW_S;
    if let Some(made) = known.filter(fresh) {
        return Ok(Some(made.keys));
    }
    let (chain_pem, key_pem) = web_keys(&names).map_err(|e| e.to_string())?;
    let keys = WebKeys { chain_pem, key_pem };
    let made = Made {
        names,
        made: unix_now(),
        keys: keys.clone(),
    };
    let lost = "browsers see another certificate after a restart";
    node.state
        .write_if_possible(FILE, &made, lost)
        .map_err(|e| e.to_string())?;
    Ok(Some(keys))
}

/// As browsers show it.
pub fn shown(keys: &WebKeys) -> Option<String> {
    fingerprint(&keys.chain_pem).ok()
}

fn read(path: &Path) -> Result<String, String> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(path);
    let read = file.and_then(|f| f.take(PEM_MAX).read_to_string(&mut text));
    read.map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(text)
}
