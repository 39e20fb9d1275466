//! Guests that attack their node: through forwarded calls, the seccomp filter, and Armento's own code mapped in them.

use crate::USER;
use crate::lab::{Farm, until};
use std::process::Output;

const AWAY: &str = include_str!("away.h");
const ESCAPE: &str = include_str!("escape.c");
const HARM: &str = include_str!("harm.c");
/// `harm.c` has this many clone3 cases; the numbers after them are clone with small stacks.
const CLONES: u32 = 17;
/// A server on the node, which guests must not reach.
const PORT: u16 = 7999;
/// Another user's program on the node, which must not notice anything. It ends when home has the file.
const OTHER: &str =
    r#"while (!-e "/tmp/over") { $x += $_ % 7 for 1..100000; $n++ } print $n > 0 && $x > 0;"#;

fn attack(farm: &Farm, way: &str) -> Output {
    run_away(farm, USER, &format!("/tmp/escape {way}"))
}

/// Runs a program on n2, checks that it gained nothing there, and that it ends.
fn run_away(farm: &Farm, before: &str, program: &str) -> Output {
    // A process that keeps the node busy is a failure as well.
    let run = format!("armento run --on n2 {program}; e=$?; echo ended; exit $e");
    let out = farm.run("n1", &format!("{before} timeout -s KILL 90 sh -c '{run}'"));
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        text.contains("away 1"),
        "{program}: it was never a guest: {out:?}"
    );
    assert!(text.ends_with("ended\n"), "{program}: it hangs: {out:?}");
    assert!(!text.contains("ESCAPED"), "{program}: {out:?}");
    out
}

/// Its output away is its output at home.
fn same_as_native(farm: &Farm, before: &str, way: &str) {
    let native = farm.run("n1", &format!("{before} env NATIVE=1 /tmp/harm {way}"));
    let out = run_away(farm, before, &format!("/tmp/harm {way}"));
    let native = String::from_utf8_lossy(&native.stdout).into_owned();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(said, format!("away 1\n{native}ended\n"), "{way}: {out:?}");
    assert!(native.ends_with("end\n") && out.status.success(), "{out:?}");
}

/// Command prefix: a user ID that nothing else uses.
fn user(uid: u32) -> String {
    format!("setpriv --reuid {uid} --regid {uid} --clear-groups")
}

/// A process may use up its own descriptor limit; others can still open files.
fn descriptors_run_out(farm: &Farm) {
    let few = format!("prlimit --nofile=300:300 {USER}");
    same_as_native(farm, &few, "opens");
    // More files than a keeper may have open.
    same_as_native(farm, &few, "maps 700");
    let run = "armento run --on n2 /tmp/harm opens /tmp/enough";
    farm.sh("n1", &format!("{few} {run} > /tmp/opens 2>&1 &"));
    until("its refusals", || {
        farm.run("n1", "grep -q ^3: /tmp/opens").status.success()
    });
    let reads = r#"open F, "/etc/passwd" or die; print <F> ? 1 : 0"#;
    let said = farm.sh(
        "n1",
        &format!("{USER} armento run --on n2 perl -e '{reads}'"),
    );
    assert_eq!(said, "1");
    farm.sh("n1", "touch /tmp/enough");
    until("its end", || {
        farm.run("n1", "grep -q end /tmp/opens").status.success()
    });
}

/// A guest may kill the processes of its user at home, and no others; its keeper belongs to its user.
fn kills(farm: &Farm) {
    let (own, other) = (user(7002), user(7003));
    for how in ["all", "each"] {
        let sleeps = format!(
            "{own} sleep 600 >/dev/null 2>&1 & echo $! > /tmp/own; {other} sleep 600 >/dev/null 2>&1 & echo $! > /tmp/other.pid"
        );
        farm.sh("n1", &sleeps);
        until("two sleeping processes", || {
            farm.sh("n1", "pgrep -c -U 7002,7003 ^sleep$ || true")
                .trim()
                == "2"
        });
        let run = format!("{own} armento run --on n2 /tmp/harm kills {how}");
        let out = farm.run("n1", &run);
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(said.starts_with("away 1\n"), "{out:?}");
        until("the end of all processes of its user", || {
            !farm.run("n1", "pgrep -U 7002").status.success()
        });
        farm.sh("n1", "kill $(cat /tmp/other.pid)");
    }
}

