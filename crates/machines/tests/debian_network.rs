//! Networks in practice: unplugged links, suspended machines, Wi-Fi, firewalls, wrong clocks, other Debian releases.

use armento_machines::farm::{
    COUNTER, Farm, NO_BODY, Program, SOON, debian_12, install, join_line, root, runs_on,
};
use armento_machines::{Kernel, Kind, Machine, Suite};
use std::thread::sleep;
use std::time::Duration;

const NO_FIREWALL: &str = "nft delete table inet t";

/// A firewall rule for incoming packets.
fn firewall(m: &Machine, rule: &str) {
    m.sh(
        "root",
        &format!(
            "nft 'add table inet t; add chain inet t in {{ type filter hook input priority 0; }}; add rule inet t in {rule}'"
        ),
    );
}

#[test]
fn outages_shorter_than_dead_ms_lose_no_guest() {
    let Some(farm) = Farm::pair_long() else {
        return;
    };
    let (n1, n2) = (farm.n(1), farm.n(2));
    let all: Vec<_> = (0..3)
        .map(|_| Program::start(n1, "alice", "--on n2", COUNTER))
        .collect();
    all.iter().for_each(|p| p.at("n2"));

    // The link of the host, then of the home, is down.
    for m in [n2, n1] {
        m.cable(false).expect("out");
        sleep(Duration::from_secs(15));
        m.cable(true).expect("in");
        farm.all_alive();
    }
    // A suspended machine: its own clocks stop, too.
    for m in [n2, n1] {
        m.suspend().expect("asleep");
        sleep(Duration::from_secs(12));
        m.resume().expect("awake");
        m.sh("root", "chronyc makestep");
        farm.all_alive();
    }
    // Wi-Fi: 30 ms, and two of a hundred packets lost.
    let farm_nic = "$(ip -o -4 addr show to 10.9.9.0/24 | cut -d' ' -f2)";
    n2.sh(
        "root",
        &format!("tc qdisc add dev {farm_nic} root netem delay 30ms loss 2%"),
    );
    sleep(Duration::from_secs(20));
    n2.sh("root", &format!("tc qdisc del dev {farm_nic} root"));
    farm.all_alive();
    // A firewall that resets every connection, also existing ones.
    firewall(
        n2,
        "ip saddr 10.9.9.1 tcp dport 1-65535 reject with tcp reset",
    );
    sleep(Duration::from_secs(6));
    n2.sh("root", NO_FIREWALL);
    farm.all_alive();
    for p in &all {
        assert!(p.place().is_some() && p.code().is_none(), "{}", p.err());
        p.touch("end");
    }
    all.iter().for_each(|p| p.ends(0));

    // Guests of a machine that is suspended for longer are lost: they end with the reason, and their bodies when it
    // resumes.
    runs_on(n1, "n2");
    let lost = Program::start(n1, "alice", "--on n2", COUNTER);
    lost.at("n2");
    n2.suspend().expect("asleep");
    lost.ends(137);
    assert!(lost.err().contains("n2"), "{}", lost.err());
    n2.resume().expect("awake");
    n2.until("the end of its body", "root", NO_BODY, SOON);
    farm.all_alive();
}

#[test]
fn failed_joins_name_firewall_or_clock() {
    let kernels = [Kernel::V6_12, Kernel::V6_12];
    let Some(farm) = Farm::boot_long(&debian_12(Kind::Small, &kernels)) else {
        return;
    };
    farm.machines.iter().for_each(install);
    let (n1, n2) = (farm.n(1), farm.n(2));
    let join = join_line(&n1.sh("root", "armento farm init"));
    let refused = |words: &[&str]| {
        let said = n2.run("root", &join);
        assert_eq!(said.code, 125, "{said:?}");
        words
            .iter()
            .for_each(|w| assert!(said.err.contains(w), "{w}: {said:?}"));
        assert_eq!(n2.run("root", "test -e /var/lib/armento/farm.json").code, 1);
    };
    firewall(n1, "tcp dport 7117 drop");
    refused(&["10.9.9.1:7117", "firewall"]);
    n1.sh("root", NO_FIREWALL);
    firewall(n2, "udp dport 7117 drop");
    refused(&["7117", "udp"]);
    n2.sh("root", NO_FIREWALL);
    n2.sh("root", "systemctl stop chrony; date -s '+3 years'");
    refused(&["clock"]);
    n2.sh(
        "root",
        "systemctl start chrony; chronyc waitsync 30 0.01; chronyc makestep",
    );
    n2.sh("root", &join);
    farm.all_alive();
}

#[test]
fn debian_12_and_13_with_different_uids_and_locales_are_one_farm() {
    let new = Kernel::V6_12;
    let wanted = [
        (Suite::Bookworm, Kind::Small, new),
        (Suite::Trixie, Kind::Small, new),
    ];
    let Some(farm) = Farm::boot_long(&wanted) else {
        return;
    };
    farm.machines.iter().for_each(install);
    let (n1, n2) = (farm.n(1), farm.n(2));
    n2.sh("root", "pkill -u alice; usermod -u 1501 alice; chown -R alice: /home/alice; ln -sf /usr/share/zoneinfo/Asia/Tokyo /etc/localtime");
    // Debian 13 has AppArmor 4: the profile of the package is valid there, and denies nothing that Armento needs.
    let profile = "/etc/apparmor.d/armento";
    n2.put(&root().join("packaging/apparmor/armento"), profile)
        .expect("the profile");
    n2.sh(
        "root",
        &format!("chmod 644 {profile}; apparmor_parser -r {profile}; grep -q '^armento ' /sys/kernel/security/apparmor/profiles; systemctl restart armento"),
    );
    farm.join();
    let asks = "python3 -c \"import os, pwd, time, locale, json; print(os.getuid(), pwd.getpwuid(os.getuid())[0], time.tzname, open('/etc/debian_version').read())\"";
    for (home, node) in [(n1, "n2"), (n2, "n1")] {
        let native = home.sh("alice", asks);
        assert_eq!(
            home.sh("alice", &format!("armento run --on {node} {asks}")),
            native
        );
        let p = Program::start(home, "alice", &format!("--on {node}"), COUNTER);
        p.at(node);
        p.migrate("home");
        p.touch("end");
        p.ends(0);
    }
    // Other users do not see them as their own.
    n1.until(
        "nothing is left",
        "alice",
        "test -z \"$(armento ps --json | grep COUNT)\"",
        SOON,
    );
}
