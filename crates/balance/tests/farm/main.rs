//! Whole farms in virtual time, closed loop: the real vector, ledger, decisions and admission of every node, with
//! programs that only compute.

mod world;

use armento_balance::Kind;
use world::{Farm, Job};

/// Runs until all jobs have ended or `limit_s` is over.
fn run(farm: &mut Farm, limit_s: u64) {
    while farm.unfinished() > 0 && farm.now_ms() < limit_s * 1000 {
        farm.step();
    }
    assert_eq!(farm.unfinished(), 0, "after {limit_s} s: {}", farm.log());
}

/// The lower bound for any scheduler that may move jobs, milliseconds.
fn limit_ms(speeds: &[u64], work_ms: &[u64]) -> f64 {
    let (mut speeds, mut work) = (speeds.to_vec(), work_ms.to_vec());
    speeds.sort_by(|a, b| b.cmp(a));
    work.sort_by(|a, b| b.cmp(a));
    let (mut most, mut t, mut s) = (0.0f64, 0, 0);
    for (i, w) in work.iter().enumerate() {
        t += w;
        s += speeds.get(i).copied().unwrap_or(0);
        most = most.max(t as f64 * 10_000.0 / s as f64);
    }
    most
}

#[test]
fn twenty_four_started_together_are_placed_six_to_a_node_and_stay() {
    for seed in 1..=5 {
        let mut farm = Farm::new(&[10_000; 4], Kind::Mosix, seed);
        farm.for_ms(5_000);
        farm.start(0, 24, Job::of(10_000));
        farm.for_ms(1_000);
        assert_eq!(farm.counts(), [6, 6, 6, 6], "seed {seed}: {}", farm.log());
        farm.for_ms(20_000);
        assert_eq!(farm.moves(), 0, "seed {seed}: {}", farm.log());
        run(&mut farm, 100);
        let ratio = (farm.last_end_ms() - 5_000) as f64 / limit_ms(&[10_000; 4], &[10_000; 24]);
        assert!(
            ratio < 1.03,
            "seed {seed}: {ratio:.3} of the limit: {}",
            farm.log()
        );
    }
}

#[test]
fn unplaced_programs_are_moved_until_counts_are_even() {
    for seed in 1..=5 {
        let mut farm = Farm::new(&[10_000; 4], Kind::Mosix, seed);
        farm.for_ms(5_000);
        farm.start(
            0,
            24,
            Job {
                placed: false,
                ..Job::of(1_000_000)
            },
        );
        // Eighteen moves at one a second, and a few seconds for gossip to spread.
        farm.for_ms(30_000);
        assert_eq!(farm.counts(), [6, 6, 6, 6], "seed {seed}: {}", farm.log());
        let settled = farm.moves();
        assert!(
            settled <= 20,
            "seed {seed}: {settled} moves: {}",
            farm.log()
        );
        farm.for_ms(120_000);
        assert_eq!(farm.moves(), settled, "seed {seed}: {}", farm.log());
    }
}

#[test]
fn one_more_process_than_nodes_causes_no_ping_pong() {
    for (jobs, seed) in [(5, 1), (5, 2), (6, 3), (7, 4), (9, 5)] {
        let mut farm = Farm::new(&[10_000; 4], Kind::Mosix, seed);
        farm.background(2, 1, 30);
        farm.for_ms(5_000);
        farm.start(
            0,
            jobs,
            Job {
                placed: false,
                ..Job::of(1_000_000)
            },
        );
        farm.for_ms(30_000);
        let settled = farm.moves();
        farm.for_ms(300_000);
        let more = farm.moves() - settled;
        assert_eq!(more, 0, "{jobs} jobs, seed {seed}: {}", farm.log());
        let (least, most) = (
            farm.counts().into_iter().min(),
            farm.counts().into_iter().max(),
        );
        assert!(
            most <= least.map(|l| l + 1),
            "{:?}: {}",
            farm.counts(),
            farm.log()
        );
    }
}

