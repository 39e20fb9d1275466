//! Faults, with all invariants checked after each event.

use armento_balance::{Kind, Policy};
use armento_gossip::Dice;
use armento_sim::{Arrivals, Fault, Job, Prices, Rack, World, mixed};

const S: u64 = 1_000_000;
const GIB: u64 = 1 << 20;

fn equal(nodes: usize, cores: u32, mem_kib: u64, seed: u64) -> World {
    let rack = Rack {
        cores,
        speed_milli: 1000,
        mem_kib,
    };
    let policy = Policy::of(Kind::Armento);
    let mut world = World::new(&vec![rack; nodes], policy, Prices::default(), seed);
    world.watch();
    world.pass(10 * S);
    world
}

fn job(home: usize, start_us: u64, work_s: u64) -> Job {
    Job {
        home,
        start_us,
        work_ns: work_s * 1_000_000_000,
        rss_kib: 10_000,
        placed: true,
        copy: None,
    }
}

fn add(world: &mut World, count: usize, job: Job) {
    for _ in 0..count {
        world.add(job);
    }
}

#[test]
fn crash_loses_only_processes_of_that_node() {
    for seed in 1..4 {
        let mut world = equal(8, 1, 4 * GIB, seed);
        add(&mut world, 16, job(0, 10 * S, 60));
        let crash = Fault::Crash {
            node: 3,
            for_us: 30 * S,
        };
        world.fault(crash, 20 * S);
        world.pass(19 * S);
        let there = world.present()[3] as u64;
        assert!(there >= 1, "{:?}", world.present());
        world.pass(80 * S);
        // It came back, and was given its share.
        assert!(world.present()[3] >= 1, "{:?}", world.present());
        let out = world.run(1000 * S);
        assert!(out.lost.abs_diff(there) <= 1, "{} of {there}", out.lost);
        let never = out.took_us.iter().filter(|&&us| us == u64::MAX);
        assert_eq!(never.count() as u64, out.lost, "all others ended");
    }
}

#[test]
fn programs_end_with_their_home() {
    let mut world = equal(4, 1, 4 * GIB, 7);
    for home in [0, 1] {
        add(&mut world, 4, job(home, 10 * S, 60));
    }
    let crash = Fault::Crash {
        node: 0,
        for_us: 20 * S,
    };
    world.fault(crash, 20 * S);
    world.pass(21 * S);
    let out = world.run(1000 * S);
    assert!((4..8).contains(&out.lost), "{} lost", out.lost);
    assert!(world.present().iter().all(|&n| n == 0));
}

#[test]
fn split_farm_works_on_and_merges_again() {
    let nodes = 64;
    let mut world = equal(nodes, 1, 4 * GIB, 5);
    add(&mut world, 32, job(0, 10 * S, 100));
    let far: Vec<usize> = (nodes / 2..nodes).collect();
    let cut = Fault::Cut {
        nodes: far.clone(),
        for_us: 20 * S,
    };
    world.fault(cut, 20 * S);
    world.pass(39 * S);
    let ages = world.ages();
    let across = (nodes * nodes / 2) as u64;
    assert!(ages.unknown.abs_diff(across) < across / 50, "{ages:?}");
    // Membership has detected it after five seconds, and the information is back after about 1.3 ln n more.
    world.pass(40 * S + 5 * S + 12 * S);
    let ages = world.ages();
    assert_eq!(ages.unknown, 0, "{ages:?}");
    let out = world.run(1000 * S);
    assert_eq!(out.lost, 0);
    assert!(
        out.took_us.iter().all(|&us| us < 200 * S),
        "{:?}",
        out.took_us
    );
}

#[test]
fn slow_node_delays_processes_by_a_bounded_time() {
    let mut world = equal(4, 1, 4 * GIB, 8);
    add(&mut world, 4, job(0, 10 * S, 60));
    let slow = Fault::Slow {
        node: 2,
        percent: 50,
        for_us: 10_000 * S,
    };
    world.fault(slow, 20 * S);
    let out = world.run(1000 * S);
    // The reported speed is not measured again: processes take twice as long there, and no longer.
    assert!(
        out.took_us.iter().all(|&us| us < 115 * S),
        "{:?}",
        out.took_us
    );
}

