//! Kinds of networks, cores, shared directories and what measures them.

use super::{able, cli, line, output_of, sh, spec};
use armento_lab::{Lab, Spec, counters};
use std::fs;
use std::process::Stdio;

fn with(link: &str, nodes: usize) -> Spec {
    Spec {
        link: link.parse().unwrap(),
        ..spec(nodes)
    }
}

/// Bytes that the interface of a node has received.
fn received(lab: &Lab, node: usize, nic: &str) -> u64 {
    let all = counters::of(&lab.plan().name).unwrap();
    let (_, nics) = &all[node - 1];
    let nic = nics.iter().find(|n| n.name == nic);
    nic.expect("the interface").rx_bytes
}

/// Sends so many bytes by TCP and returns how many came.
fn send(lab: &Lab, from: usize, to: usize, addr: &str, bytes: usize) -> usize {
    let server = "use IO::Socket::INET; $| = 1;
        $s = IO::Socket::INET->new(Listen => 1, LocalPort => 7000, ReuseAddr => 1) or die $!;
        print qq(ready\\n); $c = $s->accept; while (sysread($c, $b, 65536)) { $n += length $b } print qq($n\\n);";
    let mut child = lab
        .node(to)
        .command("perl")
        .args(["-e", server])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(line(&mut child), "ready\n");
    let client = format!("head -c {bytes} /dev/zero > /dev/tcp/{addr}/7000");
    let mut c = lab.node(from).command("bash");
    assert!(c.args(["-c", &client]).status().unwrap().success());
    let out = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&out.stdout).trim().parse().unwrap()
}

/// Whether a node has a way to the address: a closed port answers.
fn reaches(lab: &Lab, node: usize, addr: &str) -> bool {
    let tried = sh(
        lab,
        node,
        &format!("timeout 5 bash -c ': < /dev/tcp/{addr}/9'"),
    );
    String::from_utf8_lossy(&tried.stderr).contains("refused")
}

const BYTES: usize = 300_000;

#[test]
fn all_nodes_of_a_hub_see_all_frames() {
    if !able("all_nodes_of_a_hub_see_all_frames") {
        return;
    }
    for (link, seen) in [("hub100", true), ("switch100", false)] {
        let lab = Lab::up(with(link, 3)).unwrap();
        let before = received(&lab, 3, "eth0");
        assert_eq!(send(&lab, 1, 2, "n2", BYTES), BYTES, "{link}");
        let third = received(&lab, 3, "eth0") - before;
        assert_eq!(third > BYTES as u64, seen, "{link}: {third}");
        lab.down().unwrap();
    }
}

#[test]
fn direct_links_lead_to_servers_only() {
    if !able("direct_links_lead_to_servers_only") {
        return;
    }
    let addr = |lab: &Lab, node: usize| lab.node(node).addr.clone();
    let lab = Lab::up(with("p2p:n2", 3)).unwrap();
    let check = |lab: &Lab, a: usize, b: usize, want: bool| {
        assert_eq!(reaches(lab, a, &addr(lab, b)), want, "n{a} to n{b}");
    };
    for (a, b, want) in [
        (2, 1, true),
        (1, 2, true),
        (3, 2, true),
        (1, 3, false),
        (3, 1, false),
    ] {
        check(&lab, a, b, want);
    }
    // One address on both interfaces of the server.
    let own = output_of(
        &lab,
        2,
        "ip -4 -o addr show scope global | awk '{print $2, $4}'",
    );
    assert_eq!(own, format!("eth0 {0}/32\neth1 {0}/32", addr(&lab, 2)));
    lab.down().unwrap();

    let lab = Lab::up(with("two-p2p", 4)).unwrap();
    for (a, b, want) in [
        (1, 3, true),
        (2, 1, true),
        (4, 3, true),
        (2, 4, false),
        (2, 3, false),
    ] {
        check(&lab, a, b, want);
        check(&lab, b, a, want);
    }
}