#[test]
fn remaining_processes_even_out_when_some_end_early() {
    for seed in 1..=5 {
        let mut farm = Farm::new(&[10_000; 4], Kind::Mosix, seed);
        farm.for_ms(5_000);
        // Placed in turn, so that all the short ones share n1 and n2.
        let long = |i: usize| i % 4 >= 2;
        for i in 0..16 {
            farm.start(0, 1, Job::of(if long(i) { 20_000 } else { 4_000 }));
            farm.for_ms(50);
        }
        farm.for_ms(1_000);
        assert_eq!(farm.counts(), [4, 4, 4, 4], "seed {seed}: {}", farm.log());
        farm.for_ms(25_000);
        assert_eq!(farm.counts(), [2, 2, 2, 2], "seed {seed}: {}", farm.log());
        run(&mut farm, 200);
        let work: Vec<u64> = (0..16)
            .map(|i| if long(i) { 20_000 } else { 4_000 })
            .collect();
        let ratio = (farm.last_end_ms() - 5_000) as f64 / limit_ms(&[10_000; 4], &work);
        assert!(
            ratio < 1.12,
            "seed {seed}: {ratio:.3} of the limit: {}",
            farm.log()
        );
    }
}

#[test]
fn mosix_weighs_speeds_and_static_ignores_them() {
    let speeds = [4_000, 10_000, 20_000, 10_000];
    for seed in 1..=3 {
        let mut ends = Vec::new();
        for kind in [Kind::Mosix, Kind::Static] {
            let mut farm = Farm::new(&speeds, kind, seed);
            farm.for_ms(5_000);
            farm.start(0, 22, Job::of(20_000));
            run(&mut farm, 2_000);
            ends.push((farm.last_end_ms() - 5_000) as f64);
            if kind == Kind::Static {
                assert_eq!(farm.moves(), 0);
            }
        }
        let limit = limit_ms(&speeds, &[20_000; 22]);
        assert!(
            ends[0] / limit < 1.10,
            "seed {seed}: {:.3} of the limit",
            ends[0] / limit
        );
        assert!(
            ends[1] / limit > 2.0,
            "seed {seed}: {:.3} of the limit",
            ends[1] / limit
        );
    }
}

#[test]
fn simultaneous_homes_reach_even_counts_without_coordination() {
    for seed in 1..=5 {
        let mut farm = Farm::new(&[10_000; 8], Kind::Mosix, seed);
        farm.for_ms(10_000);
        for home in 0..3 {
            farm.start(
                home,
                8,
                Job {
                    placed: false,
                    ..Job::of(1_000_000)
                },
            );
        }
        farm.for_ms(60_000);
        let settled = farm.moves();
        assert!(
            settled <= 24 + 12,
            "seed {seed}: {settled} moves: {}",
            farm.log()
        );
        let counts = farm.counts();
        assert!(
            counts.iter().all(|n| (2..=4).contains(n)),
            "seed {seed}: {counts:?}: {}",
            farm.log()
        );
        farm.for_ms(120_000);
        assert_eq!(farm.moves(), settled, "seed {seed}: {}", farm.log());
    }
}

#[test]
fn locked_and_refusing_processes_stay_and_others_even_out() {
    let mut farm = Farm::new(&[10_000; 3], Kind::Mosix, 1);
    farm.for_ms(5_000);
    farm.start(
        0,
        2,
        Job {
            placed: false,
            locked: true,
            ..Job::of(1_000_000)
        },
    );
    farm.start(
        0,
        2,
        Job {
            placed: false,
            refuses: true,
            ..Job::of(1_000_000)
        },
    );
    farm.start(
        0,
        2,
        Job {
            placed: false,
            ..Job::of(1_000_000)
        },
    );
    farm.for_ms(60_000);
    assert_eq!(farm.counts(), [4, 1, 1], "{}", farm.log());
    assert_eq!(farm.moves(), 2, "{}", farm.log());
    // Refused moves were retried after ever longer pauses, not each period.
    assert!(
        (2..=14).contains(&farm.refusals()),
        "{} refusals",
        farm.refusals()
    );
}

#[test]
fn lost_and_returning_nodes_are_noticed() {
    let mut farm = Farm::new(&[10_000; 4], Kind::Mosix, 2);
    farm.cut(3);
    farm.for_ms(5_000);
    farm.start(
        0,
        12,
        Job {
            placed: false,
            ..Job::of(1_000_000)
        },
    );
    farm.for_ms(40_000);
    assert_eq!(farm.counts(), [4, 4, 4, 0], "{}", farm.log());
    farm.mend(3);
    farm.for_ms(30_000);
    assert_eq!(farm.counts(), [3, 3, 3, 3], "{}", farm.log());
}
