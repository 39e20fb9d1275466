//! Disks that are full or read-only, and AppArmor profiles that deny files: the result is as at home, or names a
//! reason.

use armento_machines::Machine;
use armento_machines::farm::{COUNTER, Farm, Program, SOON, runs_on};

/// Maps libraries, reads and writes.
const WORK: &str = "python3 -c \"import json, hashlib, ssl, sqlite3; open(\\\"/tmp/w\\\", \\\"w\\\").write(\\\"x\\\" * 9999); print(hashlib.sha256(open(\\\"/tmp/w\\\", \\\"rb\\\").read()).hexdigest())\"";
/// Until not even root finds room.
const FILL: &str = "dd if=/dev/zero of=/fill bs=1M 2>/dev/null; dd if=/dev/zero of=/fill2 bs=4k 2>/dev/null; ! sh -c 'echo x > /etc/more' 2>/dev/null";

/// A running program continues, new ones start, and the daemon restarts.
fn assert_goes_on(farm: &Farm, there: &Program, native: &str) {
    let (n1, n2) = (farm.n(1), farm.n(2));
    runs_on(n1, "n2");
    let said = n1.run("alice", &format!("armento run --on n2 {WORK}"));
    assert_eq!((said.code, said.out.as_str()), (0, native), "{said:?}");
    n2.sh("root", "systemctl restart armento");
    farm.all_alive();
    assert_eq!(there.place().as_deref(), Some("n2"), "{}", there.err());
    there.migrate("home");
    there.migrate("n2");
}

#[test]
fn node_with_full_or_read_only_disk_takes_guests() {
    let Some(farm) = Farm::pair_long() else {
        return;
    };
    let (n1, n2) = (farm.n(1), farm.n(2));
    let native = n1.sh("alice", WORK);
    let there = Program::start(n1, "alice", "--on n2", COUNTER);
    there.at("n2");

    n2.sh("root", FILL);
    assert_goes_on(&farm, &there, &native);
    n2.sh("root", "rm /fill /fill2");

    // KERNEL: Documentation/admin-guide/sysrq.rst: u remounts all file systems read-only, as on a failing disk.
    n2.sh("root", "echo u > /proc/sysrq-trigger");
    n2.until(
        "a read-only root",
        "root",
        "! touch /etc/more 2>/dev/null",
        SOON,
    );
    assert_goes_on(&farm, &there, &native);
    there.touch("end");
    there.ends(0);
}

#[test]
fn full_disk_at_home_is_reported_to_the_program() {
    let Some(farm) = Farm::pair_long() else {
        return;
    };
    let n1 = farm.n(1);
    runs_on(n1, "n2");
    n1.sh("root", FILL);
    let writes =
        "sh -c \"cp /etc/passwd /home/alice/more; echo code \\$?; wc -c < /home/alice/more\"";
    let native = n1.run("alice", writes);
    assert!(native.err.contains("No space left"), "{native:?}");
    let away = n1.run("alice", &format!("armento run --on n2 {writes}"));
    assert_eq!(
        (away.code, &away.out, &away.err),
        (native.code, &native.out, &native.err)
    );
    n1.sh("root", "systemctl restart armento");
    farm.all_alive();
    n1.sh("root", "rm /fill /fill2");
}

/// A copy of cat that may read some files and not others.
fn confine(m: &Machine, program: &str, base: &str) {
    let profile = format!(
        "abi <abi/3.0>,\ninclude <tunables/global>\nprofile {program} /usr/local/bin/{program} {{\n{base}\n  /usr/local/bin/{program} mr,\n  \
         /usr/lib/** mr,\n  /etc/ld.so.cache r,\n  /etc/passwd r,\n}}\n"
    );
    m.sh(
        "root",
        &format!(
            "cp /bin/cat /usr/local/bin/{program}; cat > /etc/apparmor.d/{program} <<'E'\n{profile}E\n\
             apparmor_parser -r /etc/apparmor.d/{program}"
        ),
    );
}

#[test]
fn apparmor_profile_at_home_holds_away() {
    let Some(farm) = Farm::pair_long() else {
        return;
    };
    let n1 = farm.n(1);
    runs_on(n1, "n2");
    confine(n1, "catbase", "  include <abstractions/base>");
    confine(n1, "catbare", "");
    for program in ["catbase", "catbare"] {
        let reads = format!("/usr/local/bin/{program} /etc/passwd /etc/fstab");
        let native = n1.run("alice", &reads);
        assert!(native.err.contains("Permission denied"), "{native:?}");
        let away = n1.run("alice", &format!("armento run --on n2 {reads}"));
        match away.code {
            125 => assert!(away.err.contains("AppArmor"), "{program}: {away:?}"),
            code => assert_eq!(
                (code, &away.out, &away.err),
                (native.code, &native.out, &native.err),
                "{program}"
            ),
        }
        // Without --on it runs, on either node.
        let free = n1.run("alice", &format!("armento run {reads}"));
        assert_eq!(
            (free.code, &free.out),
            (native.code, &native.out),
            "{program}: {free:?}"
        );
    }
}
