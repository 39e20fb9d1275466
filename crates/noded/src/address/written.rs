//! An address as a person writes it: `10.0.0.1`, `n1`, `n1.example.org:7117`, `fd00::1`, `[fd00::1]:7117`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Where a node listens, and where one is looked for, if no port is given.
pub const PORT: u16 = 7117;
/// RFC 1035, 2.3.4.
const NAME_MAX: usize = 253;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    Ip(IpAddr),
    Name(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub host: Host,
    /// If one was written.
    pub port: Option<u16>,
}

impl FromStr for Written {
    /// What is wrong with it.
    type Err = String;

    fn from_str(text: &str) -> Result<Written, String> {
        if let Ok(ip) = text.parse() {
            return Ok(Written::ip(ip, None));
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (ip, rest) = rest.split_once(']').ok_or("it has a [ without ]")?;
                let ip = zone_free(ip)?
                    .parse()
                    .map_err(|_| format!("`{ip}` is no IPv6 address"))?;
                let port = match rest.strip_prefix(':') {
                    Some(port) => Some(number(port)?),
                    None if rest.is_empty() => None,
                    None => return Err("behind ] a port is written :7117".into()),
                };
                return Ok(Written::ip(IpAddr::V6(ip), port));
            }
            None => match zone_free(text)?.split_once(':') {
                None => (text, None),
                Some((_, rest)) if rest.contains(':') => {
                    return Err("an IPv6 address with a port is written [fd00::1]:7117".into());
                }
                Some((host, port)) => (host, Some(number(port)?)),
            },
        };
        if let Ok(ip) = host.parse() {
            return Ok(Written::ip(ip, port));
        }
        is_name(host)?;
        Ok(Written {
            host: Host::Name(host.to_ascii_lowercase()),
            port,
        })
    }
}

impl Written {
    pub fn is_name(&self) -> bool {
        matches!(self.host, Host::Name(_))
    }

    fn ip(ip: IpAddr, port: Option<u16>) -> Written {
        let host = Host::Ip(ip.to_canonical());
        Written { host, port }
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.host, self.port) {
            (Host::Ip(IpAddr::V6(ip)), Some(port)) => write!(f, "[{ip}]:{port}"),
            (Host::Ip(ip), Some(port)) => write!(f, "{ip}:{port}"),
            (Host::Name(name), Some(port)) => write!(f, "{name}:{port}"),
            (Host::Ip(ip), None) => write!(f, "{ip}"),
            (Host::Name(name), None) => f.write_str(name),
        }
    }
}

fn number(port: &str) -> Result<u16, String> {
    port.parse()
        .map_err(|_| format!("`{port}` is no port: those are numbers up to 65535"))
}

/// KERNEL: ipv6(7), sin6_scope_id: the zone of fe80::1%eth0 is a number of this machine's own.
fn zone_free(text: &str) -> Result<&str, String> {
    match text.contains('%') {
        true => Err("an address of one link (fe80::…%interface) means nothing to the other nodes: give a global one".into()),
        false => Ok(text),
    }
}

/// RFC 1123, 2.1, and the underscore, which the system's resolver takes.
fn is_name(text: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let good = (1..=NAME_MAX).contains(&text.len())
        && text.chars().all(plain)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    // Four numbers that are no address are a slip, not a name.
    let numbers = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    match good && !numbers {
        true => Ok(()),
        false => Err("this is neither an address nor a host's name".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_read() {
        let check = |text: &str, want: &str| {
            let got = text.parse::<Written>().map(|w| w.to_string());
            assert_eq!(got.as_deref(), Ok(want), "{text}");
        };
        check("10.0.0.1", "10.0.0.1");
        check("10.0.0.1:99", "10.0.0.1:99");
        check("n1", "n1");
        check("N1.Example.org:1", "n1.example.org:1");
        check("n_1:0", "n_1:0");
        check("fd00::1", "fd00::1");
        check("[fd00::1]", "fd00::1");
        check("[fd00::1]:99", "[fd00::1]:99");
        check("::", "::");
        check("::ffff:10.0.0.1", "10.0.0.1");
    }

    #[test]
    fn slips_are_explained() {
        let check = |text: &str, part: &str| {
            let e = text.parse::<Written>().expect_err(text);
            assert!(e.contains(part), "{text}: {e}");
        };
        check("", "neither");
        check("n 1", "neither");
        check("-n", "neither");
        check("10.0.0", "neither");
        check("10.0.0.256", "neither");
        check("n1:http", "no port");
        check("n1:65536", "no port");
        check("n1:", "no port");
        check("fd00::1:99:", "[fd00::1]:7117");
        check("[fd00::1", "without ]");
        check("[fd00::1]7117", "behind ]");
        check("[n1]:7117", "no IPv6");
        check("fe80::1%eth0", "of one link");
        check("[fe80::1%eth0]:7117", "of one link");
    }
}
