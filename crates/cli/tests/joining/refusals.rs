//! Farms that cannot be made and joins that cannot work.

use crate::net::{Net, until};

pub fn init_never_chooses_loopback(net: &Net) {
    net.sh("n1", "ip link set eth0 down");
    net.fails(
        "n1",
        "armento farm init",
        &[
            "no address that another machine reaches",
            "--listen 127.0.0.1:7117",
        ],
    );
    net.sh("n1", "ip link set eth0 up");
    // Debian's /etc/hosts entry for the host itself.
    net.sh("n1", "echo '127.0.1.1 own' >> /etc/hosts");
    for how in ["--listen own", "--address own", "--listen own:7118"] {
        net.fails(
            "n1",
            &format!("armento farm init {how}"),
            &[
                "`own",
                "127.0.1.1",
                "no other machine reaches",
                &net.addr(1),
            ],
        );
    }
    let foreign = format!("armento farm init --listen {}", net.addr(2));
    net.fails(
        "n1",
        &foreign,
        &["no interface of this machine has", "--address"],
    );
    net.fails(
        "n1",
        "armento farm init --listen n2",
        &["`n2` is", "no interface of this machine has"],
    );
    net.fails(
        "n1",
        "armento farm init --listen 10.0.0.300",
        &["is no address"],
    );
    // Two addresses: the user must choose one.
    net.sh(
        "n1",
        "ip link add eth1 type veth peer name eth2; ip addr add 192.168.7.1/24 dev eth1; ip link set eth1 up; ip link set eth2 up",
    );
    let two = net.fails(
        "n1",
        "armento farm init --name n1",
        &[
            "several addresses",
            "192.168.7.1 (eth1)",
            &format!("{} (eth0)", net.addr(1)),
        ],
    );
    assert!(
        two.contains("`armento farm init --name n1 --address 192.168.7.1`"),
        "{two}"
    );
    net.sh(
        "n1",
        "ip link del eth1; test ! -e /var/lib/armento/farm.json",
    );
}

/// A token for one node: a refused join does not use it up.
pub fn init_finds_the_address(net: &Net) -> String {
    let join = net.init("");
    assert!(join.ends_with(&format!(" {}:7117", net.addr(1))), "{join}");
    let made = net.sh("n1", "armento farm token --uses 1");
    made.trim()
        .split_once("armento join ")
        .expect("the join command")
        .1
        .to_owned()
}

fn token(join: &str) -> &str {
    join.split_whitespace().next().expect("a token")
}

pub fn unreachable_members(net: &Net, join: &str) {
    let (token, n1) = (token(join), net.addr(1));
    let refuses = |at: &str, words: &[&str]| {
        net.refuses("n2", &format!("armento join {token} {at}"), words);
    };
    refuses(
        "n1",
        &[
            &format!("n1 ({n1}:7117)"),
            "connection refused",
            "armento node",
        ],
    );
    refuses(
        &format!("{n1}:7118"),
        &[":7118 does not answer", "connection refused"],
    );
    refuses("localhost", &["127.0.0.1", "this machine itself"]);
    refuses("10.250.0.1", &["no route"]);
    let absent = n1.rsplit_once('.').map(|(net, _)| format!("{net}.250"));
    refuses(
        &absent.expect("an address"),
        &["no machine has that address"],
    );
    refuses("n1:http", &["is no address", "no port"]);
    net.sh("n2", "echo > /etc/resolv.conf");
    refuses(
        "nowhere.invalid",
        &["`nowhere.invalid` has no address", "getent"],
    );
}

pub fn tokens(net: &Net) {
    let zeros = format!("{}::aa:bb", "0".repeat(64));
    let made = net.sh("n1", "armento farm invite --hours 0");
    let expired = made.split_whitespace().nth(2).expect("token").to_owned();
    let unknown = format!("{}0", expired);
    for (token, words) in [
        ("K10x".to_owned(), &["armento1K", "copied whole"][..]),
        (
            format!("armento2K{zeros}"),
            &["format version 2", "update Armento"],
        ),
        (
            format!("armento1K{zeros}"),
            &["another farm", "the secret was not sent"],
        ),
        (expired, &["has expired", "armento farm invite"]),
        (
            unknown,
            &["does not know this token", "armento farm invite"],
        ),
    ] {
        net.refuses("n2", &format!("armento join {token} n1"), words);
    }
}

pub fn names_and_machines(net: &Net, join: &str) {
    let token = token(join);
    let as_n1 = format!("armento join {token} n1 --name n1");
    net.refuses("n2", &as_n1, &["named `n1` already", "--name"]);
    let same = format!(
        "cp /etc/machine-id /tmp/id; printf '%032x\\n' 17 > /etc/machine-id; armento join {token} n1; e=$?; cp /tmp/id /etc/machine-id; exit $e"
    );
    net.refuses(
        "n2",
        &same,
        &[
            "the machine-id of n1",
            "cloned image",
            "systemd-machine-id-setup",
            "--same-machine",
        ],
    );
}

