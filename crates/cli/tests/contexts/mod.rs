//! Control of a farm from a machine that is not its node: here n3, whose own daemon is not asked.

use super::{Farm, USER, text};
use serde_json::Value;
use std::process::Output;

/// A command on n3, with contexts in a directory of its own.
fn laptop(farm: &Farm, command: &str) -> Output {
    farm.run(
        "n3",
        &format!("XDG_CONFIG_HOME=/tmp/laptop XDG_RUNTIME_DIR=/tmp {command}"),
    )
}

fn ok(farm: &Farm, command: &str) -> String {
    let out = laptop(farm, command);
    assert!(out.status.success(), "{command}: {}", text(&out.stderr));
    text(&out.stdout)
}

fn refused(farm: &Farm, command: &str, words: &str) {
    let out = laptop(farm, command);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(125), "{command}: {said}");
    assert!(
        said.contains(words) && said.contains("hint: "),
        "{command}: {said}"
    );
}

pub fn farm_is_controlled_from_another_machine(farm: &Farm) {
    let run = "armento run sleep 300 > /dev/null 2>&1 < /dev/null & echo $!";
    let pid = farm.sh("n1", run).trim().to_owned();
    let theirs = farm.sh("n1", &format!("{USER} {run}")).trim().to_owned();
    for pid in [&pid, &theirs] {
        super::until("its keeper", || {
            farm.sh("n1", "armento ps").contains(pid.as_str())
        });
    }

    let invite = |prefix: &str| {
        let said = farm.sh("n1", &format!("{prefix} armento context invite --days 1"));
        said.trim().replace("NAME", "there")
    };
    let command = invite("");
    let said = ok(farm, &command);
    assert!(said.contains("there is root@n1"), "{said}");
    let kept = ok(farm, "stat -c %a /tmp/laptop/armento/contexts.toml");
    assert_eq!(kept.trim(), "600");
    refused(farm, &command, "already");
    let used = command.replace("there", "again");
    refused(farm, &used, "has been used");
    refused(farm, &used, "armento context invite");

    // Of n1, not of n3.
    let list: Value = serde_json::from_str(&ok(farm, "armento ps --json")).expect("JSON");
    let procs = list["procs"].as_array().expect("processes");
    assert!(
        procs.iter().any(|p| p["pid"].as_i64() == pid.parse().ok()),
        "{list}"
    );
    ok(farm, &format!("armento migrate {pid} n2"));
    let why = ok(farm, &format!("armento why {pid}"));
    assert!(why.contains("n2"), "{why}");
    let own = ok(farm, "ARMENTO_CONTEXT= armento ps");
    assert!(!own.contains(&pid), "{own}");
    refused(
        farm,
        "ARMENTO_CONTEXT=nowhere armento nodes",
        "no farm is kept as nowhere",
    );
    let left = ok(farm, "ls -d /tmp/armento-context-* 2>/dev/null | wc -l");
    assert_eq!(left.trim(), "0");

    // An ordinary user has that user's rights there.
    let command = invite(USER).replace("there", "theirs");
    ok(farm, &command);
    assert!(!ok(farm, "armento ps").contains(&format!(" {pid} ")));
    refused(farm, &format!("armento migrate {pid} home"), pid.as_str());
    ok(farm, &format!("armento migrate {theirs} n2"));

    let list = ok(farm, "armento context list");
    assert!(
        list.contains("there ") && list.contains("theirs*"),
        "{list}"
    );
    ok(farm, "armento context use there");
    ok(farm, "armento context remove --dry-run theirs");
    ok(
        farm,
        "cp /tmp/laptop/armento/contexts.toml /tmp/laptop/copy",
    );
    ok(farm, "armento context remove theirs");
    // The node has forgotten it as well.
    ok(
        farm,
        "cp /tmp/laptop/copy /tmp/laptop/armento/contexts.toml",
    );
    refused(farm, "ARMENTO_CONTEXT=theirs armento nodes", "");
    ok(farm, "armento context use --none");
    farm.sh("n1", &format!("kill {pid} {theirs}"));
}
