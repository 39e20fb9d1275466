//! Machines lose their power and come back: programs at home go on, and files left behind by a power cut are not
//! trusted.

use armento_machines::farm::{COUNTER, Farm, NO_BODY, Program, SOON, runs_on};
use armento_machines::{Kernel, Kind, Machine};

/// Number of power cuts of each machine.
const CUTS: usize = 10;
/// Away it maps libraries; a power cut may have truncated their cached copies.
const ASKS: &str = "python3 -c \"import json, hashlib, ssl, sqlite3; print(hashlib.sha256(json.dumps(list(range(999))).encode()).hexdigest())\"";

fn right_away(home: &Machine, node: &str, native: &str) {
    runs_on(home, node);
    let reply = home.run("alice", &format!("armento run --on {node} {ASKS}"));
    assert_eq!(
        (reply.code, reply.out.as_str()),
        (0, native),
        "{}",
        reply.err
    );
}

#[test]
fn power_cuts_lose_no_program_at_home_and_give_no_wrong_result() {
    let kernels = [Kernel::V6_12, Kernel::V6_1];
    let Some(farm) = Farm::up_long(Kind::Small, &kernels) else {
        return;
    };
    let (n1, n2) = (farm.n(1), farm.n(2));
    let native = n1.sh("alice", ASKS);

    // The host of guests: those end with the reason, and programs at home do not notice.
    let stays = Program::start(n1, "alice", "--stay", COUNTER);
    for cut in 1..=CUTS {
        eprintln!("cut {cut} of {CUTS} of the guests' host");
        let away = Program::start(n1, "alice", "--on n2", COUNTER);
        away.at("n2");
        right_away(n1, "n2", &native);
        n2.power_cut().expect("cut");
        away.ends(137);
        assert!(away.err().contains("n2"), "{}", away.err());
        assert_eq!(stays.place().as_deref(), Some("n1"), "cut {cut}");
        n2.boot().expect("booted");
        farm.all_alive();
        right_away(n1, "n2", &native);
    }
    stays.touch("end");
    stays.ends(0);

    // The home of programs: their bodies end, and the next boot starts without their state.
    for cut in 1..=CUTS {
        eprintln!("cut {cut} of {CUTS} of the home");
        let away = Program::start(n1, "alice", "--on n2", COUNTER);
        away.at("n2");
        n1.power_cut().expect("cut");
        n2.until("the end of its body", "root", NO_BODY, SOON);
        n1.boot().expect("booted");
        farm.all_alive();
        assert_eq!(
            n1.sh("root", "armento ps --json | grep -c COUNT || true"),
            "0\n"
        );
        right_away(n1, "n2", &native);
    }
}

#[test]
fn reboot_returns_guests_and_ends_bodies_of_own_programs() {
    let Some(farm) = Farm::pair_long() else {
        return;
    };
    let (n1, n2) = (farm.n(1), farm.n(2));
    let all: Vec<_> = (0..3)
        .map(|_| Program::start(n1, "alice", "--on n2", COUNTER))
        .collect();
    all.iter().for_each(|p| p.at("n2"));
    n2.reboot().expect("rebooted");
    farm.all_alive();
    for p in &all {
        assert_eq!(p.place().as_deref(), Some("n1"), "{}", p.err());
        p.touch("end");
    }
    all.iter().for_each(|p| p.ends(0));

    let away = Program::start(n1, "alice", "--on n2", COUNTER);
    away.at("n2");
    n1.reboot().expect("rebooted");
    farm.all_alive();
    n2.until("the end of its body", "root", NO_BODY, SOON);
}