pub fn unreachable_own_addresses(net: &Net, join: &str) {
    let (token, n3) = (token(join), net.addr(3));
    let refuses = |how: &str, words: &[&str]| {
        net.refuses("n2", &format!("armento join {token} n1 {how}"), words);
    };
    refuses(
        "--listen 127.0.0.1",
        &["127.0.0.1:7117", "loopback", "--address"],
    );
    refuses(
        "--listen 127.0.0.1 --address 10.250.0.1",
        &[
            "n1 cannot reach this node at 10.250.0.1:7117/tcp",
            "no route",
            "firewall",
        ],
    );
    // Another machine's address, at which this node does not answer.
    refuses(
        &format!("--address {n3}"),
        &[
            &format!("n1 cannot reach this node at {n3}:7117/tcp"),
            "connection refused",
        ],
    );
    refuses(
        &format!("--address {}", net.addr(1)),
        &["something else than this node answers"],
    );
    // The port is in use by another program.
    let door = |proto: &str| {
        format!(
            "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(LocalAddr => \"0.0.0.0\", LocalPort => 7117, Proto => \"{proto}\", {}) or die; print \"up\\n\"; $|=1; open F, \">/tmp/up\"; close F; sleep 60' >/dev/null & p=$!; \
             i=0; until test -e /tmp/up || test $i = 600; do sleep 0.1; i=$((i+1)); done; rm -f /tmp/up; armento join {token} n1; e=$?; kill $p; exit $e",
            if proto == "tcp" { "Listen => 1" } else { "" }
        )
    };
    for proto in ["tcp", "udp"] {
        net.refuses(
            "n2",
            &door(proto),
            &["cannot listen on", "the port is in use", "ss -lntup"],
        );
    }
}

pub fn clocks(net: &Net, join: &str) {
    let token = token(join);
    let at = |ms: i64, words: &[&str]| {
        net.refuses(
            "n2",
            &format!("ARMENTO_CLOCK_AHEAD_MS={ms} armento join {token} n1"),
            words,
        );
    };
    at(3_700_000, &["61 min ahead of that of n1", "chrony"]);
    at(-220_000_000_000, &["6 years behind that of n1", "chrony"]);
}

pub fn then_it_works(net: &Net, join: &str) {
    let token = token(join);
    let out = net.run(
        "n2",
        &format!("ARMENTO_CLOCK_AHEAD_MS=300 armento join {token} n1:7117"),
    );
    assert!(out.status.success(), "{out:?}");
    let (said, err) = (
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
    );
    assert!(
        said.contains("this node is n2 of farm") && said.contains(&net.addr(2)),
        "{said}"
    );
    assert!(
        err.contains("ms ahead of the farm's") && err.contains("hint: "),
        "{err}"
    );
    net.daemon("n2", "");
    net.sees("n1", "n2", &["alive"]);
    net.sees("n2", "n1", &["alive"]);
    // The token's one use is used up.
    net.fails(
        "n3",
        &format!("armento join {token} n1"),
        &["as often as it may be", "farm invite"],
    );
    // Names and machine IDs that are taken: by a live node, and by a clone of a member.
    let more = net.sh("n1", "armento farm invite");
    let more = more.split_whitespace().nth(2).expect("token");
    net.fails(
        "n3",
        &format!("armento join {more} n1 --name n2"),
        &["named `n2` already"],
    );
    net.fails(
        "n3",
        &format!("printf '%032x\\n' 27 > /etc/machine-id; armento join {more} n1"),
        &["the machine-id of n2", "armento farm remove n2"],
    );
    net.sh("n3", &format!("armento join {more} n1 --same-machine"));
    let known = net.sh("n3", "cat /var/lib/armento/roster.json");
    assert!(!known.contains("machine"), "{known}");
    net.fails(
        "n3",
        &format!("armento join {more} n1"),
        &["already; nothing was changed", "armento leave"],
    );
    until("a node that joined and did not report", || {
        net.sh("n1", "armento nodes").contains("n3")
    });
}

/// A farm that was made by an older version, or with a wrong address, advertises its loopback address.
pub fn advertised_address(net: &Net) {
    let join = net.init("--address 127.0.0.1");
    let token = token(&join);
    net.daemon("n1", "");
    net.refuses(
        "n2",
        &format!("armento join {token} n1"),
        &[
            "cannot reach n1 at 127.0.0.1:7117, where it says that it is",
            "address =",
        ],
    );
    // The suggested remedy.
    net.stop("n1");
    net.sh(
        "n1",
        &format!(
            "echo 'address = \"{}\"' >> /etc/armento/config.toml",
            net.addr(1)
        ),
    );
    net.daemon("n1", "");
    net.sh("n2", &format!("armento join {token} n1"));
    net.daemon("n2", "");
    net.sees("n2", "n1", &["alive", &net.addr(1)]);
}
