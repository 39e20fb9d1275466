//! A scenario as a timed plan.

use crate::chance::Chance;
use crate::file::{Happens, Jobs, Kind, Lengths, Scenario};
use crate::limit::{levelled, limit};

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub nodes: Vec<Node>,
    /// In the order of their start.
    pub jobs: Vec<Job>,
    pub background: Vec<Background>,
    /// In the order of time.
    pub events: Vec<Event>,
    /// Time limit of a run.
    pub cap_s: f64,
    /// Speed of the network between nodes, Mbit/s.
    pub link_mbit: u64,
    /// Weight of guests where a process of the node has 100.
    pub guest_cpu_weight: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Node {
    /// Of one core; 1.0 is a whole processor.
    pub speed: f64,
    pub cores: usize,
    pub mem_mib: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// From 0.
    pub home: usize,
    pub at_s: f64,
    /// Seconds of a whole processor.
    pub work_s: f64,
    pub mem_mib: u64,
    pub copy: Option<FileCopy>,
}

/// What a job copies of its home's files while it computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileCopy {
    pub mib: u64,
    /// Time that it waits for the storage, in all.
    pub wait_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Background {
    pub node: usize,
    pub tasks: usize,
    pub from_s: f64,
    pub to_s: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    pub at_s: f64,
    pub node: usize,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// The node is gone, with all processes there, and starts again, empty.
    Crash { for_s: f64 },
    /// The node is unreachable.
    Cut { for_s: f64 },
    /// The node has this share of its speed, but reports its full speed.
    Slow { percent: u64, for_s: f64 },
    /// Its clock runs too fast by so many millionths, from then on.
    Skew { ppm: i64 },
    /// Its owner computes.
    Owner { tasks: usize, for_s: f64 },
}

impl Scenario {
    /// With `n` jobs where the file gives no count; the same seed, the same plan.
    pub fn plan(&self, n: usize, seed: u64) -> Plan {
        let mut chance = Chance::seeded(seed);
        let nodes: Vec<Node> = self
            .nodes
            .iter()
            .flat_map(|kind| {
                let node = Node {
                    speed: kind.speed,
                    cores: kind.cores,
                    mem_mib: kind.mem,
                };
                std::iter::repeat_n(node, kind.count)
            })
            .collect();
        let unit = nodes[0].speed;
        let mut jobs: Vec<Job> = Vec::new();
        for kind in &self.jobs {
            jobs.extend(of_kind(kind, n, unit, &mut chance));
        }
        jobs.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        let native = |b: &crate::file::Native| Background {
            node: b.node - 1,
            tasks: b.tasks,
            from_s: b.from,
            to_s: b.to,
        };
        let mut events: Vec<Event> = self.events.iter().map(happens).collect();
        events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        Plan {
            nodes,
            jobs,
            background: self.background.iter().map(native).collect(),
            events,
            cap_s: self.limit,
            link_mbit: self.link_mbit,
            guest_cpu_weight: self.guest_cpu_weight,
        }
    }
}

fn happens(e: &Happens) -> Event {
    let for_s = e.lasts;
    let what = match e.what {
        Kind::Crash => What::Crash { for_s },
        Kind::Cut => What::Cut { for_s },
        Kind::Slow => What::Slow {
            percent: e.percent,
            for_s,
        },
        Kind::Skew => What::Skew { ppm: e.ppm },
        Kind::Owner => What::Owner {
            tasks: e.tasks,
            for_s,
        },
    };
    Event {
        at_s: e.at,
        node: e.node - 1,
        what,
    }
}

/// `unit`: speed of the node on which lengths are given.
fn of_kind(kind: &Jobs, n: usize, unit: f64, chance: &mut Chance) -> Vec<Job> {
    let mut at = kind.at;
    let mut next = |i: usize, chance: &mut Chance| {
        if i > 0 && kind.every > 0.0 {
            at += chance.exponential(kind.every);
        }
        at
    };
    (0..kind.count.unwrap_or(n))
        .map(|i| {
            let at_s = next(i, chance);
            let seconds = match kind.lengths {
                Lengths::Equal => kind.seconds,
                Lengths::Uniform => chance.unit() * 2.0 * kind.seconds,
                Lengths::Exponential => chance.exponential(kind.seconds),
                Lengths::Pareto => chance.pareto(kind.seconds),
            };
            Job {
                home: kind.home - 1,
                at_s,
                work_s: seconds * unit,
                mem_mib: kind.mem,
                copy: kind.copy.map(|c| FileCopy {
                    mib: c.mib,
                    wait_s: c.wait,
                }),
            }
        })
        .collect()
}