/// On a node that allows guests few processes: a guest that makes more is moved home, and meets its own limits there.
fn forks(farm: &Farm) {
    farm.sh(
        "n2",
        "echo guest_procs_max = 200 >> /etc/armento/config.toml; pkill -f '[a]rmento node'",
    );
    farm.daemon("n2");
    farm.sh(
        "n1",
        "armento run sleep 600 >/dev/null 2>&1 & echo $! > /tmp/probe",
    );
    until("a guest after the restart", || {
        farm.run("n1", "armento migrate $(cat /tmp/probe) n2")
            .status
            .success()
    });
    farm.sh("n1", "kill $(cat /tmp/probe)");
    let few = format!("prlimit --nproc=400:400 {}", user(7004));
    let out = run_away(farm, &few, "/tmp/harm forks 2");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("none left 1\nend\n"), "{out:?}");
    assert!(!farm.run("n1", "pgrep -U 7004").status.success());
}

/// Programs that use up resources, and have the kernel write and jump to addresses of their choice.
fn harmful_programs(farm: &Farm) {
    for which in 0..=CLONES {
        same_as_native(farm, USER, &format!("clones {which}"));
    }
    // Armento's code, the calls that are about to be made, and what they point to.
    for at in ["0", "0x1000", "0x10200"] {
        run_away(farm, USER, &format!("/tmp/harm writes {at}"));
    }
    run_away(farm, USER, "/tmp/harm sequences");
    descriptors_run_out(farm);
    kills(farm);
}

/// The attack ran to its end and printed this line.
fn ends(farm: &Farm, way: &str, says: &str) {
    let out = attack(farm, way);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        text.contains(says) && text.contains("end\n"),
        "{way}: {out:?}"
    );
}

pub fn all_attacks_fail(farm: &Farm) {
    for (name, text) in [("escape", ESCAPE), ("harm", HARM)] {
        let build = format!("gcc -O1 -pthread -o /tmp/{name} -x c - <<'EOF'\n");
        farm.sh("n1", &format!("{build}{AWAY}\n{text}\nEOF\n"));
    }
    farm.sh("n2", "echo secret > /tmp/canary; chmod 666 /tmp/canary");
    let serve = format!(
        "use IO::Socket::INET; $s = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1:{PORT}\"); sleep 600"
    );
    farm.sh(
        "n2",
        &format!("perl -e '{serve}' >/dev/null 2>&1 & echo $! > /tmp/server"),
    );
    farm.sh(
        "n1",
        &format!("armento run --on n2 perl -e '{OTHER}' > /tmp/other 2>&1 &"),
    );
    until("the other guest", || {
        farm.run("n2", "pgrep '^perl$' | wc -l | grep -q 2")
            .status
            .success()
    });

    // Calls have the results of home: the canary file and the server are not visible.
    ends(farm, &format!("outside /tmp/canary {PORT}"), "open 111");
    ends(farm, "descriptors", "descriptors 0");
    ends(farm, "pointers", "end");
    // Served at home, where these calls are permitted.
    ends(farm, "namespaces", "unshare 0");
    ends(farm, "traces", "traces 0");
    ends(farm, "int80", "int80 1");
    ends(farm, "x32", "x32 -1");
    // A guest that overwrites Armento's code or the data it reads harms only itself.
    attack(farm, "code");
    harmful_programs(farm);
    if crate::lab::long() {
        forks(farm);
        // Races against Armento's calls: they use all processors.
        for way in ["batch", "scratch", "region", "threads"] {
            attack(farm, way);
        }
        // Last: the node is short of memory for a while, and accepts no guest.
        let out = attack(farm, "bomb 4096");
        assert!(
            out.status.success() || out.status.code() == Some(137),
            "{out:?}"
        );
    }

    farm.sh("n1", "touch /tmp/over");
    until("the other guest's end", || {
        !farm.run("n1", "pgrep '^perl$'").status.success()
    });
    assert_eq!(farm.sh("n1", "cat /tmp/other"), "1");
    assert_eq!(farm.sh("n2", "cat /tmp/canary"), "secret\n");
    farm.sh("n2", "kill $(cat /tmp/server)");
    until("the end of all guests", || {
        let left = "pgrep '^(escape|harm|armento-guard|armento-zygote)' | wc -l";
        farm.sh("n2", left).trim() == "0"
    });
    farm.sh("n2", "armento nodes");
    let panics = "grep -l panicked /tmp/node.log /var/lib/armento/hosts/*.log; true";
    assert_eq!(farm.sh("n2", panics), "");
}
