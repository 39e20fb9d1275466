//! Programs that cannot move, and farms that break: one clear line, and the program goes on or ends truthfully.

mod behind;
mod blocked;
mod demand;
mod escape;
mod groups;
mod hundred;
mod keepers;
mod lab;
mod leaks;
mod looks;
mod mapping;
mod news;
mod peers;
mod permissions;
mod reasons;
mod restarts;
mod rootless;
mod spread;
mod switches;
mod trust;
mod upgrade;

use lab::{Farm, until};
use std::process::Output;
use std::thread::sleep;
use std::time::Duration;

/// As an ordinary user.
const USER: &str = "setpriv --reuid 1000 --regid 1000 --clear-groups";
/// About three seconds of computing and lines.
const PROGRAM: &str =
    r#"$|=1; for $i (1..60) { $x=0; for $j (1..400000) { $x+=$j%7 } print "$i $x\n"; }"#;

/// Where 32-bit programs of ours are loaded, and how long their headers are.
const BASE: u32 = 0x0804_8000;
const HEAD: u32 = 52 + 32;

/// It writes "32" and exits with 5.
fn prints_32() -> Vec<u8> {
    let mut code = vec![0xb8, 4, 0, 0, 0, 0xbb, 1, 0, 0, 0, 0xb9];
    code.extend((BASE + HEAD + 34).to_le_bytes());
    code.extend([0xba, 3, 0, 0, 0, 0xcd, 0x80]);
    code.extend([0xb8, 1, 0, 0, 0, 0xbb, 5, 0, 0, 0, 0xcd, 0x80]);
    assert_eq!(code.len(), 34);
    code.extend(b"32\n");
    code
}

/// A 32-bit program on n1.
fn install32(farm: &Farm, path: &str, code: &[u8]) {
    let bytes: String = elf32(code).iter().map(|b| format!("\\x{b:02x}")).collect();
    let make = format!("perl -e 'print \"{bytes}\"' > {path}; chmod 755 {path}");
    farm.sh("n1", &make);
}

fn elf32(code: &[u8]) -> Vec<u8> {
    let size = HEAD + code.len() as u32;
    let mut f = b"\x7fELF\x01\x01\x01".to_vec();
    f.resize(16, 0);
    f.extend([2, 0, 3, 0]);
    for word in [1, BASE + HEAD, 52, 0, 0] {
        f.extend(u32::to_le_bytes(word));
    }
    for half in [52u16, 32, 1, 0, 0, 0] {
        f.extend(half.to_le_bytes());
    }
    for word in [1, 0, BASE, BASE, size, size, 5, 0x1000] {
        f.extend(u32::to_le_bytes(word));
    }
    f.extend(code);
    f
}

fn text(b: &[u8]) -> String {
    String::from_utf8_lossy(b).into_owned()
}

/// One line of ours and a hint on standard error, with these words.
fn told(out: &Output, words: &[&str]) {
    let err = text(&out.stderr);
    let ours: Vec<&str> = err.lines().filter(|l| l.starts_with("armento: ")).collect();
    assert_eq!(ours.len(), 1, "{out:?}");
    assert!(err.contains("\nhint: "), "{out:?}");
    assert!(
        words.iter().all(|w| ours[0].contains(w)),
        "{words:?}: {out:?}"
    );
}

