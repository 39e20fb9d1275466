//! Identical programs on equal nodes: `equal POLICY NODES SPEED_MILLI ALONE_S END_US [N,N,…]`. Each end of a move uses
//! END_US of a standard core; a program takes ALONE_S seconds alone on a node.

use armento_balance::Policy;
use armento_sim::{Job, Prices, Rack, World};

const BEGIN_US: u64 = 20_000_000;
/// PAPER: pvm-mosix-cpu-bound.csv, the nineteen N of test 1.
const PAPER: &str = "1,2,4,8,16,17,20,24,25,27,31,32,33,36,38,40,43,47,48";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [policy, nodes, speed, alone, end, rest @ ..] = &args[..] else {
        return Err("POLICY NODES SPEED_MILLI ALONE_S END_US [N,N,…]".into());
    };
    let policy: Policy = policy.parse()?;
    let (nodes, speed_milli, alone_s): (usize, u64, u64) =
        (nodes.parse()?, speed.parse()?, alone.parse()?);
    let end_ns = end.parse::<u64>()? * 1000;
    for jobs in rest.first().map_or(PAPER, String::as_str).split(',') {
        let jobs: u64 = jobs.parse()?;
        let rack = Rack {
            cores: 1,
            speed_milli,
            mem_kib: 4 << 20,
        };
        let prices = Prices {
            end_ns,
            ..Prices::default()
        };
        let mut world = World::new(&vec![rack; nodes], policy.clone(), prices, jobs);
        world.run(BEGIN_US);
        for _ in 0..jobs {
            world.add(Job {
                home: 0,
                start_us: BEGIN_US,
                work_ns: alone_s * speed_milli * 1_000_000,
                rss_kib: 1500,
                placed: true,
                copy: None,
            });
        }
        let out = world.run(u64::MAX);
        let limit_s = alone_s as f64 * (jobs as f64 / nodes as f64).max(1.0);
        let span_s = (out.last_end_us - BEGIN_US) as f64 / 1e6;
        let mean_s = out.took_us.iter().sum::<u64>() as f64 / jobs as f64 / 1e6;
        let spent = out.moved_ns as f64 / (jobs * alone_s * speed_milli) as f64 / 1e4;
        println!(
            "{} N = {jobs:2}: {:.3} of the limit {limit_s:.2} s; mean {mean_s:.2} s; {} moves, {spent:.2} % of the work",
            policy.name(),
            span_s / limit_s,
            out.moves
        );
    }
    Ok(())
}
