//! The program of every node is replaced in turn by one command, and put back, while a program runs elsewhere.

use crate::restarts::NODES;
use crate::trust::Case;
use crate::{Farm, fails_with, until};
use serde_json::Value;

/// A program of its own on each node, from which the daemon runs.
const PROGRAM: &str = "/opt/armento";

/// The same program with another hash.
const NEW: &str = "/tmp/armento.new";

/// It has that program.
const PACKAGE: &str = "/tmp/armento.deb";

/// A package of this name with the new program, as small as dpkg-deb makes one without compressing it.
fn package(name: &str, file: &str) -> String {
    format!(
        "d=$(mktemp -d); chmod 755 $d; mkdir -p $d/DEBIAN $d/usr/bin; cp {NEW} $d/usr/bin/armento
         printf 'Package: {name}\\nVersion: 9\\nArchitecture: amd64\\nMaintainer: a <a@example.org>\\nDescription: a test\\n' > $d/DEBIAN/control
         dpkg-deb -Znone --build $d {file} >/dev/null; rm -r $d"
    )
}

fn bad_packages_are_refused(farm: &Farm) {
    farm.sh("n1", &package("armento", PACKAGE));
    farm.sh("n1", &package("lame", "/tmp/other.deb"));
    farm.sh("n1", &format!("head -c 5000 {PACKAGE} > /tmp/cut.deb"));
    for (file, why) in [
        ("/tmp/other.deb", "this is the package `lame`"),
        ("/tmp/cut.deb", "nothing was changed"),
        ("/tmp/none.deb", "nothing was changed"),
    ] {
        let out = farm.run("n1", &format!("armento farm upgrade --package {file}"));
        fails_with(&out, &[why]);
    }
}

fn is_new(farm: &Farm, node: &str) -> bool {
    farm.run(node, &format!("cmp {PROGRAM} {NEW}"))
        .status
        .success()
}

/// A value of `ps` of the daemon.
fn of_daemon(farm: &Farm, node: &str, what: &str) -> String {
    let ps = format!("ps -o {what}= -p $(cat /var/lib/armento/lock)");
    farm.sh(node, &ps).trim().to_owned()
}

fn prepare(farm: &Farm) {
    for node in NODES {
        farm.sh(
            node,
            &format!(
                "mkdir -p /opt; cp $(command -v armento) {PROGRAM}; cp {PROGRAM} {NEW}; echo new >> {NEW}
                 p=$(cat /var/lib/armento/lock); kill $p; while kill -0 $p 2>/dev/null; do sleep 0.01; done
                 setsid {PROGRAM} node >/tmp/node.log 2>&1 </dev/null &"
            ),
        );
        until("the daemon", || {
            farm.run(node, "armento nodes").status.success()
        });
    }
    until("three nodes", || {
        farm.sh("n1", "armento nodes").matches(" alive ").count() == 3
    });
}

pub fn every_node_is_upgraded_in_turn_and_put_back(farm: &Farm) {
    prepare(farm);
    let guest = Case::start(farm, "n1", "--stay", "rolling");
    guest.goes_to("n3");
    let upgrade = format!("armento farm upgrade --binary {NEW}");

    let plan = || -> Value {
        let said = farm.sh("n1", &format!("{upgrade} --dry-run --json"));
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"))
    };
    until("its host to report it", || {
        plan()["nodes"][1]["runs"]["hosts"][0]["processes"] == 1
    });
    let plan = plan();
    assert_eq!(plan["schema"], "armento.dry-run/1");
    let steps = [0, 1, 2].map(|i| &plan["nodes"][i]["step"]);
    assert_eq!(steps, ["by-hand", "by-hand", "upgrade"], "{plan}");
    let keepers = &plan["nodes"][2]["runs"]["keepers"][0];
    let of_keepers = (&keepers["processes"], &keepers["away"]);
    assert_eq!(of_keepers, (&1.into(), &1.into()));
    assert_eq!(plan["nodes"][1]["runs"]["hosts"][0]["same_file"], true);
    fails_with(&farm.run("n1", &format!("{upgrade} n2")), &["left: n2"]);
    for option in ["--binary", "--package"] {
        let bad = format!("armento farm upgrade {option} /etc/passwd");
        fails_with(&farm.run("n1", &bad), &["does not run here"]);
    }
    bad_packages_are_refused(farm);
    assert!(NODES.iter().all(|node| !is_new(farm, node)));

    for node in ["n2", "n3"] {
        let allow = "echo 'allow_upgrade = true' >> /etc/armento/config.toml; armento farm reload";
        farm.sh(node, allow);
    }
    let out = farm.run("n2", &format!("{upgrade} n3"));
    fails_with(&out, &["stopped at n3", "does not hold the farm's key"]);

    let before: Vec<String> = NODES.iter().map(|n| of_daemon(farm, n, "pid,ni")).collect();
    // No node has the program of the package.
    let said = farm.sh("n1", &format!("armento farm upgrade --package {PACKAGE}"));
    assert_eq!(said, "upgraded: n2, n3, n1\n");
    assert_eq!(
        farm.sh("n1", "ls -d /tmp/armento-package-* 2>/dev/null; true"),
        ""
    );
    assert!(NODES.iter().all(|node| is_new(farm, node)));
    // The same process goes on, with the same niceness.
    let after: Vec<String> = NODES.iter().map(|n| of_daemon(farm, n, "pid,ni")).collect();
    assert_eq!(after, before);
    let plan = farm.sh("n1", &format!("{upgrade} --dry-run"));
    assert_eq!(plan.matches("as it is").count(), 3, "{plan}");
    assert_eq!(farm.sh("n1", &upgrade), "upgraded: none\n");

    // Its keeper is the new program, too, and the guest is back at its node, in a host of that node's program.
    let runs = |node: usize, what: &str| -> Value {
        let said = farm.sh("n1", &format!("{upgrade} --dry-run --json"));
        let plan: Value = serde_json::from_str(&said).expect("its plan");
        plan["nodes"][node]["runs"][what].clone()
    };
    let keepers = runs(2, "keepers");
    let of_keepers = (&keepers[0]["same_file"], &keepers[0]["count"], &keepers[1]);
    assert_eq!(
        of_keepers,
        (&true.into(), &1.into(), &Value::Null),
        "{keepers}"
    );
    until("the guest to be back", || {
        guest.place().as_deref() == Some("n3")
    });
    until("its host to be of the new program", || {
        let hosts = runs(1, "hosts");
        hosts[0]["same_file"] == true && hosts[0]["processes"] == 1
    });

    // It goes on elsewhere, and its host is collected by the daemon that did not start it.
    guest.goes_to("n2");
    let said = farm.sh("n1", "armento farm upgrade --rollback --drain n2");
    assert_eq!(said, "put back: n2\n");
    assert!(!is_new(farm, "n2") && is_new(farm, "n3"));
    guest.is_at("n1");
    until("n2 to take part", || {
        farm.sh("n1", "armento nodes").matches(" alive ").count() == 3
    });
    guest.goes_to("n2");
    guest.ends_well();
    until("the ends of its hosts", || {
        let zombies = "ps -e -o stat= | grep -c '^Z' || true";
        NODES
            .iter()
            .all(|node| farm.sh(node, zombies).trim() == "0")
    });
}
