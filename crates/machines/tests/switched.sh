# Four nodes of one machine, each a network namespace, and the switch between them, the namespace `sw`: a bridge with VLANs, whose
# ports for a node's bond are a bond of the kernel's own, which speaks LACP. Sourced; `raise` makes all of it.

# A port with one VLAN, untagged; one with the application's VLAN, tagged.
access() { ip -n sw link set "$1" up; ip -n sw link set "$1" master bridge; bridge -n sw vlan add dev "$1" vid "$2" pvid untagged; }
trunk() { ip -n sw link set "$1" up; ip -n sw link set "$1" master bridge; bridge -n sw vlan add dev "$1" vid 4; }
# Out of the bridge, or out of its bond.
free() { for s in "$@"; do ip -n sw link set "$s" nomaster; ip -n sw link set "$s" down; done; }
# A bond by LACP of these ports, in the application's VLAN.
group() {
    bond=$1; shift
    ip -n sw link show "$bond" > /dev/null 2>&1 ||
        ip -n sw link add name "$bond" mtu 9000 type bond mode 802.3ad miimon 100 lacp_rate fast xmit_hash_policy layer3+4
    for s in "$@"; do ip -n sw link set "$s" down; ip -n sw link set "$s" master "$bond"; done
    ip -n sw link set "$bond" mtu 9000
    trunk "$bond"
}
# From a node's link to a port.
cable() {
    ip -n "$1" link add name "$2" mtu 9000 type veth peer name "$3" netns sw
    ip -n sw link set "$3" mtu 9000 up
}
# A machine of no inventory, at a port in this VLAN and with this address.
stranger() {
    ip netns add other
    cable other e0 s50
    access s50 "$1"
    ip -n other link set e0 up
    ip -n other address add "$2" dev e0
}
# Ports and partner of a node's bond.
lacp() { ip -n "$1" -d link show bond0 | sed -n 's/.*ad_num_ports \([0-9]*\) .*ad_partner_mac \([0-9a-f:]*\).*/\1 \2/p'; }
# All bonds of the nodes have two ports and a partner.
whole() { for n in 1 2 3 4; do lacp n$n | grep -q '^2 .*[1-9a-f]' || return 1; done; }

# The card lan0 of n4 is one of the machine's own, by a cable that leads out of it to another one, in the switch.
raise() {
    modprobe -a bonding 8021q bridge
    ip netns add sw
    ip -n sw link set lo up
    ip -n sw link add name bridge type bridge vlan_filtering 1 vlan_default_pvid 0
    ip -n sw link set dev bridge mtu 9000 up
    for l in /sys/class/net/*; do
        case $(cat "$l/address") in
        52:54:00:20:00:00) near=${l##*/} ;;
        52:54:00:20:00:01) far=${l##*/} ;;
        esac
    done
    for n in 1 2 3 4; do
        ip netns add n$n
        ip -n n$n link set lo up
        if [ $n = 4 ]; then
            ip link set "$near" down; ip link set "$near" netns n4 name lan0
            ip link set "$far" down; ip link set "$far" netns sw name s40
        else
            cable n$n lan0 s${n}0
        fi
        access s${n}0 10
        cable n$n lan1 s${n}1
        cable n$n lan2 s${n}2
        group p$n s${n}1 s${n}2
    done
    # As the doctor and others run commands on a node.
    printf '#!/bin/sh\nnode=$1; shift\nexec ip netns exec "$node" "$@"\n' > /usr/local/sbin/at
    chmod 755 /usr/local/sbin/at
}
# Every node's network from an inventory.
apply() {
    for n in 1 2 3 4; do
        at n$n armento fabric apply --node n$n --farm "$1" --for ip --state /root/state$n --confirm 900
        at n$n armento fabric confirm --state /root/state$n --root /root/root$n > /dev/null
    done
}
