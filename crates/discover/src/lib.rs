//! Farms on a local network, found by multicast DNS (RFC 6762, RFC 6763): a daemon announces its farm on the interfaces
//! that its administrator has named, and a machine that wants to join looks for announcements there.
//!
//! Nothing here is trusted: anyone on the network can announce anything. What is found is text to choose from; a joiner
//! sends its token's secret only to a daemon that proves to be of the token's farm. Start at [`Announcement`] and [`browse`].

use mdns_sd::{IfKind, ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// RFC 6763, section 7: the name of the service and its protocol.
const SERVICE: &str = "_armento._tcp.local.";
/// RFC 1035, section 2.3.4: bytes of a label.
const LABEL_MAX: usize = 63;
/// Bytes of a text that an announcement may carry; longer ones are cut.
const TEXT_MAX: usize = 128;
/// Announcements that are shown; what comes later is ignored.
const FOUND_MAX: usize = 1024;
/// Digits of the hash of the farm's certificate that are announced: enough to compare with a token, and no secret.
pub const CA_DIGITS: usize = 16;

/// One announcement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Announced {
    /// Name of the farm.
    pub farm: String,
    /// Name of the node that announces it.
    pub node: String,
    /// Where that node's daemon admits others.
    pub address: SocketAddr,
    pub version: String,
    /// The first [`CA_DIGITS`] hexadecimal digits of the SHA-256 of the farm's certificate: a token contains them, too.
    pub ca: String,
    /// Whether the node holds the farm's key, so that others can join there.
    pub admits: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("no interface is named")]
    NoInterface,
    #[error("multicast DNS: {0}")]
    Mdns(#[from] mdns_sd::Error),
}

/// A daemon's announcement; it is withdrawn when this is dropped.
pub struct Announcement {
    service: ServiceDaemon,
}

impl Announcement {
    /// Announces `what` on these interfaces only.
    pub fn start(interfaces: &[String], what: &Announced) -> Result<Announcement, DiscoverError> {
        let service = open(interfaces)?;
        let label = label(&what.node, &what.ca);
        let text = [
            ("farm", what.farm.as_str()),
            ("node", what.node.as_str()),
            ("version", what.version.as_str()),
            ("ca", what.ca.as_str()),
            ("admits", if what.admits { "yes" } else { "no" }),
            ("address", &what.address.to_string()),
        ];
        let info = ServiceInfo::new(
            SERVICE,
            &label,
            &format!("{label}.local."),
            what.address.ip(),
            what.address.port(),
            &text[..],
        )?;
        service.register(info)?;
        Ok(Announcement { service })
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // It says goodbye to the network; the daemon ends whether or not that was heard.
        let _ = self.service.shutdown();
    }
}

/// Announcements that arrive on these interfaces within `time`, sorted, each once.
pub fn browse(interfaces: &[String], time: Duration) -> Result<Vec<Announced>, DiscoverError> {
    let service = open(interfaces)?;
    let events = service.browse(SERVICE)?;
    let until = Instant::now() + time;
    let mut found = BTreeMap::new();
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        match events.recv_timeout(left) {
            Ok(ServiceEvent::ServiceResolved(one)) if found.len() < FOUND_MAX => {
                if let Some(announced) = read(&one) {
                    found.insert(one.fullname.clone(), announced);
                }
            }
            Ok(ServiceEvent::ServiceRemoved(_, name)) => drop(found.remove(&name)),
            Ok(_) => {}
            // The time is over, or the service has ended.
            Err(_) => break,
        }
    }
    let _ = service.shutdown();
    let mut all: Vec<Announced> = found.into_values().collect();
    all.sort();
    Ok(all)
}

fn open(interfaces: &[String]) -> Result<ServiceDaemon, DiscoverError> {
    if interfaces.is_empty() {
        return Err(DiscoverError::NoInterface);
    }
    let service = ServiceDaemon::new()?;
    service.disable_interface(IfKind::All)?;
    let named: Vec<IfKind> = interfaces.iter().cloned().map(IfKind::Name).collect();
    service.enable_interface(named)?;
    Ok(service)
}

/// The name of the announcement, one DNS label: the node's name as far as it fits, and the farm's digits.
fn label(node: &str, ca: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let ca: String = ca.chars().take(CA_DIGITS).map(plain).collect();
    let node: String = node
        .chars()
        .map(plain)
        .take(LABEL_MAX - CA_DIGITS - 1)
        .collect();
    format!("{node}-{ca}")
}

/// `None`: it is not understood.
fn read(one: &ResolvedService) -> Option<Announced> {
    parse(|key| one.get_property_val_str(key))
}

fn parse<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Option<Announced> {
    let text = |key: &str| {
        let value = get(key)?;
        let good = !value.is_empty() && value.len() <= TEXT_MAX;
        // A terminal will show it.
        let clean = value.chars().all(|c| !c.is_control());
        (good && clean).then(|| value.to_owned())
    };
    let ca = text("ca")?;
    if ca.len() != CA_DIGITS || !ca.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    Some(Announced {
        farm: text("farm")?,
        node: text("node")?,
        address: text("address")?.parse().ok()?,
        version: text("version")?,
        ca,
        admits: text("admits")? == "yes",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_one_dns_label() {
        let check = |node: &str, want: &str| assert_eq!(label(node, "00112233445566778899"), want);
        check("n1", "n1-0011223344556677");
        check("n1.example.org", "n1-example-org-0011223344556677");
        let long = label(&"x".repeat(200), "0011223344556677");
        assert_eq!(long.len(), LABEL_MAX);
    }

    #[test]
    fn announcements_that_are_not_understood_are_ignored() {
        let good = [
            ("farm", "armento-1a2b"),
            ("node", "n1"),
            ("address", "10.0.0.1:7117"),
            ("version", "0.1.0"),
            ("ca", "0011223344556677"),
            ("admits", "yes"),
        ];
        let with = |key: &str, value: &'static str| {
            let mut all: BTreeMap<&str, &str> = good.into();
            all.insert(key, value);
            parse(|k| all.get(k).copied())
        };
        assert!(with("node", "n1").is_some_and(|a| a.admits && a.address.port() == 7117));
        for (key, value) in [
            ("farm", ""),
            ("node", "\x1b[31mred"),
            ("address", "10.0.0.1"),
            ("ca", "0011"),
            ("ca", "00112233445566zz"),
        ] {
            assert_eq!(with(key, value), None, "{key} {value:?}");
        }
        assert_eq!(parse(|_| None), None);
        assert!(matches!(
            browse(&[], Duration::ZERO),
            Err(DiscoverError::NoInterface)
        ));
    }
}
