//! Admitting a node, at the member that holds the farm's key.
//!
//! Order: version, token, clock, name, machine, the way back. A token is spent only by a node that can be a member, and a
//! wrong token learns nothing about the farm.

use super::tokens::{self, Denied};
use crate::clock::{Moments, realtime_ns, span, unix_now};
use crate::error::{FarmError, refusal};
use crate::joining::{Unreached, machine_hash, probe};
use crate::peer::{JoinAsk, Joined, PeerAnswer};
use crate::state::{Node, Standing};
use crate::state_dir::Member;
use crate::version::VERSION;
use armento_client::api::Refusal;
use armento_client::hex::hex;
use armento_link::sockets;
use armento_model::ENGINE_VERSION;
use std::cmp::Ordering;
use std::net::SocketAddr;
use std::sync::Arc;

/// A name that was given to a node that never came up blocks a second node of that name this long, seconds: time
/// enough to start a daemon after joining.
const NAME_KEPT_S: u64 = 600;

/// Clocks that are further apart make certificates that are not valid yet (`link/src/keys.rs`, ten minutes); no
/// machine that ever synchronized its clock is wrong by minutes.
const CLOCKS_MAX_NS: i64 = 300_000_000_000;

/// `from`: the joiner's end of the connection; its question came at `heard_ns` by our clock.
pub fn admit_node(
    node: &Arc<Node>,
    ask: JoinAsk,
    from: Option<SocketAddr>,
    heard_ns: i64,
) -> Result<PeerAnswer, Refusal> {
    let failed = |e: FarmError| refusal("failed", format!("{e}"), e.hint());
    let ca = node.state.farm_keys().map_err(|_| {
        refusal(
            "no-farm-key",
            format!(
                "{} does not hold the farm's key and cannot admit nodes",
                node.farm.node
            ),
            "join at the node where `armento farm init` was run",
        )
    })?;
    same_version(&ask)?;
    token(tokens::check(&node.state, &ask.token, &ask.secret))?;
    same_time(node, &ask, heard_ns)?;
    name_is_free(node, &ask)?;
    machine_is_new(node, &ask)?;
    let checked = is_reached(node, &ask, from)?;
    // One join at a time: two nodes of one name must not both find it free.
    let _turn = node
        .joining
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    name_is_free(node, &ask)?;
    machine_is_new(node, &ask)?;
    token(tokens::spend(&node.state, &ask.token, &ask.secret))?;
    let node_pem = ca.sign_node(&ask.csr_pem, &ask.name).map_err(|e| {
        refusal(
            "bad-request",
            format!("{e}; nothing was changed"),
            "update Armento there",
        )
    })?;
    let serial = armento_link::serial_of(&node_pem).map_err(|e| {
        let what = format!("{e}; nothing was changed");
        refusal("failed", what, "see the files of the state directory")
    })?;
    node.state
        .note_issued(&ask.name, hex(&serial))
        .map_err(failed)?;
    let member = Member {
        name: ask.name.clone(),
        addr: ask.addr,
        admitted: unix_now(),
        seen_up: false,
        machine: ask.machine.clone(),
    };
    let mut seeds = node.lock().members.admitted(member);
    seeds.push(Member {
        name: node.farm.node.clone(),
        addr: node.addr(),
        admitted: 0,
        seen_up: true,
        machine: None,
    });
    node.save_roster().map_err(failed)?;
    tracing::info!("{} ({}) was admitted", ask.name, ask.addr);
    Ok(PeerAnswer::Joined(Joined {
        ca_pem: ca.ca_pem,
        node_pem,
        wire: node.farm.wire,
        secret: node.revoked.list().secret.clone(),
        news: node.revoked.statement(),
        seeds,
        checked,
        moments: Some(Moments {
            heard_ns,
            answered_ns: realtime_ns(),
        }),
    }))
}

fn same_version(ask: &JoinAsk) -> Result<(), Refusal> {
    let line = |v: &str| v.split('.').take(2).collect::<Vec<_>>().join(".");
    if ask.engine == ENGINE_VERSION && line(&ask.version) == line(VERSION) {
        return Ok(());
    }
    let older = match ask.engine.cmp(&ENGINE_VERSION) {
        Ordering::Less => true,
        Ordering::Equal => numbers(&ask.version) < numbers(VERSION),
        Ordering::Greater => false,
    };
    let hint = match older {
        true => {
            "this node's package is the older one: install the farm's version here, then join again"
        }
        false => {
            "the farm's packages are older: upgrade its nodes first, or install its version here"
        }
    };
    Err(refusal(
        "version-mismatch",
        format!(
            "the farm runs Armento {VERSION} (engine {ENGINE_VERSION}), this node {} (engine {}); nothing was changed",
            ask.version, ask.engine
        ),
        hint,
    ))
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|n| n.parse().ok()).collect()
}

