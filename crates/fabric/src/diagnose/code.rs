//! Every fault that the doctor knows.

macro_rules! codes {
    ($($name:ident $word:literal $what:literal $remedy:literal)*) => {
        /// A fault; causes come before effects.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code { $($name),* }
        impl Code {
            /// All of them, in their order.
            pub const ALL: &[Code] = &[$(Code::$name),*];
            /// Stable, for scripts.
            pub fn word(self) -> &'static str { match self { $(Code::$name => $word),* } }
            /// What it is, and how it is seen.
            pub fn explain(self) -> &'static str { match self { $(Code::$name => $what),* } }
            /// What to do.
            pub fn remedy(self) -> &'static str { match self { $(Code::$name => $remedy),* } }
        }
    };
}

codes! {
    LinkMissing "link-missing"
        "no card has the address that the inventory tells, or a bond or VLAN was not made"
        "is the card seated, and its address right in the inventory? `armento fabric apply` makes bonds and VLANs"
    LinkName "link-name"
        "a card has another name than the inventory gives to its address"
        "`armento fabric apply` names cards by their permanent addresses, whatever slot they are in"
    LinkDown "link-down"
        "a link is switched off"
        "`armento fabric apply`, or `ip link set dev LINK up`"
    NoCarrier "no-carrier"
        "a link is switched on and nothing answers at the other end of its cable"
        "plug the cable in, try another one, look at the port's light; is the peer's link switched on?"
    Flapping "carrier-flaps"
        "the carrier came and went while the doctor looked"
        "change the cable, then the port, then the card"
    Duplex "duplex"
        "a link runs at half duplex: it and its peer lose frames under load"
        "let both ends negotiate (`ethtool -s LINK autoneg on`), or fix both to the same"
    Speed "speed"
        "a link is slower than the inventory says, or than the others of its net"
        "a cable with all eight wires; let both ends negotiate"
    BondMiimon "bond-miimon"
        "a bond never looks whether its members have a carrier: a dead cable loses its share for ever"
        "set miimon to 100 ms: `armento fabric apply`"
    BondMember "bond-member"
        "a card that should be in a bond is not, or the bond runs without it"
        "`armento fabric apply`; then its cable"
    LacpPartner "lacp-partner"
        "the bond speaks 802.3ad and no switch answers"
        "switch on LACP for these ports, or use balance-xor with a static group; some switches have none"
    LacpSplit "lacp-split"
        "the members are in different aggregators: only one of them carries frames"
        "put both ports of the switch into one LACP group; same speed and duplex at all members"
    OneFlow "bond-one-link"
        "nearly all frames leave by one member of the bond"
        "xmit_hash_policy layer3+4 spreads flows by their ports; one flow never uses two members"
    MtuSetting "mtu-setting"
        "a link has another MTU than the inventory"
        "`armento fabric apply`"
    Address "address"
        "a link lacks an address of the inventory, or has another one of the same net"
        "`armento fabric apply`"
    DuplicateAddress "duplicate-address"
        "another machine answers for an address of this farm"
        "find it by the hardware address in the evidence; change one of the two"
    ArpFlux "arp-flux"
        "a node answers for one address with several cards: frames go to the wrong one"
        "arp_ignore=1 and arp_announce=2 on its cards (`armento fabric apply`), or a net or VLAN of its own for each"
    Cable "cable-swapped"
        "a port's other end is not where the inventory says"
        "swap the cables, or write the inventory as they are"
    VlanLeak "vlan-leak"
        "a frame of one net was heard on another"
        "the switch's port is in both VLANs, or untagged in the wrong one: mend its membership"
    Route "route-wrong"
        "packets to a node leave by another link than the inventory says"
        "`armento fabric apply`; on P2P links each peer needs a host route"
    Sysctl "kernel-setting"
        "a kernel setting differs from the inventory's"
        "`armento fabric apply`"
    RpFilter "rp-filter"
        "the kernel drops packets whose answers would leave by another link"
        "mend the routes first; else rp_filter=2 on the link"
    Asymmetric "route-asymmetric"
        "two nodes send to each other by different nets"
        "both need the same way: compare `ip route get` on both"
    MtuLocal "mtu-local"
        "the own link refuses frames of the net's size"
        "raise its MTU: `armento fabric apply`"
    MtuPath "mtu-path"
        "small frames arrive, those of the net's size do not: a switch or the peer's card drops them without a word"
        "raise the MTU of the switch (or jumbo frames there) and of the peer, or lower the net's in the inventory"
    Unreachable "unreachable"
        "a node does not answer"
        "is it switched on? Then its cable, its address, a firewall for ICMP"
    Loss "loss"
        "a share of the large frames is lost, and few or none of the small ones: duplex mismatch, bad cable, overloaded port"
        "compare duplex at both ends and at the switch; change the cable"
    Corruption "corruption"
        "data arrived changed, or connections broke, under load that ping survives"
        "lower the MTU step by step, switch off offloads (`ethtool -K LINK tso off gso off gro off`), change the card"
    Errors "frame-errors"
        "the card counts frames with wrong checksums, or late collisions"
        "change the cable; late collisions mean a duplex mismatch"
    Offload "offload-lro"
        "a node that forwards has large receive offload on: it changes packets of others"
        "`ethtool -K LINK lro off`"
    DhcpSecond "dhcp-second"
        "a DHCP server answers that is none of the farm's boot servers"
        "switch it off, or use `armento boot init --proxy` beside it"
    Clock "clock-skew"
        "two nodes' clocks differ"
        "run chrony or another time daemon on both"
}

/// The manual's page of all codes.
pub fn page() -> String {
    let mut page = String::from(
        "# Faults of the network\n\n\
         <!-- generated by `cargo xtask gen` from crates/fabric/src/diagnose/code.rs; do not edit -->\n\n\
         What [`armento fabric doctor`](fabric.md#faults) finds. The code is stable and is what `--json` carries. Causes\n\
         stand before effects, in this list and in the doctor's answer.\n\n\
         | code | what | remedy |\n|---|---|---|\n",
    );
    for code in Code::ALL {
        page += &format!(
            "| `{}` | {} | {} |\n",
            code.word(),
            code.explain(),
            code.remedy()
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique() {
        for (i, code) in Code::ALL.iter().enumerate() {
            let same = Code::ALL
                .iter()
                .skip(i + 1)
                .any(|c| c.word() == code.word());
            assert!(!same, "{} is there twice", code.word());
        }
    }
}
