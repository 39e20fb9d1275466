//! What a name means here. getent(1) asks what nsswitch.conf(5) names with the system's own libraries: this program is
//! linked statically and must load none of them.

use super::interfaces::{has, own};
use super::written::{Host, PORT, Written};
use crate::error::{FarmError, refusal};
use armento_client::api::Refusal;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// resolv.conf(5): two tries of five seconds, by default.
const LOOKUP: Duration = Duration::from_secs(12);
const LOOK: Duration = Duration::from_millis(5);
/// Addresses of one name.
const ADDRESSES_MAX: usize = 16;
/// Bytes of getent's answer; more than so many addresses take.
const ANSWER_MAX: u64 = 16 << 10;

/// The addresses of `text`, which is an address or a name with or without a port; never none.
pub fn lookup(text: &str) -> Result<Vec<SocketAddr>, FarmError> {
    let written = read(text)?;
    let ips = match &written.host {
        Host::Ip(ip) => vec![*ip],
        Host::Name(name) => resolve(name).map_err(|why| unknown(name, &why))?,
    };
    let at = |ip| SocketAddr::new(ip, written.port.unwrap_or(PORT));
    Ok(ips.into_iter().map(at).collect())
}

fn read(text: &str) -> Result<Written, FarmError> {
    text.parse().map_err(|why| FarmError::Written {
        text: text.to_owned(),
        why,
    })
}

fn unknown(name: &str, why: &str) -> FarmError {
    FarmError::Refused(refusal(
        "unknown-host",
        format!("`{name}` has no address: {why}; nothing was changed"),
        format!("`getent ahosts {name}` must find it: write it to /etc/hosts, or give an address"),
    ))
}

/// The addresses of a name, each once, in the system's order.
fn resolve(name: &str) -> Result<Vec<IpAddr>, String> {
    let until = Instant::now() + LOOKUP;
    // Without -A the system leaves out families of which no interface has an address yet.
    for options in [&[][..], &["-A"][..]] {
        let said = getent(options, name, until)?;
        let mut ips = Vec::new();
        for line in said.lines() {
            let word = line.split_whitespace().next().unwrap_or_default();
            if let Ok(ip) = word.parse::<IpAddr>()
                && !ips.contains(&ip.to_canonical())
                && ips.len() < ADDRESSES_MAX
            {
                ips.push(ip.to_canonical());
            }
        }
        if !ips.is_empty() {
            return Ok(ips);
        }
    }
    Err("neither /etc/hosts nor the name servers of this machine know it".into())
}

/// Its standard output; empty when it found nothing.
fn getent(options: &[&str], name: &str, until: Instant) -> Result<String, String> {
    let mut child = Command::new("getent")
        .args(options)
        .args(["ahosts", "--", name])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => {
                "this machine has no getent to ask (package libc-bin)".into()
            }
            _ => format!("getent cannot be run: {e}"),
        })?;
    let ended = loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < until => thread::sleep(LOOK),
            Ok(None) => break Err("the name servers did not answer in time".to_owned()),
            Ok(Some(_)) => break Ok(()),
            Err(e) => break Err(e.to_string()),
        }
    };
    if ended.is_err() {
        // Our child, not reaped.
        let _ = child.kill();
        let _ = child.wait();
    }
    ended?;
    let mut said = String::new();
    // It has ended, and what it wrote fits a pipe.
    let out = child.stdout.take().map(|out| out.take(ANSWER_MAX));
    out.map_or(Ok(0), |mut out| out.read_to_string(&mut said))
        .map_err(|e| e.to_string())?;
    Ok(said)
}

