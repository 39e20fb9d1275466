//! Making a farm and joining one: what `armento farm init`, `farm token` and `join` do.

use crate::address::{self, Choice, Written};
use crate::clocks;
use crate::error::FarmError;
use crate::joining::way_back::Door;
use crate::joining::{machine, offset, reach};
use crate::news::{self, News};
use crate::peer::{self, JoinAsk, PeerAnswer, PeerAsk};
use crate::state::{Farm, Member, StateDir};
use crate::tokens::{self, unix_now};
use crate::{Config, Wire};
use armento_link::{FarmKeys, NodeKeys, Token, random_hex, sockets};
use armento_model::{ENGINE_VERSION, NodeName};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// A token's life if nobody says otherwise.
pub const TOKEN_TTL: Duration = Duration::from_secs(24 * 3600);
/// … and how many nodes it admits.
pub const TOKEN_USES: u32 = 100;
/// Time for the member's answer: it tries to reach this node meanwhile (`joining/way_back.rs`).
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
    /// What is to be said of the clocks.
    pub clock: Option<String>,
}

/// Makes a farm whose first node is this one.
pub fn init(config: &Config, options: &InitOptions) -> Result<Enrolled, FarmError> {
    let dir = StateDir::new(config.state_dir());
    refuse_member(&dir)?;
    let node = choose_name(options.name.as_deref(), config)?;
    let place = Place::choose(
        options.listen.as_deref(),
        options.address.as_deref(),
        config,
    )?;
    place.is_free()?;
    let (addr, found) = place.told(None)?;
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
        heard: false,
        machine: None,
    };
    let serial = armento_link::serial_of(&keys.cert_pem).map_err(FarmError::Keys)?;
    dir.note_issued(&node, news::hex(&serial))?;
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

