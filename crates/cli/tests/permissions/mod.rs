//! A restriction of a node is named in the answer to the user, and `run --on` that cannot be fulfilled starts nothing.

use crate::lab::{Farm, until};
use std::process::Output;

/// A daemon that is an ordinary user of a user namespace in which no more may be made.
const NO_NAMESPACES: &str = "unshare --user --map-user=1000 --map-group=1000 --keep-caps sh -c \
    'echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --ambient-caps -all --inh-caps -all \"$@\"' sh";

fn text(b: &[u8]) -> String {
    String::from_utf8_lossy(b).into_owned()
}

/// Nothing ran, and one line with these words and a hint give the reason.
fn refused(farm: &Farm, run: &str, words: &[&str]) -> Output {
    let out = farm.run(
        "n1",
        &format!("rm -f /tmp/ran; {run} sh -c 'touch /tmp/ran'"),
    );
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(125), "{run}: {out:?}");
    assert!(
        !farm.run("n1", "test -e /tmp/ran").status.success(),
        "{run}: it ran"
    );
    assert!(words.iter().all(|w| said.contains(w)), "{words:?}: {said}");
    assert_eq!(said.matches("armento: ").count(), 1, "{said}");
    assert!(said.contains("\nhint: "), "{said}");
    out
}

#[test]
fn run_on_refusing_node_starts_nothing() {
    let Some(farm) = Farm::up("walls", None) else {
        return;
    };
    farm.sh(
        "n2",
        "pkill -f '[a]rmento node'; chmod -R a+rwX /var/lib/armento /run/armento",
    );
    farm.daemon_behind("n2", NO_NAMESPACES);
    let there = || {
        farm.sh("n1", "armento nodes --json")
            .matches("\"alive\"")
            .count()
            == 3
    };
    until("n2", there);
    let wall = "user.max_user_namespaces=0";
    refused(
        &farm,
        "armento run --on n2",
        &[wall, "n2", "nothing was started"],
    );
    refused(&farm, "armento run --on n9", &["n9"]);
    farm.sh("n3", "armento farm drain");
    refused(&farm, "armento run --on n3", &["n3"]);
    // For a running process: the reason is given by `migrate`, and by `why` afterwards.
    let moved = farm.run(
        "n1",
        "armento run --stay sleep 600 >/dev/null 2>&1 & p=$!
         for i in $(seq 300); do armento ps | grep -q \"^ *$p \" && break; sleep 0.1; done
         armento migrate $p n2; echo \"code $?\"
         for i in $(seq 300); do armento why $p | grep -q no-walls && break; sleep 0.1; done
         armento why $p; kill $p",
    );
    let (why, said) = (text(&moved.stdout), text(&moved.stderr));
    assert!(why.starts_with("code 125\n"), "{moved:?}");
    assert!(said.contains(wall), "{said}");
    assert!(why.contains("[no-walls]") && why.contains(wall), "{why}");
}