fn programs_that_stay(farm: &Farm) {
    farm.sh(
        "n1",
        "cp /usr/bin/id /tmp/suid; chown 4242 /tmp/suid; chmod 4755 /tmp/suid",
    );
    let out = farm.run("n1", &format!("{USER} armento run /tmp/suid -u"));
    assert_eq!(text(&out.stdout), "4242\n", "{out:?}");
    told(&out, &["set-uid", "runs here"]);
    // Whose user names a node gets it there, or nothing.
    let out = farm.run("n1", &format!("{USER} armento run --on n2 /tmp/suid -u"));
    assert_eq!(
        (out.status.code(), text(&out.stdout).as_str()),
        (Some(125), ""),
        "{out:?}"
    );
    told(&out, &["set-uid", "nothing was started"]);
    // Exec'd by a body, also by one that shares its parent's memory (vfork).
    let script = r#"echo $(/tmp/suid -u); exec /tmp/suid -u"#;
    let out = farm.run(
        "n1",
        &format!("{USER} armento run --on n2 sh -c '{script}'"),
    );
    assert_eq!(text(&out.stdout), "4242\n4242\n", "{out:?}");

    install32(farm, "/tmp/e32", &prints_32());
    let out = farm.run("n1", "armento run --on n2 /tmp/e32");
    assert_eq!(
        (out.status.code(), text(&out.stdout).as_str()),
        (Some(125), ""),
        "{out:?}"
    );
    told(&out, &["32-bit", "not begun"]);
    let out = farm.run("n1", "armento run /tmp/e32");
    assert_eq!(
        (out.status.code(), text(&out.stdout).as_str()),
        (Some(5), "32\n"),
        "{out:?}"
    );

    let traced = "sleep 20 & p=$!; strace -o /dev/null -p $p 2>/dev/null & s=$!; sleep 1; \
                  armento migrate $p n2; e=$?; kill $s $p; exit $e";
    let out = farm.run("n1", traced);
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    told(&out, &["traces"]);
}

/// A program has what `armento run` was started with, not what our language's start-up makes of it.
fn what_is_inherited(farm: &Farm) {
    let look = "sh -c 'grep SigIgn /proc/self/status; readlink /proc/self/fd/0; exit 0'";
    for set in ["true", "trap \"\" PIPE", "exec <&-", "exec 2>&-"] {
        let native = farm.sh("n1", &format!("{set}; {look}"));
        for how in ["--stay", "--on n2"] {
            let ours = farm.sh("n1", &format!("{set}; armento run {how} {look}"));
            assert_eq!(ours, native, "{set}, {how}");
        }
    }
}

fn a_full_disk(farm: &Farm) {
    let dd = "dd if=/dev/zero of=/tmp/small/f bs=64k count=100 2>&1 | grep -v copied";
    let mount = "mkdir -p /tmp/small; mount -t tmpfs -o size=1m tmpfs /tmp/small";
    let native = farm.sh("n1", &format!("{mount}; {dd}"));
    let away = farm.sh(
        "n1",
        &format!("armento run --on n2 sh -c '{dd}'; umount /tmp/small"),
    );
    assert_eq!(away, native);
    // The other node's disk, where copies of files are shared.
    farm.sh("n2", "d=/var/lib/armento; rm -rf $d/files; mkdir -p $d/files; mount -t tmpfs -o size=64k tmpfs $d/files");
    let out = farm.sh("n1", "armento run --on n2 perl -e 'print 6 * 7'");
    assert_eq!(out, "42");
    farm.sh("n2", "umount -l /var/lib/armento/files");
}

/// The other node's memory is full: what does not fit there ends, and its user learns why.
fn no_memory(farm: &Farm) {
    let grow = "@a = map { $_ x (10 << 20) } 1..60; print scalar(@a)";
    let out = farm.run(
        "n1",
        &format!("armento run --on n2 perl -e '{grow}'; exit $?"),
    );
    match out.status.code() {
        Some(0) => assert_eq!(text(&out.stdout), "60", "{out:?}"),
        _ => {
            assert_eq!(out.status.code(), Some(137), "{out:?}");
            told(&out, &["n2", "signal 9"]);
        }
    }
    farm.sh("n1", "armento nodes");
    farm.sh("n2", "armento nodes");
}

