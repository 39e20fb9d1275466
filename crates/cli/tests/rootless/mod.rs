//! An ordinary user's farm, without any privilege, beside root's farm on the same nodes.

use crate::lab::{Farm, until};

/// Command prefix: that user, without capabilities and unable to gain any, with a state and a socket of its own.
const USER: &str = "setpriv --reuid 1000 --regid 1000 --clear-groups --bounding-set -all --inh-caps -all --no-new-privs \
                    env ARMENTO_STATE=/tmp/r/state ARMENTO_SOCKET=/tmp/r/socket";
/// Uses memory, a file, a child and time, for some seconds.
const PROGRAM: &str = r#"$|=1; @m=map { chr(65+$_%26) x 100000 } 0..99; open(F, ">", "/tmp/r/file"); for $i (1..80) { $x=0;
 for $j (1..60000) { $x+=$j%7 } substr($m[$i%100], $i*7, 1)="z"; print F "$i\n"; if ($i%20==0) { if ($c=fork) { waitpid $c,0; print "child $?\n" } else { exit $i%7 } }
 print "$i $x ", unpack("%32C*", join "", @m), "\n"; select undef,undef,undef,0.03 } close F; print -s "/tmp/r/file", "\n""#;

fn user(farm: &Farm, node: &str, words: &str) -> String {
    farm.sh(node, &format!("cd /tmp/r; {USER} {words}"))
}

fn daemon(farm: &Farm, node: &str) {
    farm.sh(
        node,
        &format!("cd /tmp/r; setsid {USER} armento node >/tmp/r/log 2>&1 </dev/null &"),
    );
    until("the user's daemon", || {
        let asks = format!("{USER} armento nodes");
        farm.run(node, &asks).status.success()
    });
}

pub fn hosts_and_sends(farm: &Farm) {
    let listen = "--listen $(hostname -i | cut -d' ' -f1):7818";
    for node in ["n1", "n2"] {
        farm.sh(node, "mkdir -p /tmp/r; chown 1000:1000 /tmp/r");
    }
    let said = user(farm, "n1", &format!("armento farm init --name n1 {listen}"));
    let (_, join) = said.split_once("armento join ").expect("the join command");
    let join = join.lines().next().expect("a line").to_owned();
    daemon(farm, "n1");
    user(
        farm,
        "n2",
        &format!("armento join {join} --same-machine --name n2 {listen}"),
    );
    daemon(farm, "n2");
    until("two nodes", || {
        user(farm, "n1", "armento nodes --json")
            .matches("\"alive\"")
            .count()
            == 2
    });
    let native = user(farm, "n1", &format!("perl -e '{PROGRAM}'"));
    let run = format!(
        "cd /tmp/r; ({USER} sh -c 'echo $$ > /tmp/r/pid; exec \"$0\" \"$@\"' armento run --on n2 perl -e '{PROGRAM}'; \
         echo $? > /tmp/r/end) > /tmp/r/out 2> /tmp/r/says &"
    );
    farm.sh("n1", &run);
    let is_away = || farm.run("n2", "pgrep -u 1000 '^perl$'").status.success();
    until("a body on n2", is_away);
    let mut moves = 0;
    while !farm.run("n1", "test -s /tmp/r/end").status.success() {
        for to in ["home", "n2"] {
            let order = format!("{USER} armento migrate $(cat /tmp/r/pid) {to}");
            moves += usize::from(farm.run("n1", &order).status.success());
        }
    }
    assert!(moves >= 4, "{moves} moves");
    let all = farm.sh("n1", "cat /tmp/r/out /tmp/r/says /tmp/r/end");
    assert_eq!(all, native + "0\n");
    let doctor = user(farm, "n1", "armento doctor; true");
    assert!(doctor.contains("rootless"), "{doctor}");
    for node in ["n1", "n2"] {
        farm.sh(node, "kill $(pgrep -u 1000 -f '[a]rmento node')");
    }
}
