//! Rates and losses of links, as text for tc(8).

/// How an interface is limited to a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    bits: u64,
    /// Bucket of tbf, bytes.
    burst: u64,
    /// Queue before frames are dropped, bytes.
    limit: u64,
    /// Segmentation offload: frames of up to 64 KiB cross the bridge whole.
    pub offload: bool,
}

/// Up to this rate a port is shaped frame by frame, as a real switch does: measured 94 % of the rate at 100 Mbit/s on a
/// quiet machine (ideal 94.15 %; 80 % when timers fire late because other work has the cores), but only 50 to 80 % at
/// 250 and 400. Above it, segmentation offload stays on: measured 95 % at 400 Mbit/s and 1 Gbit/s, 90 % at 4 and 70 %
/// at 10 Gbit/s, where a core is full.
pub const FRAMEWISE_MAX: u64 = 100_000_000;

/// Headers of a frame, and a margin, bytes: a bucket must hold two whole frames. Measured: with an MTU of 9000 a bucket of
/// 3200 bytes drops every full frame, one of 18,100 lets 99 % of the rate pass.
const FRAME_EXTRA: u64 = 100;

impl Shape {
    /// `bits`: rate on the wire, bit/s; `mtu`: largest datagram, bytes.
    pub fn of(bits: u64, mtu: u32) -> Shape {
        let mtu = u64::from(mtu);
        if bits <= FRAMEWISE_MAX {
            // A bucket of two full frames and a queue of 40.
            return Shape {
                bits,
                burst: 2 * (mtu + FRAME_EXTRA),
                limit: 40 * mtu,
                offload: false,
            };
        }
        // A bucket of a millisecond (timers fire late on a busy machine), at least one offloaded frame; a queue of ten,
        // so that two frames of a sender in flight find room.
        let bytes_per_ms = bits / 8000;
        let burst = bytes_per_ms.max(70_000);
        Shape {
            bits,
            burst,
            limit: (10 * bytes_per_ms).max(4 * burst),
            offload: true,
        }
    }

    /// `overhead 24`: checksum, preamble and gap of each frame on a real wire (IEEE 802.3: 4 + 8 + 12 bytes).
    pub fn tc(self, port: &str) -> String {
        let Shape {
            bits, burst, limit, ..
        } = self;
        format!(
            "qdisc add dev {port} root tbf rate {bits}bit burst {burst} limit {limit} overhead 24\n"
        )
    }
}

/// All frames that come in at `port` go through `medium` first, an ifb(4) of the same namespace, and then on.
pub fn redirect(port: &str, medium: &str) -> String {
    format!(
        "qdisc add dev {port} handle ffff: ingress\n\
         filter add dev {port} parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev {medium}\n"
    )
}

/// Ethernet's shortest frame without its checksum, bytes: its collisions are early (IEEE 802.3, slot time).
const SHORTEST: u32 = 60;
/// KERNEL: linux/filter.h, SKF_AD_OFF + SKF_AD_RANDOM: a load from there is a random number.
const RANDOM: u32 = (-0x1000 + 56) as u32;
/// KERNEL: linux/pkt_cls.h: TC_ACT_SHOT drops the frame, TC_ACT_UNSPEC goes on with the next filter.
const DROP: u32 = 2;
const GO_ON: u32 = u32::MAX;

/// Drops this share (0 to 1) of the frames longer than Ethernet's shortest that come in at `port`, at random. Random
/// numbers are a filter's own, so that neither netem nor a policer is needed.
pub fn lossy(port: &str, share: f64) -> String {
    let below = (share.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32;
    // Classic BPF as `code jump-true jump-false k`. KERNEL: networking/filter.rst.
    let program = [
        (0x80, 0, 0, 0),        // ld len
        (0x25, 0, 3, SHORTEST), // jgt: else to the last
        (0x20, 0, 0, RANDOM),   // ld random
        (0x35, 1, 0, below),    // jge: to the last
        (0x06, 0, 0, DROP),     // ret
        (0x06, 0, 0, GO_ON),    // ret
    ];
    let lines = program.map(|(code, yes, no, k)| format!("{code} {yes} {no} {k}"));
    format!(
        "qdisc add dev {port} clsact\n\
         filter add dev {port} ingress protocol all prio 1 bpf da bytecode '{},{}'\n",
        lines.len(),
        lines.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_ports_are_shaped_by_frame_and_fast_ones_keep_offloads() {
        let s = Shape::of(FRAMEWISE_MAX, 1500);
        assert_eq!(
            s.tc("p1"),
            "qdisc add dev p1 root tbf rate 100000000bit burst 3200 limit 60000 overhead 24\n"
        );
        assert!(!s.offload);
        assert!(Shape::of(4_000_000_000, 1500).offload);
    }

    #[test]
    fn buckets_hold_two_large_frames() {
        let s = Shape::of(50_000_000, 9000);
        assert!(s.burst >= 18_100 && s.limit == 360_000, "{s:?}");
    }

    #[test]
    fn losses_are_a_filter_with_six_instructions() {
        let text = lossy("eth0", 0.5);
        assert!(text.contains("'6,128 0 0 0,37 0 3 60,32 0 0 4294963256,53 1 0 2147483647,6 0 0 2,6 0 0 4294967295'"), "{text}");
    }
}