/// Cut as soon as it has said something, or it may have ended before.
fn a_cut(farm: &Farm, seconds: u32) -> (Output, String) {
    let native = farm.sh("n1", &format!("perl -e '{PROGRAM}'"));
    until("three nodes", || {
        let nodes = farm.sh("n1", "armento nodes --json");
        nodes.matches("\"alive\"").count() == 3
    });
    let start = format!(
        "rm -f /tmp/cut; armento run --on n2 perl -e '{PROGRAM}' >/tmp/cut 2>/tmp/cut.err & p=$!"
    );
    let begun = "i=0; until test -s /tmp/cut || test $i = 600; do sleep 0.1; i=$((i+1)); done";
    let cut = format!("ip link set eth0 down; sleep {seconds}; ip link set eth0 up");
    let end = "wait $p; e=$?; cat /tmp/cut; cat /tmp/cut.err >&2; exit $e";
    let out = farm.run("n1", &format!("{start}; {begun}; {cut}; {end}"));
    (out, native)
}

#[test]
fn who_computes_and_asks_its_node_wants_all_of_a_slow_one() {
    if let Some(farm) = Farm::with("demand", None, 0.1) {
        demand::asking_is_no_sleep(&farm);
    }
}

#[test]
fn what_cannot_move_and_what_breaks() {
    let Some(farm) = Farm::up("trouble", Some(300)) else {
        return;
    };
    what_is_inherited(&farm);
    programs_that_stay(&farm);
    a_full_disk(&farm);
    no_memory(&farm);
    // Shorter than a tree waits for its home.
    let (out, native) = a_cut(&farm, 1);
    assert_eq!(text(&out.stdout), native, "{out:?}");
    assert!(out.status.success(), "{out:?}");
}

#[test]
fn a_guest_that_wants_out_stays_in() {
    if let Some(farm) = Farm::up("escape", Some(450)) {
        escape::of_guests(&farm);
    }
}

#[test]
fn every_reason_to_stay_is_told_with_its_remedy() {
    let Some(farm) = Farm::up("reasons", Some(450)) else {
        return;
    };
    reasons::of_programs(&farm);
    reasons::of_calls(&farm);
    reasons::of_memory(&farm);
    reasons::of_the_policy(&farm);
    reasons::of_nodes(&farm);
}

#[test]
fn many_moves_leave_nothing_behind() {
    let Some(farm) = Farm::up("leaks", None) else {
        return;
    };
    leaks::of_many_moves(&farm);
}

#[test]
fn a_database_moves_as_a_group() {
    let Some(bin) = groups::postgres() else {
        println!("skipped: PostgreSQL is not installed (package postgresql)");
        return;
    };
    let Some(farm) = Farm::up("group", None) else {
        return;
    };
    groups::a_database_moves_under_load(&farm, &bin);
}

#[test]
fn a_tree_is_spread_from_the_first_instant() {
    let Some(farm) = Farm::up("spread", None) else {
        return;
    };
    spread::every_program_is_placed(&farm);
    spread::rights_are_kept(&farm);
    spread::tracers_of_its_own_work(&farm);
}

/// Hosts freeze after 10 s and end after 30 s, and homes wait as long, as a user has it.
#[test]
fn a_link_is_cut_for_five_seconds_and_for_good() {
    if !lab::long() {
        return;
    }
    let Some(farm) = Farm::up("cut", None) else {
        return;
    };
    for node in ["n1", "n2"] {
        farm.sh(node, "sed -i 's/^freeze_ms.*//; s/^dead_ms.*//' /etc/armento/config.toml; pkill -f '[a]rmento node'");
        farm.daemon(node);
    }
    sleep(Duration::from_secs(3));
    let (out, native) = a_cut(&farm, 5);
    assert_eq!(text(&out.stdout), native, "{out:?}");
    let (out, native) = a_cut(&farm, 45);
    assert_eq!(out.status.code(), Some(137), "{out:?}");
    assert!(native.starts_with(&text(&out.stdout)), "{out:?}");
    told(&out, &["n2", "lost"]);
    until("the end of the body", || {
        farm.sh("n2", "pgrep -c '^perl$' || true").trim() == "0"
    });
}

