//! A burst at one node, from small farms to one of a thousand.

use armento_balance::{Kind, Policy};
use armento_sim::{Ages, Fault, Job, Prices, Rack, Traffic, World};

const PERIOD_US: u64 = 1_000_000;
const WARM: u64 = 20;
const EACH: usize = 10;

fn world(nodes: usize, seed: u64) -> World {
    let rack = Rack {
        cores: 8,
        speed_milli: 1000,
        mem_kib: 64 << 20,
    };
    let prices = Prices {
        end_ns: 1_000_000,
        bandwidth: 1_100,
        one_wire: true,
        ahead: true,
        ..Prices::default()
    };
    World::new(&vec![rack; nodes], Policy::of(Kind::Armento), prices, seed)
}

/// The information that nodes have of each other, and the traffic that it takes, once the farm has run for a while.
fn knowledge(world: &mut World) -> (Ages, Traffic) {
    world.pass(WARM * PERIOD_US);
    world.traffic();
    world.pass((WARM + 5) * PERIOD_US);
    (world.ages(), world.traffic())
}

/// Periods until no node has more than one more or less than its even share.
fn settles(world: &mut World, nodes: usize, within: u64) -> u64 {
    let start_us = world.now_us();
    for _ in 0..nodes * EACH {
        world.add(Job {
            home: 0,
            start_us,
            work_ns: 3_600_000_000_000,
            rss_kib: 160,
            placed: false,
            copy: None,
        });
    }
    for period in 1..=within {
        world.pass(start_us + period * PERIOD_US);
        if world.present().iter().all(|n| n.abs_diff(EACH) <= 1) {
            return period;
        }
    }
    panic!("not settled: {:?}", world.present());
}

#[test]
fn burst_settles_and_then_moves_stop() {
    for (nodes, seed) in [(16, 1), (16, 2), (64, 3)] {
        let mut world = world(nodes, seed);
        let (ages, traffic) = knowledge(&mut world);
        assert_eq!(ages.unknown, 0, "{nodes} nodes");
        assert!(ages.p99_s.is_some_and(|p99| p99 < 15.0), "{ages:?}");
        // The traffic budget of a node, bytes a period.
        assert!(traffic.bytes / traffic.periods <= 4000, "{traffic:?}");
        if nodes <= 16 {
            world.watch();
        }
        let periods = settles(&mut world, nodes, 30);
        let moves = world.moves();
        // Each moves once, and some that went to a crowded node move again.
        assert!(moves <= (nodes * EACH * 3 / 2) as u64, "{moves} moves");
        world.pass((WARM + 5 + periods + 10) * PERIOD_US);
        assert_eq!(world.moves(), moves, "{nodes} nodes");
    }
}

#[test]
fn information_beyond_the_window_is_complete_and_recent() {
    let mut world = world(2000, 4);
    let (ages, traffic) = knowledge(&mut world);
    // 1.3 ln n is 9.9; nodes beyond the window take a little longer.
    assert!(ages.mean_s < 10.0, "{ages:?}");
    assert!(ages.p99_s.is_some_and(|p99| p99 < 20.0), "{ages:?}");
    assert_eq!(ages.unknown, 0);
    assert!(traffic.bytes / traffic.letters <= 60_046, "{traffic:?}");
    assert!(traffic.entries / traffic.letters > 1500, "{traffic:?}");
    // A node that joins receives about one message a period, and has all information after a few.
    let crash = Fault::Crash {
        node: 5,
        for_us: PERIOD_US,
    };
    world.fault(crash, world.now_us());
    world.pass(world.now_us() + 2 * PERIOD_US);
    let at_first = world.known_to(5);
    world.pass(world.now_us() + 10 * PERIOD_US);
    assert!(at_first < 1999, "it knew nothing");
    assert!(world.known_to(5) > 1950, "{} known", world.known_to(5));
}

#[test]
fn same_seed_gives_the_same_burst() {
    let runs = [5, 5, 6].map(|seed| {
        let mut world = world(32, seed);
        let (ages, traffic) = knowledge(&mut world);
        (ages, traffic, settles(&mut world, 32, 30), world.counts())
    });
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0].0, runs[2].0);
}
