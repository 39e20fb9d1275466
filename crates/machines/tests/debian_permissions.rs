//! Restrictive settings of Debian and Ubuntu are either handled, or named in the error.

use armento_machines::farm::{Farm, Program, SOON, place};

#[test]
fn restrictive_settings_are_handled_or_named() {
    let Some(farm) = Farm::pair_long() else {
        return;
    };
    let (n1, n2) = (farm.n(1), farm.n(2));

    // Yama 1: a process that was not started by `armento run` stays, and Yama is named; under 0 it moves.
    let adopt = "sleep 300 >/dev/null 2>&1 </dev/null & armento migrate $! n2; echo $?; kill $!";
    let said = n1.run("alice", adopt);
    assert!(
        said.out.contains("125") && said.err.contains("kernel.yama.ptrace_scope"),
        "{said:?}"
    );
    n1.sh("root", "sysctl -q kernel.yama.ptrace_scope=0");
    let said = n1.run("alice", adopt);
    assert!(said.out.ends_with("0\n"), "{said:?}");
    n1.sh("root", "sysctl -q kernel.yama.ptrace_scope=1");

    // The balancer moves children that are at home, without --spread.
    let spins = "i=0; while [ $i -lt 100000000 ]; do i=$((i+1)); done";
    n1.sh("alice", &format!("printf '%s' '{spins}' > spin"));
    let many = Program::start(
        n1,
        "alice",
        "",
        "sh -c \"for k in 1 2 3; do sh ~/spin & done; wait\"",
    );
    let away = "armento ps --json | grep -c '\"place\":\"n2\"\\|\"place\": \"n2\"'";
    n1.until("a child that left", "alice", away, SOON * 2);
    n1.sh("alice", "pkill -f '^sh /home/alice/spin'");
    many.ends(0);

    // No user namespaces on n2: the program is not run, and the setting is named.
    n2.sh("root", "sysctl -q user.max_user_namespaces=0");
    let said = n1.run("alice", "armento run --on n2 touch /tmp/ran");
    assert_eq!(said.code, 125, "{said:?}");
    assert!(said.err.contains("user.max_user_namespaces"), "{said:?}");
    assert_eq!(n1.run("alice", "ls /tmp/ran 2>/dev/null").out, "");
    n2.sh("root", "sysctl -q user.max_user_namespaces=10000");
    n1.until(
        "it runs there again",
        "alice",
        "armento run --on n2 true",
        SOON,
    );

    // User namespaces only for root: hosts of root's daemon have theirs, and guests get no right of root's.
    n2.sh("root", "sysctl -q kernel.unprivileged_userns_clone=0");
    let held = Program::start(n1, "alice", "--on n2", "sleep 600");
    // A guard has them in its own user namespace, and only there.
    let rights = "for p in $(pgrep -f '^/usr/bin/armento host'); do \
        [ $(readlink /proc/$p/ns/user) != $(readlink /proc/self/ns/user) ] || grep '^Cap[IPE]' /proc/$p/status; done";
    let rights = n2.sh("root", rights);
    let none = |line: &str| line.ends_with("\t0000000000000000");
    assert!(!rights.is_empty() && rights.lines().all(none), "{rights}");
    n1.sh("alice", "pkill -x sleep");
    held.ends(143);
    let said = n2.run("root", "armento doctor");
    assert!(
        !said.out.contains("kernel.unprivileged_userns_clone"),
        "{said:?}"
    );
    n2.sh("root", "sysctl -q kernel.unprivileged_userns_clone=1");

    // A child at home can be moved by command, too.
    let shell = Program::start(
        n1,
        "alice",
        "--stay",
        "sh -c \"sleep 600 & echo \\$! > child; wait\"",
    );
    n1.until("its child", "alice", "cat /tmp/program.*/child", SOON);
    let child: u32 = n1
        .sh("alice", "cat /tmp/program.*/child")
        .trim()
        .parse()
        .expect("a pid");
    n1.sh("alice", &format!("armento migrate {child} n2"));
    assert_eq!(place(n1, "alice", child).as_deref(), Some("n2"));
    n1.sh("alice", &format!("kill {child}"));
    shell.ends(0);

    // doctor checks as the user: nothing about labs, and no wrong ok.
    n2.sh("root", "sysctl -q user.max_user_namespaces=0");
    let said = n2.run("root", "armento doctor");
    assert!(said.out.contains("user.max_user_namespaces"), "{said:?}");
    n2.sh("root", "sysctl -q user.max_user_namespaces=10000");
    let said = n1.run("alice", "armento doctor");
    assert!(!said.out.contains("overlayfs"), "{said:?}");
}
