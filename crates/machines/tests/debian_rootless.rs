//! Alice's own daemons, without root, between Debian machines under Yama 1: what works, and what is refused with the
//! reason.

use armento_machines::farm::{Farm, SOON, debian_12, install, join_line};
use armento_machines::{Kernel, Kind, Machine};

/// As in the manual (service.md, "Without root"); a login of alice's has it from `.profile`.
const OWN: &str = "export ARMENTO_STATE=$HOME/armento ARMENTO_SOCKET=$HOME/armento.socket";

fn own(m: &Machine, words: &str) -> String {
    m.sh("alice", &format!("{OWN}; {words}"))
}

fn daemon(m: &Machine) {
    let start = "setsid armento node > node.log 2>&1 < /dev/null &";
    own(m, start);
    let answers = format!("{OWN}; armento nodes");
    m.until("alice's daemon", "alice", &answers, SOON);
}

#[test]
fn unprivileged_daemons_form_a_farm() {
    let Some(farm) = Farm::boot_long(&debian_12(Kind::Small, &[Kernel::V6_12; 2])) else {
        return;
    };
    farm.machines.iter().for_each(install);
    let (n1, n2) = (farm.n(1), farm.n(2));
    let join = join_line(&own(n1, "armento farm init --listen 10.9.9.1:7818"));
    daemon(n1);
    own(n2, &format!("{join} --listen 10.9.9.2:7818"));
    daemon(n2);
    let both = format!("{OWN}; test $(armento nodes --json | grep -o '\"alive\"' | wc -l) = 2");
    for m in [n1, n2] {
        m.until("two nodes", "alice", &both, SOON);
    }

    // Its output there is its native output, and it can be moved by command.
    let asks = "python3 -S -c 'import os; print(os.getuid(), os.uname().nodename, sum(range(10**6)))'; echo $?";
    assert_eq!(
        own(n1, &format!("armento run --on n2 {asks}")),
        n1.sh("alice", asks)
    );
    for options in ["--on n2", "--stay"] {
        let program = own(
            n1,
            &format!("armento run {options} sleep 600 > said 2>&1 < /dev/null & echo $!"),
        );
        let pid = program.trim();
        let listed = format!("{OWN}; armento ps --json | grep -q '\"pid\": *{pid},'");
        n1.until("its program", "alice", &listed, SOON);
        own(
            n1,
            &format!("armento migrate {pid} home && armento migrate {pid} n2"),
        );
        own(
            n1,
            &format!("armento ps --json | grep -q '\"place\": *\"n2\"' && kill {pid}"),
        );
    }

    // What is unavailable is reported by doctor, and by the command that needs it.
    let said = own(n1, "armento doctor; true");
    assert!(said.contains("rootless"), "{said}");
    n2.sh("root", "sysctl -q kernel.unprivileged_userns_clone=0");
    let no = n1.run(
        "alice",
        &format!("{OWN}; armento run --on n2 touch /tmp/ran"),
    );
    assert_eq!(no.code, 125, "{no:?}");
    assert!(
        no.err.contains("kernel.unprivileged_userns_clone"),
        "{no:?}"
    );
    let doctor = own(n2, "armento doctor; true");
    assert!(
        doctor.contains("kernel.unprivileged_userns_clone"),
        "{doctor}"
    );
    assert_eq!(n1.run("alice", "ls /tmp/ran 2>/dev/null").out, "");
    n2.sh("root", "sysctl -q kernel.unprivileged_userns_clone=1");
    // Root's own farm is another one, beside it.
    assert!(
        n1.sh("root", "systemctl is-active armento")
            .contains("active")
    );
}