#[test]
fn second_link_has_addresses_and_traffic_of_its_own() {
    if !able("second_link_has_addresses_and_traffic_of_its_own") {
        return;
    }
    let lab = Lab::up(Spec {
        second_link: true,
        mtu: 9000,
        ..with("switch100", 2)
    })
    .unwrap();
    let before = ["eth0", "eth1"].map(|nic| received(&lab, 2, nic));
    assert_eq!(send(&lab, 1, 2, "n2-eth1", BYTES), BYTES);
    let after = ["eth0", "eth1"].map(|nic| received(&lab, 2, nic));
    assert!(after[1] - before[1] > BYTES as u64 && after[0] - before[0] < 10_000);
    // Jumbo frames pass whole: an unfragmented datagram of 8972 bytes.
    assert_eq!(output_of(&lab, 1, "cat /sys/class/net/eth1/mtu"), "9000");
    assert_eq!(datagrams(&lab, "n2-eth1", &[8972]), [8972]);
    // Interfaces of a node as `lab counters` shows them.
    let said = cli(&["counters", "--name", &lab.plan().name, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    let nic = &json["nodes"][1]["nics"][1];
    assert_eq!((&json["v"], &nic["name"]), (&1.into(), &"eth1".into()));
    assert!(nic["rx_bytes"].as_u64() > Some(BYTES as u64));
}

/// Sends datagrams of these lengths from n1, none of them fragmented; returns the lengths that came to n2, up to that of the
/// last.
fn datagrams(lab: &Lab, addr: &str, lengths: &[usize]) -> Vec<usize> {
    let last = *lengths.last().unwrap();
    let server = format!(
        "use IO::Socket::INET; $| = 1;
         $s = IO::Socket::INET->new(Proto => 'udp', LocalPort => 7001) or die $!; print qq(ready\\n);
         do {{ $s->recv($b, 65536); print length($b), qq(\\n); }} while length($b) != {last};"
    );
    let mut child = lab
        .node(2)
        .command("perl")
        .args(["-e", &server])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(line(&mut child), "ready\n");
    let client = format!(
        "use IO::Socket::INET;
         $s = IO::Socket::INET->new(Proto => 'udp', PeerAddr => '{addr}', PeerPort => 7001) or die $!;
         setsockopt($s, 0, 10, pack('i', 2)) or die $!;
         for ({lengths:?}) {{ $s->send('x' x $_) for @$_ }}"
    );
    output_of(
        lab,
        1,
        &format!("perl -e \"{}\"", client.replace('$', "\\$")),
    );
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    said.lines().map(|l| l.parse().unwrap()).collect()
}

#[test]
fn mismatched_duplex_loses_long_frames_only() {
    if !able("mismatched_duplex_loses_long_frames_only") {
        return;
    }
    let check = |link: &str| {
        let lab = Lab::up(Spec {
            faults: vec!["duplex:n2:100".parse().unwrap()],
            ..with(link, 2)
        })
        .unwrap();
        // Addresses are known to all after a short one.
        assert_eq!(datagrams(&lab, "n2", &[1]), [1], "{link}");
        assert_eq!(datagrams(&lab, "n2", &[1000, 200, 2]), [2], "{link}");
    };
    check("switch100");
    check("p2p");
}

#[test]
fn shared_directories_are_the_machine_s() {
    if !able("shared_directories_are_the_machine_s") {
        return;
    }
    let dir = std::env::temp_dir().join(format!("armento-share-{}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    let at = |at: &str| format!("{}:{at}", dir.display()).parse().unwrap();
    let up = |place: &str| {
        Lab::up(Spec {
            shares: vec![at(place)],
            ..spec(2)
        })
    };
    let lab = up("/srv/shared/deep");
    let said = lab.map(|lab| {
        output_of(&lab, 1, "echo one > /srv/shared/deep/f");
        output_of(&lab, 2, "echo two >> /srv/shared/deep/f");
        output_of(&lab, 1, "cat /srv/shared/deep/f")
    });
    let here = fs::read_to_string(dir.join("f"));
    // A link of the machine must not lead out of the node.
    let through_link = up("/var/run/armento-no").map(drop);
    fs::remove_dir_all(&dir).unwrap();
    assert_eq!(said.unwrap(), "one\ntwo");
    assert_eq!(here.unwrap(), "one\ntwo\n");
    if std::path::Path::new("/var/run").is_symlink() {
        let e = through_link.unwrap_err().to_string();
        assert!(e.contains("/var/run is a link"), "{e}");
    }
    assert!(!std::path::Path::new("/run/armento-no").exists());
}

#[test]
fn nodes_have_several_cores_and_a_period() {
    if !able("nodes_have_several_cores_and_a_period") {
        return;
    }
    let lab = Lab::up(Spec {
        cores: vec![2],
        speeds: vec![0.25],
        period_ms: Some(50),
        ..spec(1)
    })
    .unwrap();
    let machine = std::thread::available_parallelism().unwrap().get();
    assert_eq!(output_of(&lab, 1, "nproc"), machine.min(2).to_string());
    let v1 = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us";
    let quota = format!(
        "if test -e /sys/fs/cgroup/cpu.max; then cat /sys/fs/cgroup/cpu.max; else {v1}; fi"
    );
    let got = output_of(&lab, 1, &quota);
    let got: Vec<&str> = got.split_whitespace().collect();
    assert_eq!(got, ["25000", "50000"]);
}

#[test]
fn disks_are_throttled_in_channels() {
    let blkio = std::path::Path::new("/sys/fs/cgroup/blkio").exists();
    if !able("disks_are_throttled_in_channels") {
        return;
    }
    if !blkio {
        println!(
            "skipped: disks_are_throttled_in_channels needs blkio of control groups version 1"
        );
        return;
    }
    let lab = Lab::up(Spec {
        disk: Some(5 << 20),
        disk_channels: Some(2),
        ..spec(3)
    })
    .unwrap();
    let name = lab.plan().name.clone();
    let rates = "cat /sys/fs/cgroup/blkio/blkio.throttle.write_bps_device";
    let rates = output_of(&lab, 2, rates);
    assert!(rates.ends_with(" 5242880"), "{rates}");
    // n1 and n3 are in one group, n2 in another.
    let group = |node: usize| {
        let pid = super::first_pid(&name, node);
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        text.lines()
            .find(|l| l.contains(":blkio:"))
            .unwrap()
            .to_owned()
    };
    assert!(group(1) == group(3) && group(1) != group(2));
    lab.down().unwrap();
    assert_eq!(super::traces(&name), Vec::<String>::new());
}

#[test]
fn loads_end_and_are_measured() {
    if !able("loads_end_and_are_measured") {
        return;
    }
    let lab = Lab::up(with("switch100", 2)).unwrap();
    let name = lab.plan().name.clone();
    let used = || {
        let text = "cat /sys/fs/cgroup/cpuacct/cpuacct.usage 2>/dev/null || sed -n 's/usage_usec //p' /sys/fs/cgroup/cpu.stat";
        output_of(&lab, 1, text).parse::<u64>().unwrap()
    };
    let before = used();
    let done = cli(&["load", "--name", &name, "n1", "100", "--for", "0.2"]);
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(used() > before);

    // What `check` measures on a machine that does other things at the same time is no test's to judge.
    let said = cli(&["check", "--name", &name, "--seconds", "0.2", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said.status.code(), Some(i32::from(json["ok"] != true)));
    let links = json["links"].as_array().unwrap();
    assert_eq!(links.len(), 2);
    for link in links {
        let (got, ideal) = (
            link["mbit"].as_f64().unwrap(),
            link["ideal_mbit"].as_f64().unwrap(),
        );
        assert!(
            got > 0.0 && (ideal - 94.15).abs() < 0.01 && link["rtt_us"].as_f64().is_some(),
            "{link}"
        );
    }
    assert_eq!(json["processors"].as_array().unwrap().len(), 2);
}
