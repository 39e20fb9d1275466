//! Switches that stop arrivals and departures of a node leave running programs alone.

use crate::trust::Case;
use crate::{Farm, USER, text, until};
use serde_json::Value;

fn status(farm: &Farm, node: &str) -> Value {
    let said = farm.sh(node, "armento farm status --json");
    serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"))
}

/// The decisions in n1's log.
fn decisions(farm: &Farm) -> Vec<Value> {
    let said = farm.sh("n1", "armento log -n 4000 --json");
    let doc: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    doc["entries"].as_array().cloned().unwrap_or_default()
}

/// Time since n1 last received a report of `node`, milliseconds.
fn age_ms(farm: &Farm, node: &str) -> u64 {
    let said = farm.sh("n1", "armento nodes --json");
    let doc: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    let nodes = doc["nodes"].as_array().cloned().unwrap_or_default();
    let it = nodes.into_iter().find(|n| n["name"] == node);
    it.and_then(|n| n["age_ms"].as_u64()).expect("its age")
}

/// Guests of n2 and n3, with home n1.
pub fn guests_are_kept_out_and_sent_away(farm: &Farm) {
    let case = Case::start(farm, "n1", "--stay", "guest");
    case.goes_to("n2");
    until("n2 to report it", || status(farm, "n2")["guests"] == 1);
    let said = farm.sh("n2", "armento farm block");
    assert!(said.contains("none comes: 1  (by command)"), "{said}");
    case.is_at("n2");
    case.goes_to("n3");
    // Its host for that tree still runs; within a second it refuses guests.
    until("n2 to be shut", || {
        case.goes_to("n3");
        let order = format!("armento migrate {} n2", case.pid());
        !farm.run("n1", &order).status.success()
    });
    case.may_not_go_to("n2", &["n2 takes no guests", "armento farm block"]);
    farm.sh("n2", "armento farm block --off");
    until("n2 to be open", || {
        let order = format!("armento migrate {} n2", case.pid());
        farm.run("n1", &order).status.success()
    });
    until("n2 to report it", || status(farm, "n2")["guests"] == 1);
    let said = farm.sh("n2", "armento farm expel");
    assert!(said.contains("others may come soon: 0"), "{said}");
    case.is_at("n1");
    case.may_not_go_to("n2", &["armento farm expel"]);
    case.goes_to("n3");
    farm.sh("n3", "armento farm drain");
    case.is_at("n1");
    case.may_not_go_to("n3", &["armento farm drain"]);
    let out = farm.run("n3", &format!("{USER} armento farm drain --off"));
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    assert!(text(&out.stderr).contains("only root"), "{out:?}");
    farm.sh("n3", "armento farm start");
    case.goes_to("n3");
    until("n2 to take guests again", || {
        status(farm, "n2")["expels"] == false
    });
    case.goes_to("n2");
    case.goes_to("home");
    case.ends_well();
    // As a setting, reloaded by SIGHUP.
    let file = "/etc/armento/config.toml";
    farm.sh(
        "n2",
        &format!("echo 'block = true' >> {file}; armento farm reload"),
    );
    assert_eq!(status(farm, "n2")["block"], true);
    farm.sh(
        "n2",
        &format!("sed -i /^block/d {file}; armento farm reload"),
    );
    assert_eq!(status(farm, "n2")["block"], false);
}

