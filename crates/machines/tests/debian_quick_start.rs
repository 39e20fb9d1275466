//! Two Debian machines, kernels 6.12 and 6.1, become a farm as described in the README, and programs of alice move.
//!
//! Booted once for all checks of `make test` on real machines: the others are in the long tests.

use armento_machines::farm::{COUNTER, Farm, Program, SOON, debian_12, install, join_line, place};
use armento_machines::{Kernel, Kind};

#[test]
fn two_debian_machines_move_programs_of_an_ordinary_user() {
    let kernels = [Kernel::V6_12, Kernel::V6_1];
    let Some(farm) = Farm::boot(&debian_12(Kind::Small, &kernels)) else {
        return;
    };
    farm.machines.iter().for_each(install);
    let (n1, n2) = (farm.n(1), farm.n(2));

    // The daemon waits for a farm, without ending.
    let waits = "systemctl is-active armento; systemctl show -p NRestarts --value armento";
    assert_eq!(n1.sh("root", waits), "active\n0\n");
    // The address that others reach, not Debian's 127.0.1.1; the other node gets the host's name.
    let join = join_line(&n1.sh("root", "armento farm init"));
    assert!(join.ends_with(" 10.9.9.1:7117"), "{join}");
    let by_name = join.replace("10.9.9.1:7117", "n1");
    n2.sh("root", &by_name);
    farm.all_alive();

    // A program's output away is its output natively. Its vDSO there is that of another kernel.
    let asks = "python3 -S -c \"import os, time; print(os.uname().release, time.time() > 1e9, 6 * 7)\"; echo $?";
    let native = n1.sh("alice", asks);
    let away = n1.sh("alice", &format!("armento run --on n2 {asks}"));
    assert_eq!(away, native);
    let back = n2.sh("alice", &format!("armento run --on n1 {asks}"));
    assert_eq!(back, n2.sh("alice", asks));

    // Files of root are read ahead for alice by leases of a process that the daemon may start.
    let read =
        "sh -c \"for i in 1 2 3; do cat /etc/services /etc/protocols; sleep 1; done\" | cksum";
    let away = n1.sh("alice", &format!("armento run --on n2 {read}"));
    assert_eq!(away, n1.sh("alice", read));
    let log = "cd /var/lib/armento; test -e lease-holder-*.log; cat lease-holder-*.log";
    assert_eq!(n1.sh("root", log), "", "it can do its work");

    // Yama 1: a child that is at home can leave.
    assert_eq!(n1.sh("root", "sysctl -n kernel.yama.ptrace_scope"), "1\n");
    let shell = Program::start(
        n1,
        "alice",
        "--stay",
        "sh -c \"sleep 600 & echo \\$! > child; wait\"",
    );
    let child = "cat /tmp/program.*/child";
    n1.until("its child", "alice", child, SOON);
    let child: u32 = n1.sh("alice", child).trim().parse().expect("a pid");
    n1.sh("alice", &format!("armento migrate {child} n2"));
    assert_eq!(place(n1, "alice", child).as_deref(), Some("n2"));

    // The daemon is restarted: its guests and their limits stay.
    let counts = Program::start(n1, "alice", "--on n2", COUNTER);
    counts.at("n2");
    let limits = "cd /sys/fs/cgroup; for g in $(find . -type d -name 'armento-n1-*'); do cat $g/memory.max; done";
    let before = n2.sh("root", limits);
    assert!(before.lines().count() >= 2, "{before}");
    n2.sh("root", "systemctl restart armento");
    farm.all_alive();
    assert_eq!(n2.sh("root", limits), before);
    assert_eq!(counts.place().as_deref(), Some("n2"));
    counts.touch("end");
    counts.ends(0);
    assert!(counts.out().starts_with("over "), "{}", counts.out());
    n1.sh("alice", &format!("kill {child}"));
    shell.ends(0);

    // No group is left on the other node.
    let gone = format!("test -z \"$({limits})\"");
    n2.until("the end of their groups", "root", &gone, SOON);
}
