//! A burst of ten processes a node at one of them: `burst NODES SEED`.
//!
//! Nodes are equal, and so are the processes; all of them start on the first node at once and run there. The farm has
//! settled when no node has more than one more or less than its even share. Each end of a move uses a millisecond of
//! CPU time, ahead of programs; a node sends one message after another at ten gigabit a second.

use armento_balance::{Kind, Policy};
use armento_sim::{Job, Prices, Rack, World};
use std::time::Instant;

const PERIOD_US: u64 = 1_000_000;
/// Periods until the nodes' information about each other has its final age …
const WARM: u64 = 50;
/// … in which that age is measured …
const MEASURED: u64 = 10;
/// … and limit after which a farm that has not settled never will.
const SETTLE_MAX: u64 = 300;
const EACH: usize = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [nodes, seed] = &args[..] else {
        return Err("NODES SEED".into());
    };
    let (nodes, seed): (usize, u64) = (nodes.parse()?, seed.parse()?);
    let began = Instant::now();
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
    let policy = Policy::of(Kind::Armento);
    let mut world = World::new(&vec![rack; nodes], policy, prices, seed);
    measure(&mut world, nodes);
    let before = cpu_s()?;
    burst(&mut world, nodes);
    println!(
        "    {:.1} s of this machine, {before:.1} + {:.1} s of them computing; {} MiB",
        began.elapsed().as_secs_f64(),
        cpu_s()? - before,
        status_kib("VmHWM:")? >> 10
    );
    Ok(())
}

fn measure(world: &mut World, nodes: usize) {
    world.pass(WARM * PERIOD_US);
    world.traffic();
    let (mut mean, mut p99, mut unknown) = (0.0, Some(0.0f64), 0);
    for period in 1..=MEASURED {
        // Every tenth of a period in turn: nodes send at moments of their own.
        world.pass((WARM + period) * PERIOD_US + period % 10 * PERIOD_US / 10);
        let ages = world.ages();
        mean += ages.mean_s / MEASURED as f64;
        p99 = p99.zip(ages.p99_s).map(|(a, b)| a.max(b));
        unknown += ages.unknown;
    }
    let traffic = world.traffic();
    let pairs = MEASURED * (nodes * (nodes - 1)) as u64;
    println!(
        "{nodes} nodes: age mean {mean:.1}, p99 {} periods, {unknown} of {pairs} pairs unknown; \
         {} bytes and {} entries a node and period",
        p99.map_or("over 60".into(), |p99| format!("{p99:.1}")),
        traffic.bytes / traffic.periods.max(1),
        traffic.entries / traffic.letters.max(1),
    );
}

fn burst(world: &mut World, nodes: usize) {
    let start_us = (WARM + MEASURED + 1) * PERIOD_US;
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
    let is_settled = |world: &World| {
        let even = |&n: &usize| n.abs_diff(EACH) <= 1;
        world.present().iter().all(even)
    };
    let mut periods = 0;
    while periods < SETTLE_MAX && (periods == 0 || !is_settled(world)) {
        periods += 1;
        world.pass(start_us + periods * PERIOD_US);
    }
    let settled = match is_settled(world) {
        true => format!("settled after {periods} periods"),
        false => format!("not settled after {periods} periods"),
    };
    let moves = world.moves();
    println!("    burst of {}: {settled}, {moves} moves", nodes * EACH);
    world.pass(start_us + (periods + 10) * PERIOD_US);
    println!("    {} moves in ten periods more", world.moves() - moves);
}

/// KERNEL: proc(5).
fn status_kib(field: &str) -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix(field));
    let kib = line.and_then(|l| l.split_whitespace().next());
    Ok(kib.ok_or("no such field")?.parse()?)
}

/// KERNEL: proc(5): the first number of schedstat is time on a processor, nanoseconds.
fn cpu_s() -> Result<f64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/schedstat")?;
    let ns = stat.split_whitespace().next().ok_or("empty")?;
    Ok(ns.parse::<f64>()? / 1e9)
}