/// Joins the farm of `options.token` through the member at `options.addr`. The secret is sent only
/// to a daemon whose certificate comes from the CA that the token names. After `Err` nothing was changed, here or there.
pub fn join(config: &Config, options: &JoinOptions) -> Result<Enrolled, FarmError> {
    let dir = StateDir::new(config.state_dir());
    refuse_member(&dir)?;
    let token: Token = options.token.parse()?;
    let node = choose_name(options.name.as_deref(), config)?;
    let place = Place::choose(
        options.listen.as_deref(),
        options.address.as_deref(),
        config,
    )?;
    place.is_free()?;
    // A directory that cannot be written is told before the farm knows of this node.
    dir.try_write()?;
    let (duplex, member, ca_der) = reach::member(&options.addr, &token)?;
    let local = duplex.socket().local_addr().ok();
    let (addr, found) = place.told(local.map(|a| a.ip()))?;
    let door = match options.check {
        true => Some(Door::open(place.listen, &token, member).map_err(|e| place.refused(&e))?),
        false => None,
    };
    let request = NodeKeys::request(&node).map_err(FarmError::Keys)?;
    let asked_ns = clocks::realtime_ns();
    let ask = PeerAsk::Join(JoinAsk {
        token: token.id.clone(),
        secret: token.secret.clone(),
        version: crate::daemon::VERSION.into(),
        engine: ENGINE_VERSION,
        name: node.clone(),
        csr_pem: request.csr_pem,
        addr,
        machine: machine::of_farm(&token.ca_sha256),
        same_machine: options.same_machine,
        asked_ns: Some(asked_ns),
        way_back: door.as_ref().map(|door| door.key.clone()),
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
    let heard_ns = clocks::realtime_ns();
    drop(door);
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
    if let Some(said) = joined.news.filter(|s| s.word(&keys.ca_pem).is_some()) {
        dir.create()?;
        News::write(&said, &dir)?;
    }
    dir.enrol(&farm, &keys, None, &joined.seeds)?;
    let offset = joined
        .moments
        .map(|there| offset::offset(asked_ns, there, heard_ns));
    Ok(Enrolled {
        node,
        addr,
        farm: farm.farm,
        token: None,
        checked: joined.checked || !options.check,
        clock: offset
            .filter(|o| o.apart_ns() > clocks::APART_MAX_NS)
            .map(clock_told),
    })
}

/// Said of clocks with which nothing moves.
fn clock_told(there: offset::Offset) -> String {
    let which = if there.ahead_ns > 0 {
        "behind"
    } else {
        "ahead of"
    };
    format!(
        "this machine's clock is {} {which} the farm's, and programs move only between nodes whose clocks agree within {} ms",
        offset::span(there.ahead_ns),
        clocks::APART_MAX_NS / 1_000_000
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

/// Where a node listens, and where it says that it is.
struct Place {
    listen: SocketAddr,
    /// The name that was given for it.
    name: Option<String>,
    /// What was given for the address that others are told.
    address: Option<String>,
}

impl Place {
    /// `--listen`, `listen =`, or the default. Port 0 becomes a free one here and now, because others
    /// are told and a restart must find it again.
    fn choose(
        listen: Option<&str>,
        address: Option<&str>,
        config: &Config,
    ) -> Result<Place, FarmError> {
        let given = listen.or(config.listen.as_deref());
        let mut listen = match given {
            Some(text) => address::listen_at(text)?,
            None => default_listen(),
        };
        if listen.port() == 0 {
            let port = free_port(listen.ip()).ok_or_else(|| FarmError::Listen {
                addr: listen.to_string(),
                cause: "no port is free, or this machine has not that address".into(),
                hint: OTHER_LISTEN.into(),
            })?;
            listen.set_port(port);
        }
        let is_name = |text: &&str| text.parse::<Written>().is_ok_and(|w| w.is_name());
        Ok(Place {
            listen,
            name: given.filter(is_name).map(str::to_owned),
            address: address.or(config.address.as_deref()).map(str::to_owned),
        })
    }

    /// Refuses a port in use and an address that this machine has not.
    fn is_free(&self) -> Result<(), FarmError> {
        sockets::listen_tcp(self.listen, false)
            .and_then(|_| sockets::bind_udp(self.listen, false))
            .map(drop)
            .map_err(|e| self.refused(&e))
    }

    fn refused(&self, e: &std::io::Error) -> FarmError {
        listen_refused(self.listen, e)
    }

    /// The address others use: the given one, the one of listening, `seen` by a member, or the one that is found; and
    /// whether it was found.
    fn told(&self, seen: Option<IpAddr>) -> Result<(SocketAddr, bool), FarmError> {
        let port = self.listen.port();
        if let Some(text) = &self.address {
            return Ok((address::told_as(text, port)?, false));
        }
        if !self.listen.ip().is_unspecified() {
            return Ok((self.listen, false));
        }
        if let Some(seen) = seen {
            return Ok((SocketAddr::new(seen.to_canonical(), port), true));
        }
        match address::choose(self.listen.is_ipv6()) {
            Choice::One(ip) => Ok((SocketAddr::new(ip, port), true)),
            Choice::Several(all) => Err(FarmError::Choose(all)),
            Choice::None => Err(FarmError::NoAddress),
        }
    }
}

const OTHER_LISTEN: &str = "choose another address with --listen or `listen =`";

/// Why nothing listens at `listen`, and what to do.
pub(crate) fn listen_refused(listen: SocketAddr, e: &std::io::Error) -> FarmError {
    let port = listen.port();
    let (cause, hint) = match e.kind() {
        ErrorKind::AddrInUse => (
            "the port is in use".to_owned(),
            format!(
                "`ss -lntup sport = :{port}` shows by which program: end that, or give another port with --listen or `listen =`"
            ),
        ),
        ErrorKind::AddrNotAvailable => (
            "no interface of this machine has that address".to_owned(),
            format!(
                "give one that it has ({}) or none; behind NAT the address that others reach is --address",
                address::outer_list()
            ),
        ),
        _ => (e.to_string(), OTHER_LISTEN.into()),
    };
    FarmError::Listen {
        addr: listen.to_string(),
        cause,
        hint,
    }
}

/// Both families where this machine has them.
fn default_listen() -> SocketAddr {
    let ip = match sockets::has_ipv6() {
        true => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        false => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    SocketAddr::new(ip, address::PORT)
}

/// A port free for TCP and UDP, below the kernel's own range for outgoing connections
/// (KERNEL: ip_local_port_range begins at 32768), so that none of those takes it later.
fn free_port(ip: IpAddr) -> Option<u16> {
    (0..100).find_map(|_| {
        let dice = u16::from_str_radix(&random_hex(2), 16).ok()?;
        let at = SocketAddr::new(ip, 10_240 + dice % 20_000);
        let both = sockets::listen_tcp(at, false).and_then(|_| sockets::bind_udp(at, false));
        both.ok().map(|_| at.port())
    })
}