/// Programs of n1, and guests there.
pub fn own_processes_come_home_and_stay(farm: &Farm) {
    let ours = Case::start(farm, "n1", "--stay", "brought");
    ours.goes_to("n2");
    farm.sh("n1", "armento farm bring");
    assert_eq!(ours.place().as_deref(), Some("n1"));
    // A user's order to move it away is still obeyed.
    ours.goes_to("n3");
    let theirs = Case::start(farm, "n2", "--stay", "visitor");
    theirs.goes_to("n1");
    let said = farm.sh("n1", "armento farm stop");
    assert!(said.contains("n1      stopped"), "{said}");
    assert_eq!(ours.place().as_deref(), Some("n1"));
    theirs.is_at("n2");
    ours.may_not_go_to("n2", &["n1 keeps its own", "armento farm stop"]);
    theirs.may_not_go_to("n1", &["n1 takes no guests"]);
    farm.sh("n1", "pkill -f '[a]rmento node'");
    farm.daemon("n1");
    until("a line of it", || ours.place().is_some());
    assert_eq!(status(farm, "n1")["stopped"], true);
    ours.may_not_go_to("n2", &["armento farm stop"]);
    farm.sh("n1", "armento farm start");
    ours.goes_to("n2");
    theirs.goes_to("n1");
    theirs.ends_well();
    ours.ends_well();
}

/// More programs than n1 has processors: they leave when allowed.
pub fn policy_respects_switches(farm: &Farm) {
    farm.sh("n1", "armento farm stay");
    let all = ["one", "two", "three"].map(|word| Case::start(farm, "n1", "", word));
    let why = || farm.sh("n1", &format!("armento why {} --json", all[0].pid()));
    until("its reason", || why().contains("\"switched-off\""));
    assert!(
        why().contains("n1 keeps its own (armento farm stay)"),
        "{}",
        why()
    );
    assert!(all.iter().all(|case| case.place().as_deref() == Some("n1")));
    farm.sh("n1", "armento farm stay --off");
    until("one to leave", || {
        all.iter()
            .any(|case| case.place().is_some_and(|p| p != "n1"))
    });
    let left = || {
        let shared = |e: &&Value| e["cause"] == "share" && e["outcome"]["what"] == "moved";
        let all = decisions(farm);
        all.iter().find(shared).cloned()
    };
    until("the decision and its end", || left().is_some());
    let it = left().expect("it was seen");
    assert!(it["then_milli"].as_u64() > it["now_milli"].as_u64(), "{it}");
    assert!(it["outcome"]["pause_us"].as_u64() > Some(0), "{it}");
    all.into_iter().for_each(Case::ends_well);
    // A quiet node sends no load, and is still a member.
    farm.sh("n3", "armento farm quiet");
    until("n3 to be quiet", || age_ms(farm, "n3") > 4_000);
    assert!(farm.sh("n1", "armento nodes").matches("alive").count() == 3);
    farm.sh("n3", "armento farm quiet --off");
    until("a report of n3", || age_ms(farm, "n3") < 3_000);
}

/// n2 is a workstation with a user of its own.
pub fn owner_at_the_machine_has_priority(farm: &Farm) {
    let file = "/etc/armento/config.toml";
    farm.sh(
        "n2",
        &format!(
            "printf 'owner_first = true\nowner_idle_ms = 3000\n' >> {file}; armento farm reload"
        ),
    );
    let owner = || status(farm, "n2")["owner"].as_bool();
    until("the owner to be away", || owner() == Some(false));
    let case = Case::start(farm, "n1", "--stay", "owned");
    case.goes_to("n2");
    let work = "timeout 240 sh -c 'while :; do :; done' >/dev/null 2>&1 </dev/null & echo $!";
    let work = farm.sh("n2", work);
    until("the owner to be seen", || owner() == Some(true));
    case.is_at("n1");
    let sent_home = |e: &Value| {
        e["cause"] == "switched-off"
            && (e["from"] == "n2" && e["to"] == "n1")
            && e["outcome"]["what"] == "moved"
    };
    until("its way home in the log", || {
        decisions(farm).iter().any(sent_home)
    });
    until("n1 to receive it", || {
        let said = farm.sh("n1", "armento nodes");
        said.lines()
            .any(|l| l.starts_with("n2") && l.contains(" shut "))
    });
    case.may_not_go_to("n2", &["n2 takes no guests while its owner is there"]);
    farm.sh("n2", &format!("kill {work}"));
    until("the owner to be gone", || owner() == Some(false));
    case.goes_to("n2");
    case.ends_well();
    farm.sh(
        "n2",
        &format!("sed -i /^owner/d {file}; armento farm reload"),
    );
}