fn token(done: Result<(), Denied>) -> Result<(), Refusal> {
    done.map_err(|e| match e {
        Denied::No(refusal) => refusal,
        Denied::State(e) => refusal("failed", format!("{e}; nothing was changed"), e.hint()),
    })
}

fn same_time(node: &Node, ask: &JoinAsk, heard_ns: i64) -> Result<(), Refusal> {
    let Some(behind_ns) = ask.asked_ns.map(|asked| heard_ns.saturating_sub(asked)) else {
        return Ok(());
    };
    if behind_ns.saturating_abs() <= CLOCKS_MAX_NS {
        return Ok(());
    }
    let which = if behind_ns > 0 { "behind" } else { "ahead of" };
    let (span, me) = (span(behind_ns), &node.farm.node);
    Err(refusal(
        "clocks-apart",
        format!("this machine's clock is {span} {which} that of {me}; nothing was changed"),
        "set the clock that is wrong (`date` shows it; chrony keeps it right: apt-get install chrony), then join again",
    ))
}

fn name_is_free(node: &Node, ask: &JoinAsk) -> Result<(), Refusal> {
    let core = node.lock();
    let taken = match core.members.get(&ask.name) {
        None => ask.name == core.me,
        Some(m) if m.is_up() => true,
        // A node whose join failed after it was admitted tries again.
        Some(m) if is_again(ask, &m.known) => false,
        Some(m) => !m.known.seen_up && unix_now() < m.known.admitted + NAME_KEPT_S,
    };
    if !taken {
        return Ok(());
    }
    Err(refusal(
        "duplicate-name",
        format!(
            "the farm has a node named `{}` already; nothing was changed",
            ask.name
        ),
        "choose another name with --name, or run `armento leave` on the other one",
    ))
}

/// The same machine under the same name.
fn is_again(ask: &JoinAsk, known: &Member) -> bool {
    !ask.same_machine && ask.machine.is_some() && known.machine == ask.machine
}

/// A cloned image has the machine-id of its original, and most likely its other secrets.
fn machine_is_new(node: &Node, ask: &JoinAsk) -> Result<(), Refusal> {
    let Some(machine) = ask.machine.as_ref().filter(|_| !ask.same_machine) else {
        return Ok(());
    };
    let ours = node
        .credentials
        .keys
        .ca_sha256()
        .ok()
        .and_then(|ca| machine_hash(&ca));
    let core = node.lock();
    let of = |m: &Standing| m.known.machine.as_ref() == Some(machine) && m.known.name != ask.name;
    let other = match ours.as_ref() == Some(machine) {
        true => Some(core.me.clone()),
        false => core
            .members
            .iter()
            .find(|m| of(m))
            .map(|m| m.known.name.clone()),
    };
    let Some(other) = other else {
        return Ok(());
    };
    let me = &core.me;
    Err(refusal(
        "duplicate-machine",
        format!(
            "this machine has the machine-id of {other}, as a cloned image has; nothing was changed"
        ),
        format!(
            "give it its own: `rm /etc/machine-id; systemd-machine-id-setup`, then join again; where {other} is this machine under an earlier \
             name, `armento farm remove {other}` on {me}; where both are one machine on purpose, join with --same-machine"
        ),
    ))
}

/// True when the joiner was reached, false when it need not be.
fn is_reached(node: &Node, ask: &JoinAsk, from: Option<SocketAddr>) -> Result<bool, Refusal> {
    let Some(key) = &ask.way_back else {
        return Ok(false);
    };
    let (me, own_addr) = (&node.farm.node, node.addr());
    let addr = sockets::canonical(ask.addr);
    let local = from.is_some_and(|from| sockets::canonical(from).ip().is_loopback());
    let port = addr.port();
    if addr.ip().is_loopback() && !local {
        return Err(refusal(
            "not-reached",
            format!(
                "this node says that it is at {addr}, which is each machine's own loopback; nothing was changed"
            ),
            "give the address that the others reach with --address, or listen at one with --listen",
        ));
    }
    let no = |what: String, hint: String| {
        Err(refusal(
            "not-reached",
            format!("{what}; nothing was changed"),
            hint,
        ))
    };
    let open = format!(
        "let TCP and UDP of port {port} in through this node's firewall, or give the address that {me} reaches with --address; \
         --no-check joins all the same"
    );
    match probe(addr, key, own_addr) {
        Ok(()) => Ok(true),
        Err(Unreached::Tcp(why)) => no(
            format!("{me} cannot reach this node at {addr}/tcp: {why}"),
            open,
        ),
        Err(Unreached::Udp(why)) => no(
            format!("{me} cannot reach this node at {addr}/udp: {why}"),
            open,
        ),
        Err(Unreached::Told(why)) => no(
            format!("this node cannot reach {me} at {own_addr}, where it says that it is: {why}"),
            format!(
                "on {me}: write `address = \"ADDRESS\"`, one that the others reach, to its configuration and start its daemon again; --no-check joins all the same"
            ),
        ),
    }
}
