//! What a perfect lab would reach.

use crate::spec::{Link, NodePlan, Plan};

/// Bytes of a frame on the wire beside its datagram. IEEE 802.3: header 14, checksum 4, preamble 8, gap 12.
const FRAME: f64 = 38.0;
/// Headers in a datagram, bytes: RFC 791 20, RFC 9293 20, time stamps of RFC 7323 12.
const HEADERS: f64 = 52.0;
/// An acknowledgement on the wire as tbf counts it, bytes: 52 of headers in an Ethernet frame.
const ACK: f64 = HEADERS + FRAME;
/// Segments for which there is one acknowledgement. RFC 9293, 3.8.6.3.
const ACK_EVERY: f64 = 2.0;

/// TCP's share of a link of its own in each direction: 0.9415 with an MTU of 1500 bytes, 0.9900 with 9000.
pub fn goodput(mtu: u32) -> f64 {
    (f64::from(mtu) - HEADERS) / (f64::from(mtu) + FRAME)
}

/// … of a medium that acknowledgements use as well: 0.9147 with an MTU of 1500 bytes.
pub fn goodput_shared(mtu: u32) -> f64 {
    let (mtu, n) = (f64::from(mtu), ACK_EVERY);
    n * (mtu - HEADERS) / (n * (mtu + FRAME) + ACK)
}

/// What a perfect link carries of TCP, bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ideal {
    /// With an acknowledgement for two segments.
    pub usual: f64,
    /// Without any. A receiver that is behind acknowledges more segments at once (RFC 9293, 3.8.6.3, says at least every
    /// second): where acknowledgements use the medium, TCP then carries more.
    pub most: f64,
}

/// TCP's ideal between two nodes, counted from 0; `None`: there is no limit, or a cable has a fault.
pub fn rate(plan: &Plan, a: usize, b: usize) -> Option<Ideal> {
    let faulty = plan.faults.iter().any(|f| [a, b].contains(&f.of().0));
    let servers = |i| plan.link.server(plan.nodes.len(), i) == i;
    let bits = match plan.link {
        Link::TwoP2p { joint, .. } if servers(a) && servers(b) => Some(joint),
        link => link.bits(),
    };
    let usual = match plan.link {
        Link::Hub { .. } => goodput_shared(plan.mtu),
        _ => goodput(plan.mtu),
    };
    let most = goodput(plan.mtu);
    bits.filter(|_| !faulty).map(|bits| Ideal {
        usual: bits as f64 * usual,
        most: bits as f64 * most,
    })
}

/// Processor time of a node that computes on all its cores, processors.
pub fn power(node: &NodePlan) -> f64 {
    node.power().min(node.cpus.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures that are published for Ethernet with time stamps, e.g. 941 Mbit/s of a gigabit.
    #[test]
    fn ideals_are_those_of_ethernet() {
        let check = |got: f64, want: f64| assert!((got - want).abs() < 0.0001, "{got} {want}");
        check(goodput(1500), 0.9415);
        check(goodput(9000), 0.9900);
        check(goodput_shared(1500), 0.9147);
    }
}