impl Plan {
    /// Lower bound of the makespan of any scheduler, even one that moves without cost, seconds after the first start.
    /// An endless native task takes its share: it counts as one more of the longest jobs. Exact where all jobs start at
    /// once and there are no faults; otherwise the best known bound is the later of that and of the last start and its
    /// job.
    pub fn limit_s(&self) -> f64 {
        let speeds = self.nodes.iter();
        let speeds: Vec<f64> = speeds
            .flat_map(|n| std::iter::repeat_n(n.speed, n.cores))
            .collect();
        let mut work: Vec<f64> = self.jobs.iter().map(|j| j.work_s).collect();
        let longest = work.iter().copied().fold(0.0, f64::max);
        let endless = self.background.iter().filter(|b| b.to_s.is_none());
        work.extend(endless.flat_map(|b| std::iter::repeat_n(longest, b.tasks)));
        let fastest = speeds.iter().copied().fold(0.0, f64::max);
        let first = self.jobs.first().map_or(0.0, |j| j.at_s);
        let ends = self.jobs.iter();
        let last = ends
            .map(|j| j.at_s - first + j.work_s / fastest + j.copy.map_or(0.0, |c| c.wait_s))
            .fold(0.0, f64::max);
        limit(&speeds, &work).max(last)
    }

    /// Makespan of the published rule of even numbers, seconds: for equal jobs that all begin at once on equal nodes of
    /// one core without anything else.
    pub fn rule_s(&self) -> Option<f64> {
        let (node, job) = (self.nodes.first()?, self.jobs.first()?);
        let alone = self.background.is_empty() && self.events.is_empty() && node.cores == 1;
        let even = self.nodes.iter().all(|n| n == node)
            && self
                .jobs
                .iter()
                .all(|j| j.at_s == job.at_s && j.work_s == job.work_s);
        (alone && even)
            .then(|| levelled(self.jobs.len(), self.nodes.len(), job.work_s / node.speed))
    }

    /// The farm's power in units of the first node: the time that the first node alone would have needed at best, over
    /// the farm's makespan. PAPER: Premoli's equivalent power, W = Z T_single / T_cluster, over Z (`docs/papers.md`,
    /// P).
    pub fn power(&self, makespan_s: f64) -> f64 {
        let single = Plan {
            nodes: self.nodes[..1].to_vec(),
            background: Vec::new(),
            ..self.clone()
        };
        single.limit_s() / makespan_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
about = "test"
series = [17]
[[nodes]]
count = 16
speed = 0.1
[[jobs]]
seconds = 300.0
"#;

    fn plan(text: &str, n: usize) -> Plan {
        Scenario::parse(text).expect("good").plan(n, 1)
    }

    #[test]
    fn equal_jobs_have_the_published_limits() {
        let check = |n, want: f64| {
            let got = plan(TEXT, n).limit_s();
            assert!((got - want).abs() < 1e-9, "{n}: {got}");
        };
        check(1, 300.0);
        check(16, 300.0);
        check(17, 318.75);
        check(48, 900.0);
        let background = format!("{TEXT}[[background]]\nnode = 1\n");
        assert!((plan(&background, 16).limit_s() - 318.75).abs() < 1e-9);
    }

    #[test]
    fn power_is_in_units_of_the_first_node() {
        let check = |text: &str, n, makespan_s, want: f64| {
            let got = plan(text, n).power(makespan_s);
            assert!((got - want).abs() < 1e-9, "{n}: {got}");
        };
        // One program has the power of one node, on any number of nodes: it does not fork.
        check(TEXT, 1, 300.0, 1.0);
        check(TEXT, 4, 300.0, 4.0);
        check(TEXT, 17, 450.0, 17.0 / 1.5);
        let twins = TEXT.replace("speed = 0.1", "speed = 0.1\ncores = 2");
        check(&twins, 1, 300.0, 1.0);
        check(&twins, 64, 600.0, 16.0);
        let owner = format!("{TEXT}[[background]]\nnode = 1\n");
        check(&owner, 4, 300.0, 4.0);
    }

    #[test]
    fn same_seed_gives_the_same_plan_and_lengths_have_their_mean() {
        for lengths in ["uniform", "exponential", "pareto"] {
            let text = TEXT.replace(
                "seconds = 300.0",
                &format!("seconds = 300.0\nlengths = \"{lengths}\"\nevery = 2.0"),
            );
            let plan = |seed| Scenario::parse(&text).expect("good").plan(20_000, seed);
            let one = plan(1);
            assert_eq!(one, plan(1));
            assert_ne!(one, plan(2));
            let mean = one.jobs.iter().map(|j| j.work_s).sum::<f64>() / 20_000.0;
            // A tail of alpha 1.5 has no variance: the mean converges slowly.
            let off = if lengths == "pareto" { 0.25 } else { 0.03 };
            assert!((mean / 30.0 - 1.0).abs() < off, "{lengths}: {mean}");
            let gap = one.jobs.last().map_or(0.0, |j| j.at_s) / 19_999.0;
            assert!((gap / 2.0 - 1.0).abs() < 0.03, "{gap}");
        }
    }
}
