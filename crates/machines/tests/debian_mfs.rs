//! MFS under systemd: the service has a mount namespace of its own, without /home and with another /tmp; its mount is
//! everybody's all the same, and its file servers see what their users see. It outlives restarts and crashes of the service.

use armento_machines::farm::{Farm, SOON};

/// Writes lines to a file of n2 until ~/stop is there.
const WRITES: &str = "(setsid sh -c 'exec 3> /mfs/n2/home/alice/log; i=0; while [ ! -e stop ]; do i=$((i+1)); echo $i >&3 || exit; sleep 0.02; done; \
     echo $i > wrote' > out 2>&1 < /dev/null &) > /dev/null 2>&1";

#[test]
fn mount_of_the_service_is_everybodys() {
    let Some(farm) = Farm::pair_long() else {
        return;
    };
    let (n1, n2) = (farm.n(1), farm.n(2));
    for m in &farm.machines {
        m.sh("root", "hostname > /srv/name; armento mfs on");
    }
    assert_eq!(n1.sh("alice", "cat /mfs/n2/srv/name").trim(), "n2");
    n2.sh(
        "alice",
        "echo home > ~/file; echo tmp > /tmp/hers; chmod 600 ~/file",
    );
    let read = "cat /mfs/n2/home/alice/file /mfs/n2/tmp/hers";
    assert_eq!(n1.sh("alice", read), "home\ntmp\n");
    assert_ne!(n1.run("bob", "cat /mfs/n2/home/alice/file").code, 0);
    n1.sh("alice", "umask 027; echo new > /mfs/n2/home/alice/new");
    let made = n2.sh("alice", "stat -c '%U %G %a' ~/new; cat ~/new");
    assert_eq!(made, "alice alice 640\nnew\n");

    let pids = |verb: &str| format!("pgrep -f '^/usr/bin/armento {verb}'");
    let mount = n1.sh("root", &pids("mfs-mount"));
    let groups = n1.sh("root", &format!("cat /proc/{}/cgroup", mount.trim()));
    assert!(groups.contains("armento-guests.scope"), "{groups}");
    n1.sh("alice", WRITES);
    let lines = "wc -l < /home/alice/log";
    for m in [n1, n2] {
        for end in [
            "systemctl restart armento",
            "kill -KILL $(systemctl show -p MainPID --value armento); systemctl reset-failed armento; systemctl start armento",
        ] {
            m.sh("root", end);
            farm.all_alive();
            let before = n2.sh("alice", lines);
            let grows = format!("test $({lines}) -gt {}", before.trim());
            n2.until("further lines", "alice", &grows, SOON);
        }
    }
    assert_eq!(n1.sh("root", &pids("mfs-mount")), mount);
    n1.sh("alice", "touch stop");
    n1.until("its end", "alice", "test -s wrote", SOON);
    let wrote = n1.sh("alice", "cat wrote out");
    n2.sh("alice", &format!("seq {} | cmp - log", wrote.trim()));

    // Before the package is removed.
    n1.sh("root", "systemctl stop armento");
    assert_eq!(n1.sh("alice", "cat /mfs/n2/srv/name").trim(), "n2");
    n1.sh("root", "systemctl start armento");
    farm.all_alive();
    n1.sh("root", "armento service removing --timeout 60");
    n1.until(
        "nothing is mounted",
        "root",
        "! grep ' /mfs ' /proc/mounts",
        SOON,
    );
}
