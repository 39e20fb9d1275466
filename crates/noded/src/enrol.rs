//! Making a farm and joining one: what `armento farm init`, `farm token` and `join` do.

use crate::error::FarmError;
use crate::news::{self, News};
use crate::peer::{self, JoinAsk, PeerAnswer, PeerAsk};
use crate::state::{Farm, Member, StateDir};
use crate::tokens::{self, unix_now};
use crate::{Config, Wire};
use armento_link::{FarmKeys, LinkError, NodeKeys, Token, random_hex};
use armento_model::{ENGINE_VERSION, NodeName};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

/// Where a node listens if nobody says otherwise.
const LISTEN: &str = "0.0.0.0:7117";
/// A token's life if nobody says otherwise.
pub const TOKEN_TTL: Duration = Duration::from_secs(24 * 3600);
/// … and how many nodes it admits.
pub const TOKEN_USES: u32 = 100;
/// Time for the whole of a join.
const JOIN: Duration = Duration::from_secs(20);

pub struct InitOptions {
    pub listen: Option<String>,
    pub wire: Wire,
    pub name: Option<String>,
}

pub struct JoinOptions {
    pub token: String,
    pub addr: String,
    pub listen: Option<String>,
    pub name: Option<String>,
}

/// A node that has become a member.
pub struct Enrolled {
    pub node: NodeName,
    pub addr: SocketAddr,
    pub farm: String,
    /// With which others join; only from `init`.
    pub token: Option<Token>,
}

/// Makes a farm whose first node is this one.
pub fn init(config: &Config, options: &InitOptions) -> Result<Enrolled, FarmError> {
    let dir = StateDir::new(config.state_dir());
    refuse_member(&dir)?;
    let node = choose_name(options.name.as_deref(), config)?;
    let listen = choose_listen(options.listen.as_deref(), config)?;
    let addr = SocketAddr::new(reachable(listen.ip(), None), listen.port());
    let ca = FarmKeys::create().map_err(FarmError::Keys)?;
    let keys = ca.first_node(&node).map_err(FarmError::Keys)?;
    let hash = keys.ca_sha256().map_err(FarmError::Keys)?;
    let token = Token::fresh(hash);
    let farm = Farm {
        node: node.clone(),
        farm: farm_name(&token),
        wire: options.wire,
        listen,
        addr,
        secret: random_hex(32),
        admits: true,
        boot: 0,
    };
    dir.create()?;
    tokens::add(&dir, &token, TOKEN_TTL, TOKEN_USES)?;
    let me = Member {
        name: node.clone(),
        addr,
        admitted: unix_now(),
        heard: false,
    };
    let serial = armento_link::serial_of(&keys.cert_pem).map_err(FarmError::Keys)?;
    dir.note_issued(&node, news::hex(&serial))?;
    dir.enrol(&farm, &keys, Some(&ca), &[me])?;
    Ok(Enrolled {
        node,
        addr,
        farm: farm.farm,
        token: Some(token),
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
/// to a daemon whose certificate comes from the CA that the token names.
pub fn join(config: &Config, options: &JoinOptions) -> Result<Enrolled, FarmError> {
    let dir = StateDir::new(config.state_dir());
    refuse_member(&dir)?;
    let token: Token = options.token.parse()?;
    let node = choose_name(options.name.as_deref(), config)?;
    let listen = choose_listen(options.listen.as_deref(), config)?;
    let (duplex, _, ca_der) = armento_link::dial_unknown(&options.addr, token.ca_sha256, JOIN)
        .map_err(|e| stranger(&options.addr, e))?;
    let local = duplex.socket().local_addr().ok();
    let addr = SocketAddr::new(reachable(listen.ip(), local), listen.port());
    let request = NodeKeys::request(&node).map_err(FarmError::Keys)?;
    let ask = PeerAsk::Join(JoinAsk {
        token: token.id.clone(),
        secret: token.secret.clone(),
        version: crate::daemon::VERSION.into(),
        engine: ENGINE_VERSION,
        name: node.clone(),
        csr_pem: request.csr_pem,
        addr,
    });
    let answer = peer::talk(duplex, &ask, JOIN).map_err(|e| match e {
        peer::CallError::Refused(r) => FarmError::Refused(r),
        other => FarmError::Unreachable {
            addr: options.addr.clone(),
            cause: other.to_string(),
        },
    })?;
    let PeerAnswer::Joined(joined) = answer else {
        return Err(FarmError::Unreachable {
            addr: options.addr.clone(),
            cause: "its answer was not understood".into(),
        });
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
        listen,
        addr,
        secret: joined.secret,
        admits: false,
        boot: 0,
    };
    if let Some(said) = joined.news.filter(|s| s.word(&keys.ca_pem).is_some()) {
        dir.create()?;
        News::write(&said, &dir)?;
    }
    dir.enrol(&farm, &keys, None, &joined.seeds)?;
    Ok(Enrolled {
        node,
        addr,
        farm: farm.farm,
        token: None,
    })
}

fn stranger(addr: &str, e: LinkError) -> FarmError {
    let addr = addr.to_owned();
    match e {
        LinkError::Refused(why) => FarmError::Foreign { addr, why },
        LinkError::Keys(_) | LinkError::Closed => FarmError::Keys(e),
        LinkError::Io(cause) => FarmError::Unreachable {
            addr,
            cause: cause.to_string(),
        },
    }
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

/// `--listen`, `listen =`, or the default. Port 0 becomes a free one here and now, because others
/// are told and a restart must find it again.
fn choose_listen(given: Option<&str>, config: &Config) -> Result<SocketAddr, FarmError> {
    let text = given.or(config.listen.as_deref()).unwrap_or(LISTEN);
    let bad = |cause: String| FarmError::Listen {
        addr: text.to_owned(),
        cause,
    };
    let mut listen: SocketAddr = text
        .parse()
        .map_err(|_| bad("an address is written as ip:port".into()))?;
    if listen.port() == 0 {
        listen.set_port(free_port(listen.ip()).ok_or_else(|| bad("no port is free".into()))?);
    }
    Ok(listen)
}

/// A port free for TCP and UDP, below the kernel's own range for outgoing connections
/// (KERNEL: ip_local_port_range begins at 32768), so that none of those takes it later.
fn free_port(ip: IpAddr) -> Option<u16> {
    (0..100).find_map(|_| {
        let dice = u16::from_str_radix(&random_hex(2), 16).ok()?;
        let port = 10_240 + dice % 20_000;
        let both = TcpListener::bind((ip, port)).and_then(|_| UdpSocket::bind((ip, port)));
        both.ok().map(|_| port)
    })
}

/// The address others use for one who listens on `listen`: itself, or the one that `seen` used, or
/// that of the default route.
fn reachable(listen: IpAddr, seen: Option<SocketAddr>) -> IpAddr {
    if !listen.is_unspecified() {
        return listen;
    }
    seen.map(|a| a.ip())
        .or_else(default_ip)
        .unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Connecting a datagram socket chooses our address and sends nothing. 192.0.2.1 is RFC 5737's.
fn default_ip() -> Option<IpAddr> {
    let sock = UdpSocket::bind("0.0.0.0:0").ok()?;
    sock.connect("192.0.2.1:9").ok()?;
    Some(sock.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
}
