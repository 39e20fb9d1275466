//! Tokens of `armento web`, and browsers that sign in with them.

use super::certificate::{keys, shown};
use crate::error::{Result, refusal};
use crate::state::{Asker, Node, SESSION_S, SESSION_S_MAX, Served, TOKEN_S, USES_MAX, sha256};
use crate::sys::name_of;
use armento_client::api::{Answer, WebTicket};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Longest wait for the server to be up: its own start (`server.rs`), and a moment more.
const UP: Duration = Duration::from_secs(9);

/// A token of the asker; the server is up when it is answered. Blocks: to be called off the daemon's own thread.
pub fn token(asker: &Asker, uses: u32, session_s: u64, dry_run: bool) -> Result<Answer> {
    let node = &asker.node;
    let web = &node.config.web;
    let Some(addr) = web.addr() else {
        let what = format!("the dashboard of {} is switched off", node.farm.node);
        let hint = "give web.listen an address in its config.toml, and start the daemon again";
        return Err(refusal("web-off", what, hint));
    };
    if !(1..=USES_MAX).contains(&uses) {
        let what = format!("a token is used 1 to {USES_MAX} times");
        return Err(refusal("bad-uses", what, "make another one later"));
    }
    let session_s = if session_s == 0 { SESSION_S } else { session_s };
    if session_s > SESSION_S_MAX {
        let days = SESSION_S_MAX / 86_400;
        let what = format!("a browser stays signed in for {days} days at most");
        return Err(refusal("bad-time", what, "sign in again then"));
    }
    let tls = keys(node, web).map_err(|why| {
        let what = format!("the dashboard has no certificate: {why}");
        refusal(
            "failed",
            what,
            "see web.certificate and web.key in config.toml",
        )
    })?;
    let mut ticket = WebTicket {
        token: String::new(),
        url: url(node, addr, tls.is_some()),
        valid_s: TOKEN_S,
        uses,
        session_s,
        fingerprint: tls.as_ref().and_then(shown),
    };
    if dry_run {
        return Ok(Answer::WebTicket(ticket));
    }
    let user = name_of(asker.uid).unwrap_or_default();
    ticket.token = node
        .web
        .token(&node.state, (asker.uid, user), uses, session_s)?;
    match node.web.wait_served(UP) {
        Served::Up => Ok(Answer::WebTicket(ticket)),
        Served::Failed(why) => Err(refusal(
            "failed",
            format!("the dashboard does not start on {addr}: {why}"),
            "choose another address with web.listen in config.toml; the daemon's log has more",
        )),
        Served::Off => Err(refusal(
            "late",
            "the dashboard's server did not start in time",
            "see web.log in the state directory, then ask again",
        )),
    }
}

/// Where a browser finds it; an address that stands for all is replaced by that of the node.
fn url(node: &Node, addr: SocketAddr, tls: bool) -> String {
    let ip: IpAddr = match addr.ip() {
        ip if ip.is_unspecified() => node.addr().ip(),
        ip => ip,
    };
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{}/", SocketAddr::new(ip, addr.port()))
}

pub fn sign_in(node: &Node, token: &str) -> Result<Answer> {
    let session = node.web.sign_in(&node.state, token)?;
    tracing::info!("user {} has signed in at the dashboard", session.uid);
    Ok(Answer::WebSession(session))
}

pub fn sign_out(node: &Node, secret: &str) -> Answer {
    node.web.sign_out(&node.state, &sha256(secret));
    Answer::Done
}

pub fn end(node: &Node, uid: u32, dry_run: bool) -> Answer {
    let count = node.web.end(&node.state, uid, dry_run);
    Answer::WebEnded { count }
}
