//! The conformance list with kernels 6.1 and 6.12 as home and as target, as alice, under Yama 1 and systemd.

use armento_machines::farm::Farm;
use armento_machines::{Kernel, Kind};

/// Guests of one call of `armento conform`: a line is printed for each call.
const SLICE: usize = 10;
/// One slice, emulated: natively half a minute.
const SLICE_S: u64 = 1800;
/// Home and target by their numbers, of 6.12, 6.12, 6.1, 6.1. `ARMENTO_KERNEL_PAIRS=1-3,3-1` runs some of them.
const PAIRS: &str = "1-2,1-3,3-1,3-4";
/// The first and the last slice of each pair, from 0. `ARMENTO_KERNEL_SLICES=4-7` runs some of them.
const SLICES: &str = "0-99";

/// Two numbers `A-B`.
fn two(text: &str) -> (usize, usize) {
    let (a, b) = text.split_once('-').expect("A-B");
    let number = |n: &str| n.parse().expect("a number");
    (number(a), number(b))
}

fn set_or(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

#[test]
fn every_guest_behaves_natively_between_all_kernels() {
    let (old, new) = (Kernel::V6_1, Kernel::V6_12);
    let Some(farm) = Farm::up_long(Kind::Full, &[new, new, old, old]) else {
        return;
    };
    let (first, last) = two(&set_or("ARMENTO_KERNEL_SLICES", SLICES));
    let mut wrong = String::new();
    for (home, target) in set_or("ARMENTO_KERNEL_PAIRS", PAIRS).split(',').map(two) {
        let n = farm.n(home);
        let listed = n.run_for("alice", "armento conform --list", 60);
        let names: Vec<&str> = listed
            .out
            .lines()
            .filter_map(|l| l.split_whitespace().next())
            .collect();
        assert!(!names.is_empty(), "{}", listed.err);
        let slices = names.chunks(SLICE).enumerate();
        for (i, guests) in slices.skip(first).take(last.saturating_sub(first) + 1) {
            let run = format!(
                "cd /tmp && armento conform --to n{target} --mode home,away --timeout 600 --jobs 2 {}",
                guests.join(" ")
            );
            let said = n.run_for("alice", &run, SLICE_S);
            println!(
                "n{home} -> n{target}, {i} of {}: {}",
                names.len().div_ceil(SLICE),
                said.out.lines().last().unwrap_or_default()
            );
            if said.code != 0 {
                println!("{}\n{}", said.out, said.err);
                wrong += &format!("n{home} -> n{target}:\n{}\n{}\n", said.out, said.err);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
