//! The conformance list with kernels 6.1 and 6.12 as home and as target, as alice, under Yama 1 and systemd.

use armento_machines::farm::Farm;
use armento_machines::{Kernel, Kind};

/// Time limit for all guests of one pair, emulated.
const PAIR_S: u64 = 7200;
/// Home and target by their numbers, of 6.12, 6.12, 6.1, 6.1. `ARMENTO_KERNEL_PAIRS=1-3,3-1` runs some of them.
const PAIRS: &str = "1-2,1-3,3-1,3-4";

fn pairs() -> Vec<(usize, usize)> {
    let wanted = std::env::var("ARMENTO_KERNEL_PAIRS");
    let pair = |p: &str| {
        let (home, target) = p.split_once('-').expect("HOME-TARGET");
        let number = |n: &str| n.parse().expect("the number of a node");
        (number(home), number(target))
    };
    let wanted = wanted.as_deref().unwrap_or(PAIRS);
    wanted.split(',').map(pair).collect()
}

#[test]
fn every_guest_behaves_natively_between_all_kernels() {
    let (old, new) = (Kernel::V6_1, Kernel::V6_12);
    let Some(farm) = Farm::up_long(Kind::Full, &[new, new, old, old]) else {
        return;
    };
    let mut wrong = String::new();
    for (home, target) in pairs() {
        let run = format!(
            "cd /tmp && armento conform --to n{target} --mode home,away --timeout 600 --jobs 2"
        );
        let said = farm.n(home).run_for("alice", &run, PAIR_S);
        println!(
            "n{home} -> n{target}: {}",
            said.out.lines().last().unwrap_or_default()
        );
        if said.code != 0 {
            wrong += &format!("n{home} -> n{target}:\n{}\n{}\n", said.out, said.err);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