/// The results of `find` with these arguments below the control groups of n2.
fn groups(farm: &Farm, words: &str) -> String {
    let find = format!(
        "find /sys/fs/cgroup -path '*armento-lab-{}.n2/*' {words} 2>/dev/null",
        farm.name
    );
    let out = std::process::Command::new("sh")
        .args(["-c", &find])
        .output();
    text(&out.expect("find").stdout)
}

/// All trees of a user of n1 at n2 share one group, which is removed with the last of them.
pub fn each_user_has_own_limits(farm: &Farm) {
    let file = "/etc/armento/config.toml";
    let limits = "[[guest_users]]\nusers = [\"*@n1\"]\nmem_max_kib = 262144\ncpu_max_percent = 50";
    let bad = limits.replace("50", "0");
    let refused = format!("cp {file} /tmp/as-it-was; echo '{bad}' >> {file}; armento farm reload");
    let out = farm.run("n2", &refused);
    let why = text(&out.stderr);
    assert!(why.contains("cpu_max_percent is 1 or more"), "{out:?}");
    let set = format!("cp /tmp/as-it-was {file}; echo '{limits}' >> {file}; armento farm reload");
    farm.sh("n2", &set);
    let all = ["first", "second"].map(|word| Case::start(farm, "n1", "--stay", word));
    all.iter().for_each(|case| case.goes_to("n2"));
    // A host is put into its group while it starts.
    let both = |file: &str| groups(farm, &format!("-path '*/armento-n1-*/armento-n1-*/{file}'"));
    until("two trees below their user", || {
        both("cgroup.procs").lines().count() >= 2
    });
    let limits = groups(
        farm,
        "-name 'armento-n1-*' -exec cat {}/memory.limit_in_bytes {}/memory.max {}/cpu.cfs_quota_us {}/cpu.max ';'",
    );
    assert!(
        limits.contains("268435456\n") && limits.contains("50000"),
        "{limits}"
    );
    all.into_iter().for_each(Case::ends_well);
    until("the groups to be gone", || {
        groups(farm, "-name 'armento-n1-*'").is_empty()
    });
    farm.sh(
        "n2",
        &format!("mv /tmp/as-it-was {file}; armento farm reload"),
    );
}

/// A dry run logs what the balancer would do, and does nothing; a user's orders are obeyed.
pub fn dry_run_only_reports(farm: &Farm) {
    let file = "/etc/armento/config.toml";
    farm.sh(
        "n1",
        &format!("echo 'dry_run = true' >> {file}; pkill -f '[a]rmento node'"),
    );
    farm.daemon("n1");
    until("three nodes", || {
        farm.sh("n1", "armento nodes").matches("alive").count() == 3
    });
    let all = ["dry", "drier", "driest"].map(|word| Case::start(farm, "n1", "", word));
    let would = |cause: &'static str| {
        let told = move |e: &Value| e["cause"] == cause && e["outcome"]["what"] == "dry-run";
        decisions(farm).iter().filter(|e| told(e)).count()
    };
    until("what it would do", || {
        would("placed") >= 3 && would("share") > 0
    });
    assert!(all.iter().all(|case| case.place().as_deref() == Some("n1")));
    all[0].goes_to("n2");
    let said = farm.sh("n1", "armento log");
    let asked = said
        .lines()
        .find(|l| l.contains(" asked "))
        .unwrap_or_default();
    assert!(
        asked.contains(all[0].pid()) && asked.contains("moved in"),
        "{said}"
    );
    all.into_iter().for_each(Case::ends_well);
    farm.sh(
        "n1",
        &format!("sed -i /^dry_run/d {file}; pkill -f '[a]rmento node'"),
    );
    farm.daemon("n1");
}
