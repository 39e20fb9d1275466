//! `armento run --spread`: each exec in a tree at home is placed at that moment, and the program behaves as natively.

use super::{Farm, USER, until};
use std::collections::BTreeSet;

/// Reports on which nodes each process of a tree used CPU time.
const PLACES: &str = "ARMENTO_SUMMARY=/tmp/places";
/// Some milliseconds of computing.
const SPIN: &str = r#"perl -e "for (1..300000) { \$x += \$_ % 7 } print \$x""#;

fn policy(farm: &Farm, policy: &str) {
    let file = "/etc/armento/config.toml";
    let set = format!("sed -i /^policy/d {file}; echo 'policy = \"{policy}\"' >> {file}");
    farm.sh("n1", &format!("{set}; pkill -f '[a]rmento node'"));
    farm.daemon("n1");
    // Wait for their loads to be reported as well.
    let alive = || {
        let said = farm.sh("n1", "armento nodes --json");
        let all: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let nodes = all["nodes"].as_array().expect("nodes");
        let known = |n: &&serde_json::Value| n["state"] == "alive" && n["cores"].as_u64() > Some(0);
        nodes.iter().filter(known).count() == 3
    };
    until("three nodes again", alive);
}

/// Runs `script` in a shell under `--spread`; returns its output, and where the programs named `name` ran.
fn places(farm: &Farm, script: &str, name: &str) -> (String, Vec<BTreeSet<String>>) {
    let run = format!("rm -f /tmp/places; {PLACES} armento run --spread sh -c '{script}'");
    let said = farm.sh("n1", &run);
    let told = |n: usize| {
        let lines = farm.sh("n1", "cat /tmp/places");
        let rows: Vec<serde_json::Value> = lines
            .lines()
            .map(|l| serde_json::from_str(l).expect("a summary"))
            .collect();
        (rows.len() >= n).then_some(rows)
    };
    let mut rows = Vec::new();
    // The shell's own line is the last.
    until("the summary", || {
        rows = told(2).unwrap_or_default();
        rows.iter()
            .any(|r| r["command"].as_str().is_some_and(|c| c.starts_with("sh ")))
    });
    let ours = rows
        .iter()
        .filter(|r| r["command"].as_str().is_some_and(|c| c.starts_with(name)));
    let of = |r: &serde_json::Value| {
        let places = r["places"].as_object().expect("places");
        places.keys().cloned().collect()
    };
    (said, ours.map(of).collect())
}

/// With round-robin placement each node gets its share of the programs.
pub fn every_program_is_placed(farm: &Farm) {
    policy(farm, "static");
    let native = farm.sh("n1", SPIN);
    // `static` places round-robin: six programs on three nodes are two on each.
    let script = format!("for i in 1 2 3 4 5 6; do {SPIN} & done; wait; echo; echo over");
    let (said, places) = places(farm, &script, "perl");
    assert_eq!(said, format!("{}\nover\n", native.repeat(6)));
    let away = |node: &str| places.iter().filter(|p| p.contains(node)).count();
    assert_eq!(
        (places.len(), away("n2"), away("n3")),
        (6, 2, 2),
        "{places:?}"
    );
}

/// A tracer without privileges must not cost a program its set-uid rights.
pub fn rights_are_kept(farm: &Farm) {
    policy(farm, "none");
    let make = "cp /usr/bin/id /tmp/suid; chown 4242 /tmp/suid; chmod 4755 /tmp/suid; \
                cp /tmp/suid /tmp/secret; chown 4242 /tmp/secret; chmod 4711 /tmp/secret; \
                ln -sf suid /tmp/link";
    farm.sh("n1", make);
    let run = |script: &str| {
        let run = format!("cd /tmp; {USER} armento run --spread sh -c '{script}'");
        farm.sh("n1", &run)
    };
    assert_eq!(
        run("/tmp/suid -u; echo $(/tmp/secret -u); /tmp/link -u"),
        "4242\n4242\n4242\n"
    );
    // Without a fork the exec cannot be seen in advance: by path, relative path, link and descriptor.
    for program in ["/tmp/suid", "./suid", "/tmp/link"] {
        assert_eq!(run(&format!("exec {program} -u")), "4242\n", "{program}");
    }
    let by_fd = r#"open F, q(<), q(/tmp/suid); $^F = 9; exec q(/proc/self/fd/).fileno(F), q(-u)"#;
    assert_eq!(run(&format!("exec perl -e \"{by_fd}\"")), "4242\n");
    let named = r#"exec {q(/tmp/suid)} q(other), q(-r), q(-u)"#;
    assert_eq!(run(&format!("exec perl -e \"{named}\"")), "1000\n");
}

pub fn tracers_in_the_tree_work(farm: &Farm) {
    let strace = "strace -f -o /tmp/trace sh -c \"/bin/true; echo hi\"; grep -c execve /tmp/trace";
    let native = farm.sh("n1", strace);
    assert_eq!(
        farm.sh("n1", &format!("armento run --spread sh -c '{strace}'")),
        native
    );
    let me =
        "perl -e \"if (!fork) { syscall(101, 0, 0, 0, 0) and die; exit 7 } wait; print \\$? >> 8\"";
    assert_eq!(
        farm.sh("n1", &format!("armento run --spread sh -c '{me}; true'")),
        "7"
    );
}
