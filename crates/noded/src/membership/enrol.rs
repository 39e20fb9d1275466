//! Making a farm and joining one: what `armento farm init`, `farm invite` and `join` do.

use super::place::Place;
use super::tokens::{self, Invitation};
use crate::clock::{APART_MAX_NS, Offset, measure, realtime_ns, span, unix_now};
use crate::config::{Config, Wire};
use crate::error::FarmError;
use crate::joining::{JoinListener, dial_member, machine_hash};
use crate::peer::{self, JoinAsk, PeerAnswer, PeerAsk};
use crate::revocation::Revocation;
use crate::state_dir::{Farm, Member, StateDir};
use crate::version::VERSION;
use armento_client::hex::hex;
use armento_link::{FarmKeys, NodeKeys, Token, random_hex};
use armento_model::{ENGINE_VERSION, NodeName};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A token's life, unless another is given.
pub const TOKEN_TTL: Duration = Duration::from_secs(24 * 3600);
/// … and how many nodes it admits.
pub const TOKEN_USES: u32 = 100;
/// Time for the member's answer: it tries to reach this node meanwhile (`joining/reach.rs`).
const JOIN: Duration = Duration::from_secs(30);

pub struct InitOptions {
    pub listen: Option<String>,
    /// Where others reach this node, if not where it listens.
    pub address: Option<String>,
    pub wire: Wire,
    pub name: Option<String>,
}

pub struct JoinOptions {
    pub token: String,
    pub addr: String,
    pub listen: Option<String>,
    pub address: Option<String>,
    pub name: Option<String>,
    /// The member is to reach this node before it is admitted.
    pub check: bool,
    /// Another node of the farm may have the same machine-id.
    pub same_machine: bool,
}

/// A node that has become a member.
pub struct Enrolled {
    pub node: NodeName,
    pub addr: SocketAddr,
    pub farm: String,
    /// With which others join; only from `init`.
    pub token: Option<Token>,
    /// False: the member is too old to try whether it reaches this node.
    pub checked: bool,
    /// A notice about the clocks.
    pub clock: Option<String>,
}

/// What `init` and `join` would do.
pub struct Planned {
    pub node: NodeName,
    pub addr: SocketAddr,
    pub state: PathBuf,
    /// Where the member answered, if one was asked.
    pub member: Option<SocketAddr>,
}

/// Checks what `init` checks; changes nothing.
pub fn plan_init(config: &Config, options: &InitOptions) -> Result<Planned, FarmError> {
    let (dir, node, place) = prepare(config, &options.name, &options.listen, &options.address)?;
    let (addr, _) = place.advertised(None)?;
    Ok(Planned {
        node,
        addr,
        state: dir.path().to_owned(),
        member: None,
    })
}

/// Checks what `join` checks before it asks to be admitted, the member among it; changes nothing, here or there.
pub fn plan_join(config: &Config, options: &JoinOptions) -> Result<Planned, FarmError> {
    let token: Token = options.token.parse()?;
    let (dir, node, place) = prepare(config, &options.name, &options.listen, &options.address)?;
    let (duplex, member, _) = dial_member(&options.addr, &token)?;
    let local = duplex.socket().local_addr().ok();
    let (addr, _) = place.advertised(local.map(|a| a.ip()))?;
    Ok(Planned {
        node,
        addr,
        state: dir.path().to_owned(),
        member: Some(member),
    })
}

/// Whether `new_token` would make one, and for which farm.
pub fn plan_token(config: &Config) -> Result<String, FarmError> {
    let dir = StateDir::new(config.state_dir());
    let farm = dir.farm()?;
    dir.farm_keys()?;
    Ok(farm.farm)
}

