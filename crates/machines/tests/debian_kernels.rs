//! The conformance list with kernels 6.1 and 6.12 as home and as target, as alice, under Yama 1 and systemd.

use armento_machines::farm::Farm;
use armento_machines::{Kernel, Kind};

/// All guests of one pair, emulated: two hours at most.
const PAIR_S: u64 = 7200;

#[test]
fn every_guest_is_away_what_it_is_natively_between_all_kernels() {
    let (old, new) = (Kernel::V6_1, Kernel::V6_12);
    let Some(farm) = Farm::up_long(Kind::Full, &[new, new, old, old]) else {
        return;
    };
    let mut wrong = String::new();
    for (home, target) in [(1, "n2"), (1, "n3"), (3, "n1"), (3, "n4")] {
        let run = format!(
            "cd /tmp && armento conform --to {target} --mode home,away --timeout 600 --jobs 2"
        );
        let said = farm.n(home).run_for("alice", &run, PAIR_S);
        println!(
            "n{home} -> {target}: {}",
            said.out.lines().last().unwrap_or_default()
        );
        if said.code != 0 {
            wrong += &format!("n{home} -> {target}:\n{}\n{}\n", said.out, said.err);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
