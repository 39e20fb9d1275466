//! Programs that cannot move, and farms that break: one clear error line, and the program goes on or its death is
//! reported.

mod behind;
mod blocked;
mod checkpoint;
mod contexts;
mod demand;
mod discover;
mod drain;
mod escape;
mod files;
mod groups;
mod hundred;
mod keepers;
mod lab;
mod leaks;
mod looks;
mod manual;
mod mapping;
mod news;
mod peers;
mod permissions;
mod reasons;
mod recovered;
mod restarts;
mod rolling;
mod rootless;
mod routes;
mod safe;
mod sockets;
mod spread;
mod switches;
mod trust;
mod upgrade;

use lab::{Farm, until};
use std::process::Output;
use std::thread::sleep;
use std::time::Duration;

/// Command prefix: an ordinary user.
const USER: &str = "setpriv --reuid 1000 --regid 1000 --clear-groups";
/// About three seconds of computing and lines.
const PROGRAM: &str =
    r#"$|=1; for $i (1..60) { $x=0; for $j (1..400000) { $x+=$j%7 } print "$i $x\n"; }"#;

/// Load address of the test's 32-bit programs, and the length of their headers.
const BASE: u32 = 0x0804_8000;
const HEAD: u32 = 52 + 32;

/// A program that writes "32" and exits with 5.
fn prints_32() -> Vec<u8> {
    let mut code = vec![0xb8, 4, 0, 0, 0, 0xbb, 1, 0, 0, 0, 0xb9];
    code.extend((BASE + HEAD + 34).to_le_bytes());
    code.extend([0xba, 3, 0, 0, 0, 0xcd, 0x80]);
    code.extend([0xb8, 1, 0, 0, 0, 0xbb, 5, 0, 0, 0, 0xcd, 0x80]);
    assert_eq!(code.len(), 34);
    code.extend(b"32\n");
    code
}

/// Writes a 32-bit program to n1.
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

/// Standard error is one error line with these words, and a hint.
fn fails_with(out: &Output, words: &[&str]) {
    let err = text(&out.stderr);
    let ours: Vec<&str> = err.lines().filter(|l| l.starts_with("armento: ")).collect();
    assert_eq!(ours.len(), 1, "{out:?}");
    assert!(err.contains("\nhint: "), "{out:?}");
    assert!(
        words.iter().all(|w| ours[0].contains(w)),
        "{words:?}: {out:?}"
    );
}

fn setuid_and_32_bit_programs_stay(farm: &Farm) {
    farm.sh(
        "n1",
        "cp /usr/bin/id /tmp/suid; chown 4242 /tmp/suid; chmod 4755 /tmp/suid",
    );
    let out = farm.run("n1", &format!("{USER} armento run /tmp/suid -u"));
    assert_eq!(text(&out.stdout), "4242\n", "{out:?}");
    fails_with(&out, &["set-uid", "runs here"]);
    // With a node named by the user the program runs there, or not at all.
    let out = farm.run("n1", &format!("{USER} armento run --on n2 /tmp/suid -u"));
    assert_eq!(
        (out.status.code(), text(&out.stdout).as_str()),
        (Some(125), ""),
        "{out:?}"
    );
    fails_with(&out, &["set-uid", "nothing was started"]);
    // An exec by a body, and by one that shares its parent's memory (vfork).
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
    fails_with(&out, &["32-bit", "not begun"]);
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
    fails_with(&out, &["traces"]);
}

/// A program inherits what `armento run` was started with, not what Rust's runtime start-up makes of it.
fn signal_mask_and_stdin_are_inherited(farm: &Farm) {
    let look = "sh -c 'grep SigIgn /proc/self/status; readlink /proc/self/fd/0; exit 0'";
    for set in ["true", "trap \"\" PIPE", "exec <&-", "exec 2>&-"] {
        let native = farm.sh("n1", &format!("{set}; {look}"));
        for how in ["--stay", "--on n2"] {
            let ours = farm.sh("n1", &format!("{set}; armento run {how} {look}"));
            assert_eq!(ours, native, "{set}, {how}");
        }
    }
}

