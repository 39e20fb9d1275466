//! A scenario in virtual time.

use crate::{Copying, Fault, Job, Prices, Rack, World};
use armento_balance::Policy;
use armento_scenario::{Event, Plan, Played, What};

/// Nodes have received each other's load by then, as those of a lab have before jobs start.
const BEGIN_US: u64 = 20_000_000;

/// Guests of at most this weight count as yielding to all programs of the node, which have 100 each.
const YIELDS_MAX: u64 = 10;

/// The same plan, policy, prices and seed give the same outcome. A job that does not end within the plan's longest time
/// has no end.
pub fn play(plan: &Plan, policy: &Policy, prices: Prices, seed: u64) -> Played {
    let rack = |n: &armento_scenario::Node| Rack {
        cores: n.cores as u32,
        speed_milli: (n.speed * 1000.0) as u64,
        mem_kib: n.mem_mib << 10,
    };
    let racks: Vec<Rack> = plan.nodes.iter().map(rack).collect();
    let policy = Policy {
        link_mbit: plan.link_mbit,
        guest_weight: plan.guest_cpu_weight.unwrap_or(100).min(100),
        ..policy.clone()
    };
    let yields = |weight| weight <= YIELDS_MAX;
    let prices = Prices {
        guests_yield: plan.guest_cpu_weight.is_some_and(yields),
        ..prices
    };
    let mut world = World::new(&racks, policy, prices, seed);
    for b in &plan.background {
        match (b.from_s, b.to_s) {
            (0.0, None) => world.background(b.node, b.tasks as u64),
            (from_s, to_s) => {
                let for_s = to_s.unwrap_or(plan.cap_s) - from_s;
                let what = What::Owner {
                    tasks: b.tasks,
                    for_s,
                };
                let owner = Event {
                    at_s: from_s,
                    node: b.node,
                    what,
                };
                world.fault(fault(&owner), BEGIN_US + us(from_s));
            }
        }
    }
    world.run(BEGIN_US);
    for e in &plan.events {
        world.fault(fault(e), BEGIN_US + us(e.at_s));
    }
    for j in &plan.jobs {
        world.add(Job {
            home: j.home,
            start_us: BEGIN_US + us(j.at_s),
            work_ns: (j.work_s * 1e9) as u64,
            rss_kib: j.mem_mib << 10,
            placed: true,
            copy: j.copy.map(|c| Copying {
                bytes: c.mib << 20,
                wait_us: us(c.wait_s),
            }),
        });
    }
    let out = world.run(BEGIN_US + us(plan.cap_s));
    let ends = plan.jobs.iter().zip(&out.took_us);
    let ended = ends.filter(|(_, took)| **took != u64::MAX);
    let ends_s: Vec<f64> = ended.map(|(j, took)| j.at_s + *took as f64 / 1e6).collect();
    let mut played = Played {
        lost: plan.jobs.len() - ends_s.len(),
        ends_s,
        moves: out.moves,
        beside_s: Some(out.moved_ns as f64 / 1e9),
        ..Played::default()
    };
    for home in 0..plan.nodes.len() {
        let numbered = plan.jobs.iter().zip(&out.took_us).enumerate();
        let ours = numbered.filter(|(_, (j, took))| j.home == home && **took != u64::MAX);
        let ends: Vec<(usize, f64)> = ours
            .map(|(i, (j, took))| (i, j.at_s + *took as f64 / 1e6))
            .collect();
        played.copied(plan, home, &ends);
    }
    played
}

fn us(s: f64) -> u64 {
    (s * 1e6) as u64
}

fn fault(e: &Event) -> Fault {
    let node = e.node;
    match e.what {
        What::Crash { for_s } => Fault::Crash {
            node,
            for_us: us(for_s),
        },
        What::Cut { for_s } => Fault::Cut {
            nodes: vec![node],
            for_us: us(for_s),
        },
        What::Slow { percent, for_s } => Fault::Slow {
            node,
            percent,
            for_us: us(for_s),
        },
        What::Skew { ppm } => Fault::Skew { node, ppm },
        What::Owner { tasks, for_s } => Fault::Owner {
            node,
            tasks: tasks as u64,
            for_us: us(for_s),
        },
    }
}
