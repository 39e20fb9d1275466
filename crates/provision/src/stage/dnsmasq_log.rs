//! What dnsmasq logs about machines.

use super::step::Step;
use armento_fabric::addr::Mac;
use std::net::IpAddr;

/// What one line tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Of a machine, by its card.
    Machine(Mac, Step),
    /// Of a machine, by the address that it was given.
    Address(IpAddr, Step),
    /// Another DHCP server answers on this net. KERNEL: none; dnsmasq(8), `DHCPNAK`, "wrong server-ID".
    OtherServer(Mac),
}

/// Reads a line of dnsmasq 2.86 to 2.91.
///
/// ```text
/// dnsmasq-dhcp[18]: DHCPDISCOVER(lan0) 52:54:00:09:09:02
/// dnsmasq-dhcp: DHCPDISCOVER(lan0) 52:54:00:09:09:99 no address available
/// dnsmasq-dhcp: DHCPOFFER(lan0) 10.9.9.2 52:54:00:09:09:02
/// dnsmasq-dhcp: DHCPDISCOVER(lan0) 52:54:00:09:09:99 ignored
/// dnsmasq-dhcp: PXE(lan0) 52:54:00:09:09:02 proxy
/// dnsmasq-dhcp: PXE(lan0) 52:54:00:09:09:99 proxy-ignored
/// dnsmasq-tftp: sent /run/armento/boot-tftp/undionly.kpxe to 10.9.9.2
/// ```
pub fn read_line(line: &str) -> Option<Seen> {
    let line = line.trim_end();
    let (head, rest) = line.split_once(": ")?;
    // With a number of its process, when it does not write to a terminal.
    let part = head.split_once('[').map_or(head, |(part, _)| part);
    if part.ends_with("dnsmasq-tftp") {
        let (_, to) = rest.strip_prefix("sent ")?.rsplit_once(" to ")?;
        return Some(Seen::Address(to.parse().ok()?, Step::Loader));
    }
    if !part.ends_with("dnsmasq-dhcp") {
        return None;
    }
    // With log-dhcp a number of the transaction comes first.
    let rest = rest
        .split_once(' ')
        .filter(|(n, _)| n.bytes().all(|b| b.is_ascii_digit()))
        .map_or(rest, |(_, rest)| rest);
    let (verb, rest) = rest.split_once('(')?;
    let mut words = rest.split_once(") ")?.1.split(' ');
    let mac = words.find_map(|w| w.parse::<Mac>().ok())?;
    let rest: Vec<&str> = words.collect();
    match verb {
        "DHCPNAK" if rest.join(" ").contains("wrong server-ID") => Some(Seen::OtherServer(mac)),
        // Beside another DHCP server: a machine without a name asks how to boot. No answer is sent.
        "PXE" if rest == ["proxy-ignored"] => Some(Seen::Machine(mac, Step::Asked)),
        "DHCPDISCOVER" => Some(Seen::Machine(mac, Step::Asked)),
        "DHCPOFFER" | "DHCPACK" | "PXE" => Some(Seen::Machine(mac, Step::Address)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_dnsmasq_are_understood() {
        let mac: Mac = "52:54:00:09:09:02".parse().expect("mac");
        let machine = |step| Some(Seen::Machine(mac, step));
        let cases = [
            (
                "dnsmasq-dhcp[18]: DHCPDISCOVER(lan0) 52:54:00:09:09:02 ",
                machine(Step::Asked),
            ),
            (
                "dnsmasq-dhcp: DHCPDISCOVER(lan0) 52:54:00:09:09:02 no address available",
                machine(Step::Asked),
            ),
            (
                "dnsmasq-dhcp: 3012 DHCPOFFER(lan0) 10.9.9.2 52:54:00:09:09:02",
                machine(Step::Address),
            ),
            (
                "dnsmasq-dhcp: DHCPACK(lan0) 10.9.9.2 52:54:00:09:09:02 n2",
                machine(Step::Address),
            ),
            (
                "dnsmasq-dhcp: PXE(lan0) 52:54:00:09:09:02 proxy",
                machine(Step::Address),
            ),
            (
                "dnsmasq-dhcp: PXE(lan0) 52:54:00:09:09:02 proxy-ignored",
                machine(Step::Asked),
            ),
            (
                "dnsmasq-dhcp: DHCPDISCOVER(lan0) 52:54:00:09:09:02 ignored",
                machine(Step::Asked),
            ),
            (
                "dnsmasq-dhcp: DHCPNAK(lan0) 10.9.9.7 52:54:00:09:09:02 wrong server-ID",
                Some(Seen::OtherServer(mac)),
            ),
            (
                "dnsmasq-tftp: sent /run/armento/boot-tftp/undionly.kpxe to 10.9.9.2",
                Some(Seen::Address(
                    "10.9.9.2".parse().expect("address"),
                    Step::Loader,
                )),
            ),
            ("dnsmasq-dhcp: DHCP, static leases only on 10.9.9.0", None),
            ("dnsmasq-dhcp: RTR-ADVERT(lan0) fd00::", None),
            ("", None),
        ];
        for (line, seen) in cases {
            assert_eq!(read_line(line), seen, "{line}");
        }
    }
}