fn full_disks(farm: &Farm) {
    let dd = "dd if=/dev/zero of=/tmp/small/f bs=64k count=100 2>&1 | grep -v copied";
    let mount = "mkdir -p /tmp/small; mount -t tmpfs -o size=1m tmpfs /tmp/small";
    let native = farm.sh("n1", &format!("{mount}; {dd}"));
    let away = farm.sh(
        "n1",
        &format!("armento run --on n2 sh -c '{dd}'; umount /tmp/small"),
    );
    assert_eq!(away, native);
    // The disk of the other node, where the host keeps copies of files.
    farm.sh("n2", "d=/var/lib/armento; rm -rf $d/files; mkdir -p $d/files; mount -t tmpfs -o size=64k tmpfs $d/files");
    let out = farm.sh("n1", "armento run --on n2 perl -e 'print 6 * 7'");
    assert_eq!(out, "42");
    farm.sh("n2", "umount -l /var/lib/armento/files");
}

/// The memory of the other node is full: the guest that does not fit ends, and its user learns why.
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
            fails_with(&out, &["n2", "signal 9"]);
        }
    }
    farm.sh("n1", "armento nodes");
    farm.sh("n2", "armento nodes");
}

/// The link is cut as soon as the program has written a line; later it might have ended already.
fn cut_link(farm: &Farm, seconds: u32) -> (Output, String) {
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
fn full_cpu_demand_is_seen_on_a_throttled_node() {
    if let Some(farm) = Farm::with("demand", None, 0.1) {
        demand::waiting_for_the_node_counts_as_demand(&farm);
    }
}

#[test]
fn unmovable_programs_and_resource_failures_are_reported() {
    let Some(farm) = Farm::up("trouble", Some(300)) else {
        return;
    };
    signal_mask_and_stdin_are_inherited(&farm);
    setuid_and_32_bit_programs_stay(&farm);
    full_disks(&farm);
    no_memory(&farm);
    // Shorter than the time after which a tree is ended without its home.
    let (out, native) = cut_link(&farm, 1);
    assert_eq!(text(&out.stdout), native, "{out:?}");
    assert!(out.status.success(), "{out:?}");
}

#[test]
fn hostile_guest_stays_contained() {
    if let Some(farm) = Farm::up("escape", Some(450)) {
        escape::all_attacks_fail(&farm);
    }
}

#[test]
fn every_stay_reason_is_reported_with_remedy() {
    let Some(farm) = Farm::up("reasons", Some(450)) else {
        return;
    };
    reasons::from_programs(&farm);
    reasons::from_calls(&farm);
    reasons::from_memory(&farm);
    reasons::from_the_policy(&farm);
    reasons::from_nodes(&farm);
}

#[test]
fn many_moves_leak_nothing() {
    let Some(farm) = Farm::up("leaks", None) else {
        return;
    };
    leaks::many_moves(&farm);
}

#[test]
fn postgres_moves_as_a_group() {
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
fn spread_places_every_exec_and_keeps_rights() {
    let Some(farm) = Farm::up("spread", None) else {
        return;
    };
    spread::every_program_is_placed(&farm);
    spread::rights_are_kept(&farm);
    spread::tracers_in_the_tree_work(&farm);
}

/// Default limits: hosts freeze after 10 s and end after 30 s, and homes wait as long.
#[test]
fn short_link_cut_is_survived_and_long_cut_is_fatal() {
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
    let (out, native) = cut_link(&farm, 5);
    assert_eq!(text(&out.stdout), native, "{out:?}");
    let (out, native) = cut_link(&farm, 45);
    assert_eq!(out.status.code(), Some(137), "{out:?}");
    assert!(native.starts_with(&text(&out.stdout)), "{out:?}");
    fails_with(&out, &["n2", "lost"]);
    until("the end of the body", || {
        farm.sh("n2", "pgrep -c '^perl$' || true").trim() == "0"
    });
}

#[test]
fn leaving_node_returns_its_guests() {
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
fn farms_are_found_on_the_local_network() {
    let Some(farm) = Farm::up("found", None) else {
        return;
    };
    discover::farms_are_found_where_they_are_announced(&farm);
}

#[test]
fn commands_of_the_manual_succeed_and_contexts_control_a_farm() {
    let Some(farm) = Farm::up("manual", None) else {
        return;
    };
    manual::printed_commands_succeed(&farm);
    contexts::farm_is_controlled_from_another_machine(&farm);
}

#[test]
fn programs_begin_and_go_where_they_should() {
    if let Some(farm) = Farm::up("routes", None) {
        routes::nodes_out_of_reach_exchange_programs_through_home(&farm);
        routes::ranks_begin_where_their_launcher_put_them(&farm);
        routes::processes_that_share_memory_leave_a_busy_node_together(&farm);
    }
}

#[test]
fn files_of_root_are_known_to_programs_of_users() {
    if let Some(farm) = Farm::up("files", None) {
        files::of_root_are_known_to_programs_of_users(&farm);
    }
}

#[test]
fn moved_process_is_visible_and_controllable_at_home() {
    if let Some(farm) = Farm::up("looks", None) {
        looks::all_at_home(&farm);
    }
}

#[test]
fn process_moves_while_it_maps_files() {
    if let Some(farm) = Farm::up("mapping", None) {
        mapping::while_it_leaves(&farm);
        mapping::identical_files_are_not_transferred(&farm);
    }
}

#[test]
fn process_has_one_keeper() {
    let Some(farm) = Farm::up("keepers", None) else {
        return;
    };
    keepers::nested_run_keeps_the_outer_keeper(&farm);
    keepers::move_before_hello_makes_no_second_keeper(&farm);
    keepers::child_of_a_process_that_leaves_is_kept(&farm);
    keepers::adopted_shell_leaves_trees_their_keepers(&farm);
}

#[test]
fn daemon_restart_keeps_guests() {
    if let Some(farm) = Farm::up("restarts", None) {
        restarts::programs_do_not_notice(&farm);
    }
}

#[test]
fn rolling_upgrade_keeps_guests() {
    if let Some(farm) = Farm::up("upgrade", None) {
        let before = restarts::before(&farm);
        upgrade::programs_do_not_notice(&farm);
        upgrade::different_engines_refuse_trees(&farm);
        upgrade::replaced_binary_keeps_its_version(&farm);
        upgrade::incompatible_versions_are_refused(&farm);
        restarts::nothing_remains(&farm, &before);
    }
}

#[test]
fn farm_is_upgraded_by_one_command() {
    if let Some(farm) = Farm::up("rolling", None) {
        rolling::every_node_is_upgraded_in_turn_and_put_back(&farm);
    }
}

#[test]
fn blocking_call_survives_every_move() {
    if let Some(farm) = Farm::up("blocked", None) {
        blocked::waits_begun_at_home_keep_their_limit(&farm);
        blocked::every_call_survives_moves(&farm);
    }
}

#[test]
fn concurrent_move_orders_keep_output_right() {
    if let Some(farm) = Farm::up("hundred", None) {
        hundred::concurrent_orders(&farm);
    }
}

#[test]
fn postcopy_preserves_memory() {
    if let Some(farm) = Farm::up("behind", None) {
        behind::nothing_is_lost(&farm);
        behind::a_source_dies(&farm);
    }
}

#[test]
fn trust_changes_apply_to_running_programs() {
    let Some(farm) = Farm::up("trust", None) else {
        return;
    };
    trust::settings_apply_to_running_programs(&farm);
    trust::storms_respect_trust(&farm);
    trust::a_node_is_removed(&farm);
}

#[test]
fn switches_stop_arrivals_and_departures() {
    let Some(farm) = Farm::up("off", None) else {
        return;
    };
    switches::guests_are_kept_out_and_sent_away(&farm);
    switches::own_processes_come_home_and_stay(&farm);
    switches::policy_respects_switches(&farm);
    switches::owner_at_the_machine_has_priority(&farm);
    switches::each_user_has_own_limits(&farm);
    switches::dry_run_only_reports(&farm);
}

#[test]
fn drained_nodes_are_empty() {
    let Some(farm) = Farm::up("drain", None) else {
        return;
    };
    drain::patient(&farm);
    drain::a_drained_node_is_emptied_and_stays_so(&farm);
    drain::own_programs_come_home_if_that_is_asked(&farm);
    drain::what_is_left_is_named_when_the_time_is_over(&farm);
    drain::nodes_start_again_in_turn(&farm);
}

#[test]
fn hostile_peer_gains_nothing() {
    if let Some(farm) = Farm::up("peers", None) {
        peers::all_attacks_fail(&farm);
    }
}

#[test]
fn unprivileged_user_hosts_and_sends() {
    if let Some(farm) = Farm::up("rootless", None) {
        rootless::hosts_and_sends(&farm);
    }
}
