//! Nodes that are stopped, and links that are down, for less than the time limit of a tree: nothing is lost.

use crate::lab::{Farm, until};

/// Programs away at once.
const PROGRAMS: usize = 6;
/// Computes and writes for about half a minute.
const PROGRAM: &str = r#"$|=1; for $i (1..300) { $x=0; for $j (1..60000) { $x+=$j%7 } print "$i $x\n"; select undef,undef,undef,0.1 }"#;

/// Default limits: a tree is frozen after 10 s, dead after 30.
fn farm(what: &str) -> Option<Farm> {
    if !crate::lab::long() {
        return None;
    }
    let farm = Farm::up(what, None)?;
    for node in ["n1", "n2"] {
        farm.sh(node, "sed -i 's/^freeze_ms.*//; s/^dead_ms.*//' /etc/armento/config.toml; pkill -f '[a]rmento node'");
        farm.daemon(node);
    }
    until("a program there", || {
        farm.run("n1", "armento run --on n2 true").status.success()
    });
    Some(farm)
}

/// Runs `pause` on `node` while the programs are on n2; all of them must end as they would have at home.
fn programs_survive(farm: &Farm, node: &str, pause: &str) {
    let native = farm.sh("n1", &format!("perl -e '{PROGRAM}'"));
    farm.sh("n1", "rm -f /tmp/o.* /tmp/e.*");
    for n in 0..PROGRAMS {
        let run = format!(
            "(armento run --on n2 perl -e '{PROGRAM}' >/tmp/o.{n} 2>/tmp/s.{n}; echo $? > /tmp/e.{n}) >/dev/null 2>&1 &"
        );
        farm.sh("n1", &run);
    }
    let away = || farm.sh("n2", "pgrep -c '^perl$' || true").trim() == PROGRAMS.to_string();
    until("programs on n2", away);
    farm.run(node, pause);
    for n in 0..PROGRAMS {
        until("its end", || {
            farm.run("n1", &format!("test -s /tmp/e.{n}"))
                .status
                .success()
        });
        let (code, said) = (
            farm.sh("n1", &format!("cat /tmp/e.{n}")),
            farm.sh("n1", &format!("cat /tmp/s.{n}")),
        );
        assert_eq!(
            (code.as_str(), said.as_str()),
            ("0\n", ""),
            "{node}: {pause}"
        );
        assert!(
            farm.sh("n1", &format!("cat /tmp/o.{n}")) == native,
            "{node}: {pause}: {n}"
        );
    }
}

/// Stops every process of a node but the calling one, as in an overload or while a laptop sleeps.
const STILL: &str = "kill -STOP -1; sleep 13; kill -CONT -1";

#[test]
fn stopped_node_loses_no_guest() {
    let Some(farm) = farm("still") else {
        return;
    };
    programs_survive(&farm, "n2", STILL);
    programs_survive(&farm, "n1", STILL);
}

#[test]
fn link_down_for_20_s_loses_no_guest() {
    let Some(farm) = farm("out20") else {
        return;
    };
    programs_survive(
        &farm,
        "n1",
        "ip link set eth0 down; sleep 20; ip link set eth0 up",
    );
}