#[test]
fn a_node_leaves_with_guests_on_it() {
    let Some(farm) = Farm::up("leave", None) else {
        return;
    };
    let native = farm.sh("n1", &format!("perl -e '{PROGRAM}'"));
    let start = format!(
        "rm -f /tmp/cut; armento run --on n2 perl -e '{PROGRAM}' > /tmp/out 2>&1 & echo $!"
    );
    farm.sh("n1", &start);
    let there = || {
        farm.run("n1", "armento ps --json | grep -q '\"place\": *\"n2\"'")
            .status
            .success()
    };
    until("a guest on n2", there);
    farm.sh("n2", "armento leave");
    assert!(!farm.run("n2", "pgrep '^perl$'").status.success());
    until("two nodes", || {
        farm.sh("n1", "armento nodes --json")
            .matches("\"alive\"")
            .count()
            == 2
    });
    until("the end", || {
        !farm.run("n1", "pgrep '^perl$'").status.success()
    });
    assert_eq!(farm.sh("n1", "cat /tmp/out"), native);
}

#[test]
fn one_who_is_away_is_seen_and_handled_at_home() {
    if let Some(farm) = Farm::up("looks", None) {
        looks::at_home(&farm);
    }
}

#[test]
fn one_who_maps_files_leaves_all_the_same() {
    if let Some(farm) = Farm::up("mapping", None) {
        mapping::while_it_leaves(&farm);
        mapping::own_files(&farm);
    }
}

#[test]
fn a_process_has_one_keeper() {
    let Some(farm) = Farm::up("keepers", None) else {
        return;
    };
    keepers::trees_in_trees(&farm);
    keepers::moved_at_once(&farm);
    keepers::adopted_above(&farm);
}

#[test]
fn daemons_are_killed_and_nobody_notices() {
    if let Some(farm) = Farm::up("restarts", None) {
        restarts::nobody_notices(&farm);
    }
}

#[test]
fn a_farm_is_upgraded_node_by_node() {
    if let Some(farm) = Farm::up("upgrade", None) {
        let before = restarts::before(&farm);
        upgrade::nobody_notices(&farm);
        upgrade::other_engines_refuse(&farm);
        upgrade::the_file_is_replaced(&farm);
        upgrade::who_is_too_old_is_told(&farm);
        restarts::nothing_is_left(&farm, &before);
    }
}

#[test]
fn a_blocking_call_survives_every_move() {
    if let Some(farm) = Farm::up("blocked", None) {
        blocked::waits_on_from_home(&farm);
        blocked::is_moved_in_every_call(&farm);
    }
}

#[test]
fn a_small_program_moves_as_often_as_it_is_told() {
    if let Some(farm) = Farm::up("hundred", None) {
        hundred::moves_a_second(&farm);
    }
}

#[test]
fn memory_comes_behind_the_flip() {
    if let Some(farm) = Farm::up("behind", None) {
        behind::nothing_is_lost(&farm);
        behind::a_source_dies(&farm);
    }
}

#[test]
fn trust_is_chosen_and_taken_back() {
    let Some(farm) = Farm::up("trust", None) else {
        return;
    };
    trust::settings_hold_for_what_runs(&farm);
    trust::storms_obey(&farm);
    trust::a_node_is_removed(&farm);
}

#[test]
fn what_is_switched_off_neither_comes_nor_goes() {
    let Some(farm) = Farm::up("off", None) else {
        return;
    };
    switches::guests_are_kept_out_and_sent_away(&farm);
    switches::ours_come_home_and_stay(&farm);
    switches::the_policy_obeys(&farm);
    switches::an_owner_comes_first(&farm);
    switches::a_user_has_limits_of_his_own(&farm);
    switches::a_dry_run_only_tells(&farm);
}

#[test]
fn a_peer_that_means_harm_gets_nothing() {
    if let Some(farm) = Farm::up("peers", None) {
        peers::get_nothing(&farm);
    }
}

#[test]
fn a_user_without_any_privilege_hosts_and_sends() {
    if let Some(farm) = Farm::up("rootless", None) {
        rootless::hosts_and_sends(&farm);
    }
}