/// What making a farm and joining one begin with: this node is in none, has a name, and its port is free.
fn prepare(
    config: &Config,
    name: &Option<String>,
    listen: &Option<String>,
    address: &Option<String>,
) -> Result<(StateDir, NodeName, Place), FarmError> {
    let dir = StateDir::new(config.state_dir());
    refuse_member(&dir)?;
    let node = choose_name(name.as_deref(), config)?;
    let place = Place::choose(listen.as_deref(), address.as_deref(), config)?;
    place.is_free()?;
    Ok((dir, node, place))
}

/// Makes a farm whose first node is this one.
pub fn init(config: &Config, options: &InitOptions) -> Result<Enrolled, FarmError> {
    let (dir, node, place) = prepare(config, &options.name, &options.listen, &options.address)?;
    let (addr, found) = place.advertised(None)?;
    let ca = FarmKeys::create().map_err(FarmError::Keys)?;
    let keys = ca.first_node(&node).map_err(FarmError::Keys)?;
    let hash = keys.ca_sha256().map_err(FarmError::Keys)?;
    let token = Token::fresh(hash);
    let farm = Farm {
        node: node.clone(),
        farm: farm_name(&token),
        wire: options.wire,
        listen: place.listen,
        addr,
        secret: random_hex(32),
        admits: true,
        boot: 0,
        found,
        listen_name: place.name,
    };
    dir.create()?;
    tokens::add(&dir, &token, TOKEN_TTL, TOKEN_USES)?;
    let me = Member {
        name: node.clone(),
        addr,
        admitted: unix_now(),
        seen_up: false,
        machine: None,
    };
    let serial = armento_link::serial_of(&keys.cert_pem).map_err(FarmError::Keys)?;
    dir.note_issued(&node, hex(&serial))?;
    dir.enrol(&farm, &keys, Some(&ca), &[me])?;
    Ok(Enrolled {
        node,
        addr,
        farm: farm.farm,
        token: Some(token),
        checked: true,
        clock: None,
    })
}

/// A new token of the farm whose key this node holds, and the address to join at.
pub fn new_token(
    config: &Config,
    ttl: Duration,
    uses: u32,
) -> Result<(Token, SocketAddr), FarmError> {
    let dir = StateDir::new(config.state_dir());
    let farm = dir.farm()?;
    dir.farm_keys()?;
    let keys = dir.keys(&farm)?;
    let token = Token::fresh(keys.ca_sha256().map_err(FarmError::Keys)?);
    tokens::add(&dir, &token, ttl, uses)?;
    Ok((token, farm.addr))
}

/// The tokens of the farm whose key this node holds.
pub fn invitations(config: &Config) -> Result<Vec<Invitation>, FarmError> {
    let dir = StateDir::new(config.state_dir());
    dir.farm()?;
    dir.farm_keys()?;
    tokens::list(&dir)
}

/// Makes the token with this id invalid; `Ok(false)`: there is none.
pub fn withdraw(config: &Config, id: &str) -> Result<bool, FarmError> {
    let dir = StateDir::new(config.state_dir());
    dir.farm()?;
    dir.farm_keys()?;
    tokens::withdraw(&dir, id)
}

