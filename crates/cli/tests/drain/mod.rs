//! A node is emptied for maintenance, and takes part again, while programs run.

mod restart;

pub use restart::nodes_start_again_in_turn;

use crate::trust::Case;
use crate::{Farm, fails_with, text, until};
use serde_json::Value;

fn json(said: &str) -> Value {
    serde_json::from_str(said).unwrap_or_else(|e| panic!("{e}: {said}"))
}

/// The first node of a document of `armento node drain --json`.
fn first(said: &str) -> Value {
    let doc = json(said);
    assert_eq!(doc["schema"], "armento.node-drain/1", "{doc}");
    doc["nodes"][0].clone()
}

/// What `asked` shows as the state of `node`.
fn state(farm: &Farm, asked: &str, node: &str) -> String {
    let said = farm.sh(asked, "armento nodes");
    let line = said.lines().find(|l| l.starts_with(node));
    let word = line.and_then(|l| l.split_whitespace().nth(1));
    word.unwrap_or_default().to_owned()
}

fn restart(farm: &Farm, node: &str) {
    farm.sh(node, "pkill -f '[a]rmento node$'");
    farm.daemon(node);
}

/// Trees outlive a silent home for as long as this test needs.
pub fn patient(farm: &Farm) {
    for node in ["n1", "n2", "n3"] {
        farm.sh(
            node,
            "sed -i 's/^dead_ms.*/dead_ms = 600000/' /etc/armento/config.toml",
        );
        restart(farm, node);
    }
    until("three nodes", || {
        state(farm, "n1", "n2") == "alive" && state(farm, "n1", "n3") == "alive"
    });
}

/// A guest of n1 and two programs of n2, one of them locked, are on n2.
pub fn a_drained_node_is_emptied_and_stays_so(farm: &Farm) {
    let guest = Case::start(farm, "n1", "--stay", "guest");
    guest.goes_to("n2");
    let kept = Case::start(farm, "n2", "--stay", "kept");
    let own = Case::start(farm, "n2", "", "own");

    let out = farm.run("n3", "armento node drain n2");
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    fails_with(&out, &["n3 does not hold the farm's key"]);
    let user = format!("{} armento node drain n2", crate::USER);
    fails_with(&farm.run("n1", &user), &["only root"]);
    fails_with(&farm.run("n1", "armento node drain n9"), &["no node `n9`"]);
    let plan = farm.sh("n1", "armento node drain n2 --dry-run");
    assert!(plan.contains("would on n2: switch `drain` on"), "{plan}");
    assert_eq!(state(farm, "n2", "n2"), "alive");

    let said = farm.sh("n1", "armento node drain n2 --why 'new disk' --json");
    let it = first(&said);
    assert_eq!((&it["guests"], &it["leaving"]), (&0.into(), &0.into()));
    assert_eq!(
        (&it["why"], &it["staying"]),
        (&"new disk".into(), &1.into())
    );
    let stays = &it["processes"][0];
    assert_eq!(stays["pid"].to_string(), kept.pid(), "{it}");
    assert_eq!(stays["reason"], "locked", "{it}");
    guest.is_at("n1");
    assert_ne!(own.place().as_deref(), Some("n2"));
    assert_eq!(kept.place().as_deref(), Some("n2"));
    guest.may_not_go_to("n2", &["n2 takes no guests", "new disk"]);
    until("n3 to know it", || state(farm, "n3", "n2") == "drained");
    let status = farm.sh("n2", "armento farm status");
    assert!(status.contains("drained: new disk"), "{status}");

    // It holds after a restart, and programs of n2 begin elsewhere.
    restart(farm, "n2");
    let status = json(&farm.sh("n2", "armento farm status --json"));
    assert_eq!(status["drain_why"], "new disk", "{status}");
    until("its members", || state(farm, "n2", "n1") == "alive");
    let fresh = Case::start(farm, "n2", "", "fresh");
    until("it to be elsewhere", || {
        fresh.place().is_some_and(|p| p != "n2")
    });

    let said = farm.sh("n1", "armento node undrain n2");
    assert!(said.contains("n2 takes part again"), "{said}");
    until("n3 to know it", || state(farm, "n3", "n2") == "alive");
    guest.goes_to("n2");
    for case in [guest, kept, own, fresh] {
        case.ends_well();
    }
}

pub fn own_programs_come_home_if_that_is_asked(farm: &Farm) {
    let own = Case::start(farm, "n2", "--stay", "away");
    own.goes_to("n3");
    let said = farm.sh("n2", "armento node drain --all-home");
    assert!(said.contains("n2 is drained"), "{said}");
    assert_eq!(own.place().as_deref(), Some("n2"));
    let said = farm.sh("n2", "armento farm start");
    assert!(said.contains("may come"), "{said}");
    own.goes_to("n3");
    own.ends_well();
}

/// A guest whose home does nothing stays: the command ends with a list, and goes on when it is asked again.
pub fn what_is_left_is_named_when_the_time_is_over(farm: &Farm) {
    let guest = Case::start(farm, "n1", "--stay", "stuck");
    guest.goes_to("n2");
    let keeper = "pgrep -f '^armento run .*stuck.enough'";
    farm.sh("n1", &format!("kill -STOP $({keeper})"));
    let out = farm.run("n2", "armento node drain --timeout 1 --json");
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    fails_with(&out, &["after 1 s", "1 of n2", "stay drained"]);
    let said = text(&out.stdout);
    assert_eq!(json(&said)["timed_out"], true);
    let left = &first(&said)["processes"][0];
    assert_eq!(left["pid"].to_string(), guest.pid(), "{said}");
    assert_eq!(state(farm, "n2", "n2"), "draining");
    farm.sh("n1", &format!("kill -CONT $({keeper})"));
    farm.sh("n2", "armento node drain && armento node undrain");
    guest.is_at("n1");
    guest.ends_well();
}
