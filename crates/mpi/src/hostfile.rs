//! Files that name the hosts of an MPI program.

use crate::installed::Kind;
use anyhow::{Result, bail};

/// A host, and the number of processes that it should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    pub slots: usize,
}

impl Host {
    pub fn new(name: impl Into<String>, slots: usize) -> Host {
        Host {
            name: name.into(),
            slots,
        }
    }
}

/// Most hosts, and processes of one: far above what a farm has; a larger number is a mistake.
const HOSTS_MAX: usize = 4096;
const SLOTS_MAX: usize = 65_536;

/// The text of such a file. Open MPI: `n1 slots=2`; MPICH: `n1:2`.
pub fn render(hosts: &[Host], kind: Kind) -> String {
    let line = |h: &Host| match kind {
        Kind::OpenMpi => format!("{} slots={}\n", h.name, h.slots),
        Kind::Mpich => format!("{}:{}\n", h.name, h.slots),
    };
    hosts.iter().map(line).collect()
}

/// Reads both forms; a host without a number has one slot.
pub fn parse(text: &str) -> Result<Vec<Host>> {
    let mut hosts: Vec<Host> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        let at = i + 1;
        let wrong = |what: &str| {
            format!(
                "line {at} of the hostfile: {what}\nhint: a line is `n1`, `n1 slots=2` or `n1:2`"
            )
        };
        // An IPv6 address has colons of its own.
        let (name, count) = match first.rsplit_once(':') {
            Some((name, count)) if !name.contains(':') => (name, Some(count)),
            _ => (first, None),
        };
        let slots = words.find_map(|w| w.strip_prefix("slots="));
        let slots = slots.or(count).map_or(Ok(1), str::parse);
        let Some(slots) = slots.ok().filter(|n| (1..=SLOTS_MAX).contains(n)) else {
            bail!("{}", wrong(&format!("`{line}` has no number of processes")));
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
        if name.is_empty() || name.starts_with('-') || !name.chars().all(plain) {
            bail!("{}", wrong(&format!("`{name}` is no host")));
        }
        match hosts.iter_mut().find(|h| h.name == name) {
            Some(known) => known.slots += slots,
            None => hosts.push(Host::new(name, slots)),
        }
        if hosts.len() > HOSTS_MAX {
            bail!("the hostfile has more than {HOSTS_MAX} hosts\nhint: split it");
        }
    }
    if hosts.is_empty() {
        bail!(
            "the hostfile names no host\nhint: `armento hostfile > hosts` writes one of the farm's nodes"
        );
    }
    Ok(hosts)
}

/// The same hosts with room for so many processes, dealt evenly, as many as they have slots first.
pub fn with_np(hosts: &[Host], np: usize) -> Vec<Host> {
    let mut dealt: Vec<Host> = hosts.iter().map(|h| Host::new(&*h.name, 0)).collect();
    let mut left = np;
    let mut round = 0;
    while left > 0 {
        let room = hosts.iter().any(|h| h.slots > round);
        for (h, d) in hosts.iter().zip(&mut dealt) {
            // Beyond all slots every host gets one more in turn.
            if left > 0 && (!room || h.slots > round) {
                d.slots += 1;
                left -= 1;
            }
        }
        round += 1;
    }
    dealt.retain(|h| h.slots > 0);
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let hosts = [Host::new("n1", 2), Host::new("10.77.1.2", 1)];
        for kind in [Kind::OpenMpi, Kind::Mpich] {
            assert_eq!(parse(&render(&hosts, kind)).expect("read"), hosts);
        }
        let text = "# all\nn1 slots=2 max-slots=4\n\nn2 # slow\nn1\n";
        assert_eq!(
            parse(text).expect("read"),
            [Host::new("n1", 3), Host::new("n2", 1)]
        );
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, part) in [
            ("", "names no host"),
            ("n1\nn2 slots=x\n", "line 2"),
            ("n1:0\n", "line 1"),
            ("-x\n", "`-x` is no host"),
            ("a;b\n", "`a;b` is no host"),
        ] {
            let e = parse(text).expect_err(text).to_string();
            assert!(e.contains(part) && e.contains("\nhint: "), "{e}");
        }
    }

    #[test]
    fn processes_are_dealt_by_slots() {
        let hosts = [Host::new("a", 2), Host::new("b", 1)];
        let slots = |np| {
            let dealt = with_np(&hosts, np);
            dealt.iter().map(|h| h.slots).collect::<Vec<_>>()
        };
        assert_eq!(slots(1), [1]);
        assert_eq!(slots(3), [2, 1]);
        assert_eq!(slots(6), [4, 2]);
    }
}