/// Where to listen, of what was written for `--listen` or `listen =`: of a name that address which this machine has.
pub fn listen_at(text: &str) -> Result<SocketAddr, FarmError> {
    let written = read(text)?;
    let port = written.port.unwrap_or(PORT);
    let name = match &written.host {
        Host::Ip(ip) => return Ok(SocketAddr::new(*ip, port)),
        Host::Name(name) => name,
    };
    let ips = resolve(name).map_err(|why| unknown(name, &why))?;
    let ip = pick(&ips, name == "localhost", has);
    ip.map(|ip| SocketAddr::new(ip, port))
        .map_err(|why| FarmError::Refused(not_ours(name, &ips, why)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotOurs {
    Loopback,
    Foreign,
}

fn pick(ips: &[IpAddr], loopback: bool, has: impl Fn(IpAddr) -> bool) -> Result<IpAddr, NotOurs> {
    let outer = |ip: &&IpAddr| !ip.is_loopback() || loopback;
    let good = ips.iter().filter(outer).find(|ip| has(**ip));
    let all_loopback = ips.iter().all(IpAddr::is_loopback);
    good.copied().ok_or(match all_loopback {
        true => NotOurs::Loopback,
        false => NotOurs::Foreign,
    })
}

/// Debian writes `127.0.1.1 NAME` for a host's own name (Debian Reference, 5.1.1).
fn not_ours(name: &str, ips: &[IpAddr], why: NotOurs) -> Refusal {
    let all: Vec<String> = ips.iter().map(IpAddr::to_string).collect();
    let all = all.join(", ");
    let ours = outer_list();
    match why {
        NotOurs::Loopback => refusal(
            "loopback-name",
            format!(
                "`{name}` is {all} on this machine, which no other machine reaches; nothing was changed"
            ),
            format!("give an address ({ours}), or correct {name} in /etc/hosts"),
        ),
        NotOurs::Foreign => refusal(
            "foreign-address",
            format!(
                "`{name}` is {all}, which no interface of this machine has; nothing was changed"
            ),
            format!(
                "give one that it has ({ours}); what others reach it at, if that is another, is --address"
            ),
        ),
    }
}

/// For hints.
pub fn outer_list() -> String {
    let outer = own().into_iter().filter(|o| o.is_outer() && !o.is_inner());
    let all: Vec<String> = outer.map(|o| o.ip.to_string()).collect();
    match all.is_empty() {
        true => "`ip address` lists them".into(),
        false => all.join(", "),
    }
}

/// Where others reach this node, of what was written for `--address` or `address =`: the port is that of listening
/// unless it says another.
pub fn advertised_address(text: &str, port: u16) -> Result<SocketAddr, FarmError> {
    let written = read(text)?;
    let literal = matches!(written.host, Host::Ip(_));
    let addrs = lookup(text)?;
    let outer = addrs.iter().find(|a| !a.ip().is_loopback());
    let mut addr = *outer.unwrap_or(&addrs[0]);
    addr.set_port(written.port.unwrap_or(port));
    if addr.ip().is_unspecified() || (addr.ip().is_loopback() && !literal) {
        return Err(FarmError::Refused(refusal(
            "loopback-name",
            format!(
                "`{text}` is {}, which no other machine reaches; nothing was changed",
                addr.ip()
            ),
            format!("give the address that others reach ({})", outer_list()),
        )));
    }
    Ok(addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("address")
    }

    #[test]
    fn a_name_listens_at_an_address_of_this_machine() {
        let here = [ip("10.0.0.1"), ip("127.0.1.1")];
        let check = |ips: &[&str], want: Result<&str, NotOurs>| {
            let ips: Vec<IpAddr> = ips.iter().map(|t| ip(t)).collect();
            let got = pick(&ips, false, |ip| here.contains(&ip));
            assert_eq!(got, want.map(ip), "{ips:?}");
        };
        check(&["10.0.0.1"], Ok("10.0.0.1"));
        check(&["127.0.1.1", "10.0.0.1"], Ok("10.0.0.1"));
        check(&["10.0.0.2", "10.0.0.1"], Ok("10.0.0.1"));
        check(&["127.0.1.1"], Err(NotOurs::Loopback));
        check(&["10.0.0.2"], Err(NotOurs::Foreign));
        check(&["127.0.1.1", "10.0.0.2"], Err(NotOurs::Foreign));
        let localhost = pick(&[ip("127.0.1.1")], true, |ip| here.contains(&ip));
        assert_eq!(localhost, Ok(ip("127.0.1.1")));
    }

    /// /etc/hosts only: RFC 6761 keeps both names from the name servers.
    #[test]
    fn names_are_looked_up() {
        assert!(
            lookup("localhost:7")
                .expect("a name")
                .iter()
                .all(|a| a.ip().is_loopback() && a.port() == 7)
        );
        assert_eq!(
            lookup("10.0.0.1").expect("address"),
            ["10.0.0.1:7117".parse().expect("address")]
        );
    }

    #[test]
    fn the_told_address_has_the_listening_port() {
        let check = |text: &str, want: &str| {
            let got = advertised_address(text, 99).expect(text);
            assert_eq!(got.to_string(), want, "{text}");
        };
        check("10.0.0.1", "10.0.0.1:99");
        check("10.0.0.1:8", "10.0.0.1:8");
        check("10.0.0.1:7117", "10.0.0.1:7117");
        check("fd00::1", "[fd00::1]:99");
        check("127.0.0.1", "127.0.0.1:99");
        for bad in ["0.0.0.0", "::", "localhost"] {
            assert!(advertised_address(bad, 99).is_err(), "{bad}");
        }
    }
}
