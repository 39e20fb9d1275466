//! Addresses that change, appear late, or are IPv6.

use crate::net::{Net, until};

/// About twenty seconds of lines.
const PROGRAM: &str = r#"$|=1; for $i (1..40) { $x=0; for $j (1..20000) { $x+=$j%7 } print "$i $x\n"; select undef,undef,undef,0.5 }"#;

fn farm_of_two(net: &Net) {
    let join = net.init("");
    net.daemon("n1", "");
    net.sh("n2", &format!("armento join {join}"));
    net.daemon("n2", "");
    net.sees("n1", "n2", &["alive", " tls "]);
    net.sees("n2", "n1", &["alive", " tls "]);
}

/// The same address with another last number.
fn other(addr: &str, last: u8) -> String {
    let (net, _) = addr.rsplit_once('.').expect("an address");
    format!("{net}.{last}")
}

fn change(net: &Net, node: &str, from: &str, to: &str) {
    net.sh(
        node,
        &format!("ip addr del {from}/24 dev eth0; ip addr add {to}/24 dev eth0"),
    );
}

/// DHCP gives a node another address, first the guest's node, then its home: the program does not notice.
pub fn change_under_guests(net: &Net) {
    farm_of_two(net);
    let native = net.sh("n1", &format!("perl -e '{PROGRAM}'"));
    net.sh(
        "n1",
        &format!(
            "armento run --on n2 perl -e '{PROGRAM}' >/tmp/out 2>/tmp/err & echo $! >/tmp/pid"
        ),
    );
    until("lines from n2", || {
        net.run(
            "n1",
            "test -s /tmp/out && armento ps --json | grep -q '\"place\": *\"n2\"'",
        )
        .status
        .success()
    });
    let host = other(&net.addr(2), 102);
    change(net, "n2", &net.addr(2), &host);
    net.sees("n1", "n2", &["alive", &host]);
    let home = other(&net.addr(1), 101);
    change(net, "n1", &net.addr(1), &home);
    net.sees("n2", "n1", &["alive", &home]);
    until("the end of the program", || {
        net.run("n1", "! kill -0 $(cat /tmp/pid) 2>/dev/null")
            .status
            .success()
    });
    assert_eq!(
        net.sh("n1", "cat /tmp/out"),
        native,
        "{}",
        net.sh("n1", "cat /tmp/err")
    );
    assert_eq!(net.sh("n1", "cat /tmp/err"), "");
    // A new program finds the node at its present address, also after a daemon restart.
    assert_eq!(
        net.sh("n1", "armento run --on n2 perl -e 'print 6 * 7'"),
        "42"
    );
    net.stop("n2");
    net.daemon("n2", "");
    net.sees("n1", "n2", &["alive", &host]);
}

/// A daemon starts before its configured listen address is up.
pub fn appear_late(net: &Net) {
    net.stop("n2");
    let (now, late) = (other(&net.addr(2), 102), other(&net.addr(2), 112));
    net.sh(
        "n2",
        &format!(
            "ip addr del {now}/24 dev eth0; echo 'listen = \"{late}\"' >> /etc/armento/config.toml"
        ),
    );
    net.daemon("n2", "");
    until("a line of the log", || {
        net.run("n2", &format!("grep -q '{late}, where this node is to listen, is on no interface yet' /tmp/node.log"))
            .status
            .success()
    });
    net.sh("n2", &format!("ip addr add {late}/24 dev eth0"));
    net.sees("n1", "n2", &["alive", &format!("{late}:7117")]);
    assert_eq!(
        net.sh("n1", "armento run --on n2 perl -e 'print 6 * 7'"),
        "42"
    );
}

pub fn ipv6_only(net: &Net) {
    if net.run("n1", "test -e /proc/sys/net/ipv6").status.code() != Some(0) {
        println!("skipped: this machine has no IPv6");
        return;
    }
    for n in [1, 2] {
        let only = format!(
            "ip addr del {}/24 dev eth0; echo 0 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6; ip addr add fd00:77::{n}/64 dev eth0 nodad; \
             grep -v n1 /etc/hosts > /tmp/h; echo 'fd00:77::1 n1' >> /tmp/h; cat /tmp/h > /etc/hosts",
            net.addr(n)
        );
        net.sh(&format!("n{n}"), &only);
    }
    let join = net.init("");
    assert!(join.ends_with(" [fd00:77::1]:7117"), "{join}");
    let token = join.split_whitespace().next().expect("a token").to_owned();
    net.refuses(
        "n2",
        &format!("armento join {token} fd00:77::1"),
        &["connection refused"],
    );
    net.daemon("n1", "");
    net.sh("n2", &format!("armento join {token} n1"));
    net.daemon("n2", "");
    net.sees("n1", "n2", &["alive", " tls ", "[fd00:77::2]:7117"]);
    net.sees("n2", "n1", &["alive", " tls ", "[fd00:77::1]:7117"]);
    assert_eq!(
        net.sh("n1", "armento run --on n2 perl -e 'print 6 * 7'"),
        "42"
    );
    assert_eq!(
        net.sh("n2", "armento run --on n1 perl -e 'print 6 * 7'"),
        "42"
    );
}