#[test]
fn skewed_clocks_have_little_effect() {
    let run = |skewed: bool| {
        let mut world = equal(16, 1, 4 * GIB, 9);
        for node in (0..16).filter(|_| skewed) {
            // Up to a tenth, more than any real clock.
            let ppm = (node as i64 - 8) * 12_500;
            world.fault(Fault::Skew { node, ppm }, 10 * S);
        }
        add(&mut world, 24, job(0, 12 * S, 60));
        let ages = {
            world.pass(60 * S);
            world.ages()
        };
        assert_eq!(ages.unknown, 0);
        (world.run(1000 * S).last_end_us, ages.mean_s)
    };
    let ((right, young), (wrong, old)) = (run(false), run(true));
    assert!(wrong < right + right / 10, "{wrong} instead of {right}");
    assert!(old < young * 1.5, "{old} instead of {young}");
}

#[test]
fn memory_shortage_moves_processes_to_free_nodes() {
    for seed in 1..6 {
        // One home's nine processes grow to a GiB each on nodes of four: some must move where less is used.
        let mut world = equal(4, 4, 4 * GIB, seed);
        for i in 0..9 {
            let task = world.add(Job {
                placed: false,
                copy: None,
                ..job(0, 10 * S, 200)
            });
            (0..100u64).for_each(|step| {
                world.grow(task, GIB / 110, (15 + i) * S + step * S / 4);
            });
        }
        world.pass(60 * S);
        let used = world.memory_kib();
        assert!(used.iter().all(|&kib| kib <= 4 * GIB), "{used:?}");
        assert!(used.iter().sum::<u64>() > 8 * GIB, "{used:?}");
    }
}

#[test]
fn urgent_reports_spread_faster() {
    let time_until_known = |urgent: bool| {
        let mut sum = 0;
        for seed in 1..9 {
            let mut world = equal(256, 1, 4 * GIB, seed);
            world.pass(20 * S);
            if urgent {
                let owner = Fault::Owner {
                    node: 7,
                    tasks: 2,
                    for_us: 1000 * S,
                };
                world.fault(owner, 20 * S);
            }
            let mut ms = 0;
            while world.aware_of(7, 20 * S) < 128 {
                ms += 100;
                world.pass(20 * S + ms * 1000);
            }
            sum += ms;
        }
        sum / 8
    };
    let (at_once, in_turn) = (time_until_known(true), time_until_known(false));
    // Three doublings and half a period on the average.
    assert!(at_once + 2000 < in_turn, "{at_once} and {in_turn} ms");
}

#[test]
fn mixed_farm_completes_heavy_tailed_arrivals() {
    for seed in [11, 12] {
        let mut dice = Dice::seeded(seed);
        let racks = mixed(12, &mut dice);
        let policy = Policy::of(Kind::Armento);
        let mut world = World::new(&racks, policy, Prices::default(), seed);
        world.watch();
        let arrivals = Arrivals {
            per_s: 6.0,
            from_us: 10 * S,
            until_us: 50 * S,
            work_ms: (500, 60_000),
            rss_kib: (2_000, 500_000),
        };
        let jobs = arrivals.on(racks.len(), &mut dice);
        for job in &jobs {
            world.add(*job);
        }
        world.fault(
            Fault::Slow {
                node: 1,
                percent: 30,
                for_us: 10 * S,
            },
            20 * S,
        );
        let out = world.run(1000 * S);
        assert_eq!(out.lost, 0);
        assert!(out.took_us.iter().all(|&us| us != u64::MAX), "all ended");
        // Each is placed once; other moves are the exception.
        let n = jobs.len() as u64;
        assert!(out.moves <= 3 * n, "{} moves of {n}", out.moves);
        let work: u64 = jobs.iter().map(|job| job.work_ns).sum();
        assert!(out.moved_ns < work / 20, "{} for {work} ns", out.moved_ns);
    }
}