/// Joins the farm of `options.token` through the member at `options.addr`. The secret is sent only
/// to a daemon whose certificate comes from the CA that the token names. After `Err` nothing was changed, here or there.
pub fn join(config: &Config, options: &JoinOptions) -> Result<Enrolled, FarmError> {
    refuse_member(&StateDir::new(config.state_dir()))?;
    let token: Token = options.token.parse()?;
    let (dir, node, place) = prepare(config, &options.name, &options.listen, &options.address)?;
    // A directory that cannot be written is told before the farm knows of this node.
    dir.try_write()?;
    let (duplex, member, ca_der) = dial_member(&options.addr, &token)?;
    let local = duplex.socket().local_addr().ok();
    let (addr, found) = place.advertised(local.map(|a| a.ip()))?;
    let listener = match options.check {
        true => {
            Some(JoinListener::open(place.listen, &token, member).map_err(|e| place.refused(&e))?)
        }
        false => None,
    };
    let request = NodeKeys::request(&node).map_err(FarmError::Keys)?;
    let asked_ns = realtime_ns();
    let ask = PeerAsk::Join(JoinAsk {
        token: token.id.clone(),
        secret: token.secret.clone(),
        version: VERSION.into(),
        engine: ENGINE_VERSION,
        name: node.clone(),
        csr_pem: request.csr_pem,
        addr,
        machine: machine_hash(&token.ca_sha256),
        same_machine: options.same_machine,
        asked_ns: Some(asked_ns),
        way_back: listener.as_ref().map(|listener| listener.key.clone()),
    });
    let unreachable = |cause: String| FarmError::Unreachable {
        addr: options.addr.clone(),
        cause,
        hint:
            "see the daemon's log there; `armento nodes` there shows whether this node was admitted"
                .into(),
    };
    let answer = peer::talk(duplex, &ask, JOIN).map_err(|e| match e {
        peer::CallError::Refused(r) => FarmError::Refused(r),
        other => unreachable(other.to_string()),
    })?;
    let heard_ns = realtime_ns();
    drop(listener);
    let PeerAnswer::Joined(joined) = answer else {
        return Err(unreachable("its answer was not understood".into()));
    };
    let keys = NodeKeys {
        node: node.clone(),
        ca_pem: joined.ca_pem,
        cert_pem: joined.node_pem,
        key_pem: request.key_pem,
    };
    // The answer came over the checked link; the CA in it must be the checked one nevertheless.
    if keys.ca_sha256().map_err(FarmError::Keys)? != armento_link::ca_hash(&ca_der) {
        return Err(FarmError::Foreign {
            addr: options.addr.clone(),
            why: "it answered with another farm's certificate".into(),
        });
    }
    let farm = Farm {
        node: node.clone(),
        farm: farm_name(&token),
        wire: joined.wire,
        listen: place.listen,
        addr,
        secret: joined.secret,
        admits: false,
        boot: 0,
        found,
        listen_name: place.name,
    };
    if let Some(said) = joined.news.filter(|s| s.statement(&keys.ca_pem).is_some()) {
        dir.create()?;
        Revocation::write(&said, &dir)?;
    }
    dir.enrol(&farm, &keys, None, &joined.seeds)?;
    let clocks = joined
        .moments
        .map(|there| measure(asked_ns, there, heard_ns));
    Ok(Enrolled {
        node,
        addr,
        farm: farm.farm,
        token: None,
        checked: joined.checked || !options.check,
        clock: clocks
            .filter(|o| o.apart_ns() > APART_MAX_NS)
            .map(clock_told),
    })
}

/// The notice about clocks that are too far apart for moves.
fn clock_told(there: Offset) -> String {
    let which = if there.ahead_ns > 0 {
        "behind"
    } else {
        "ahead of"
    };
    format!(
        "this machine's clock is {} {which} the farm's, and programs move only between nodes whose clocks agree within {} ms",
        span(there.ahead_ns),
        APART_MAX_NS / 1_000_000
    )
}

fn farm_name(token: &Token) -> String {
    let hex = |b: &u8| format!("{b:02x}");
    token.ca_sha256[..8].iter().map(hex).collect()
}

fn refuse_member(dir: &StateDir) -> Result<(), FarmError> {
    match dir.farm() {
        Ok(farm) => Err(FarmError::AlreadyJoined(farm.node)),
        Err(FarmError::NotJoined(_)) => Ok(()),
        Err(e) => Err(e),
    }
}

/// `--name`, `name =`, or the first label of the host's name.
fn choose_name(given: Option<&str>, config: &Config) -> Result<NodeName, FarmError> {
    if let Some(name) = given {
        return Ok(name.parse()?);
    }
    if let Some(name) = &config.name {
        return Ok(name.clone());
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_err(FarmError::state("cannot read this host's name"))?;
    let label = host.trim().split('.').next().unwrap_or_default();
    Ok(label.to_ascii_lowercase().parse()?)
}
