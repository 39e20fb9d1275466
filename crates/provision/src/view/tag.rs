//! The tag at the end of a name.

use ipnet::IpNet;
use std::net::IpAddr;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// By the inventory, never by reverse DNS; none for a stranger.
    pub name: Option<String>,
    pub address: IpAddr,
}

/// A tag, from the strongest to the weakest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tag {
    /// `$$$$`: the plain file, whatever tags there are.
    Base,
    /// `$$IP=a.b.c.d$$`
    Address(IpAddr),
    /// `$$IP=a.b.c.d_n$$`
    Net(IpNet),
    /// `$$HOST=name$$`
    Host(String),
    /// `$$HOST=name*$$`
    HostPrefix(String),
    /// `$$CLIENT$$`
    AnyClient,
    /// `$$ALWAYS=IP$$`
    AlwaysAddress,
    /// `$$ALWAYS=CLIENT$$`
    AlwaysClient,
    /// `$$CREATE=IP$$`
    CreateAddress,
    /// `$$CREATE=CLIENT$$`
    CreateClient,
}

impl Tag {
    /// As it stands at the end of a name.
    pub fn suffix(&self) -> String {
        match self {
            Tag::Base => "$$$$".into(),
            Tag::Address(a) => format!("$$IP={a}$$"),
            Tag::Net(n) => format!("$$IP={}_{}$$", n.addr(), n.prefix_len()),
            Tag::Host(h) => format!("$$HOST={h}$$"),
            Tag::HostPrefix(h) => format!("$$HOST={h}*$$"),
            Tag::AnyClient => "$$CLIENT$$".into(),
            Tag::AlwaysAddress => "$$ALWAYS=IP$$".into(),
            Tag::AlwaysClient => "$$ALWAYS=CLIENT$$".into(),
            Tag::CreateAddress => "$$CREATE=IP$$".into(),
            Tag::CreateClient => "$$CREATE=CLIENT$$".into(),
        }
    }

    /// Whether this tag gives its file to the client.
    pub fn is_for(&self, client: &Client) -> bool {
        let name = client
            .name
            .as_deref()
            .map(|n| n.split('.').next().unwrap_or(n));
        match self {
            Tag::Address(a) => *a == client.address,
            Tag::Net(n) => n.contains(&client.address),
            Tag::Host(h) => name == Some(h.as_str()),
            Tag::HostPrefix(h) => name.is_some_and(|n| n.starts_with(h.as_str())),
            Tag::AnyClient => true,
            _ => false,
        }
    }

    /// Smaller is stronger. Within nets and prefixes the longer one is.
    pub(super) fn rank(&self) -> (u8, usize) {
        match self {
            Tag::Base => (0, 0),
            Tag::Address(_) => (1, 0),
            Tag::Net(n) => (2, 128 - usize::from(n.prefix_len())),
            Tag::Host(_) => (3, 0),
            Tag::HostPrefix(h) => (4, usize::MAX - h.len()),
            Tag::AnyClient => (5, 0),
            Tag::AlwaysAddress | Tag::CreateAddress => (6, 0),
            Tag::AlwaysClient | Tag::CreateClient => (6, 1),
        }
    }
}

/// A name without its tag, and the tag. A suffix between `$$` that is no tag is part of the name, as any text is.
pub fn split(name: &str) -> (&str, Option<Tag>) {
    if let Some(base) = name.strip_suffix("$$$$").filter(|b| !b.is_empty()) {
        return (base, Some(Tag::Base));
    }
    let found = name.strip_suffix("$$").and_then(|inner| {
        let at = inner.rfind("$$")?;
        Some((&name[..at], read(&inner[at + 2..])?))
    });
    match found {
        Some((base, tag)) => (base, Some(tag)),
        None => (name, None),
    }
}

fn read(text: &str) -> Option<Tag> {
    let tag = match text.split_once('=') {
        None if text == "CLIENT" => Tag::AnyClient,
        Some(("ALWAYS", "IP")) => Tag::AlwaysAddress,
        Some(("ALWAYS", "CLIENT")) => Tag::AlwaysClient,
        Some(("CREATE", "IP")) => Tag::CreateAddress,
        Some(("CREATE", "CLIENT")) => Tag::CreateClient,
        Some(("HOST", host)) => match host.strip_suffix('*') {
            Some(prefix) => Tag::HostPrefix(prefix.to_owned()),
            None if host.is_empty() => return None,
            None => Tag::Host(host.to_owned()),
        },
        Some(("IP", net)) => match net.split_once('_') {
            Some((addr, len)) => Tag::Net(IpNet::new(addr.parse().ok()?, len.parse().ok()?).ok()?),
            None => Tag::Address(net.parse().ok()?),
        },
        _ => return None,
    };
    Some(tag)
}
