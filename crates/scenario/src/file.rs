//! The scenario file.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// As in the file. Times are seconds, memory MiB.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Description for readers.
    pub about: String,
    /// Numbers of jobs to be run one after the other: for `[[jobs]]` without a `count`.
    #[serde(default)]
    pub series: Vec<usize>,
    /// Time limit of a run.
    #[serde(default = "hour")]
    pub limit: f64,
    /// Speed of the network between nodes, Mbit/s.
    #[serde(default = "gigabit")]
    pub link_mbit: u64,
    /// Weight of guests of one tree on each node, where a process of the node has 100; not given: as one process.
    pub guest_cpu_weight: Option<u64>,
    pub nodes: Vec<Nodes>,
    #[serde(default)]
    pub jobs: Vec<Jobs>,
    #[serde(default)]
    pub background: Vec<Native>,
    #[serde(default)]
    pub events: Vec<Happens>,
    #[serde(default)]
    pub published: Published,
    /// Factor applied to the length of jobs; 1 in the file.
    #[serde(skip, default = "whole")]
    pub scale: f64,
}

fn whole() -> f64 {
    1.0
}

fn gigabit() -> u64 {
    1000
}

fn hour() -> f64 {
    3600.0
}

/// Some equal nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    #[serde(default = "one")]
    pub count: usize,
    /// Of one core: 1.0 is a whole processor of the machine that runs it.
    pub speed: f64,
    #[serde(default = "one")]
    pub cores: usize,
    #[serde(default = "gib")]
    pub mem: u64,
}

fn one() -> usize {
    1
}

fn gib() -> u64 {
    1024
}

/// Distribution of the length of jobs around the given mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lengths {
    /// All equal.
    #[default]
    Equal,
    /// Uniform from 0 to twice the mean.
    Uniform,
    /// Exponential.
    Exponential,
    /// Most short, a few very long: Pareto with alpha 1.5. PAPER: Harchol-Balter and Downey 1997 found the lives of Unix
    /// processes to have such tails.
    Pareto,
}

/// Some jobs of one home.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// Not given: taken from the series.
    pub count: Option<usize>,
    /// Time that it would compute alone on the first node.
    pub seconds: f64,
    #[serde(default)]
    pub lengths: Lengths,
    /// Number of its home among the nodes, from 1.
    #[serde(default = "one")]
    pub home: usize,
    /// Start of the first one.
    #[serde(default)]
    pub at: f64,
    /// Mean time between two starts; exponential if not 0.
    #[serde(default)]
    pub every: f64,
    #[serde(default = "small")]
    pub mem: u64,
    /// It copies files of its home while it computes.
    pub copy: Option<Copied>,
}

/// What a job copies.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copied {
    /// So many MiB, each read and written.
    pub mib: u64,
    /// Time that it waits for the storage, in all.
    pub wait: f64,
}

fn check_scale(scale: f64) -> Result<(), String> {
    match (1e-4..=1e4).contains(&scale) {
        true => Ok(()),
        false => Err(format!(
            "a scale lies between 0.0001 and 10000, not {scale}"
        )),
    }
}

fn small() -> u64 {
    4
}

/// Native work of a node's owner, which does not move.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Native {
    pub node: usize,
    #[serde(default = "one")]
    pub tasks: usize,
    #[serde(default)]
    pub from: f64,
    /// Not given: until the end.
    pub to: Option<f64>,
}

/// A fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Happens {
    pub at: f64,
    pub node: usize,
    pub what: Kind,
    /// Duration.
    #[serde(rename = "for", default = "half_a_minute")]
    pub lasts: f64,
    /// Percent of its speed: `slow`.
    #[serde(default = "half")]
    pub percent: u64,
    /// Number of computing tasks: `owner`.
    #[serde(default = "one")]
    pub tasks: usize,
    /// Millionths by which its clock runs too fast: `skew`.
    #[serde(default)]
    pub ppm: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Crash,
    Cut,
    Slow,
    Skew,
    Owner,
}

fn half_a_minute() -> f64 {
    30.0
}

fn half() -> u64 {
    50
}

/// `columns` have a makespan in seconds for each of `jobs`, with the scenario's full length.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Citation.
    pub source: String,
    pub jobs: Vec<usize>,
    pub columns: BTreeMap<String, Vec<f64>>,
    /// When the copies of each node ended, in any unit; the first column is what the others are compared with.
    #[serde(default)]
    pub copies: BTreeMap<String, Vec<f64>>,
}

impl Scenario {
    /// Parses a scenario, or returns what is wrong with it.
    pub fn parse(text: &str) -> Result<Scenario, String> {
        let scenario: Scenario =
            toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Loads a scenario from a file, with the length of its jobs scaled.
    pub fn load(path: &Path, scale: f64) -> Result<Scenario, String> {
        check_scale(scale)?;
        let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
        Scenario::scaled(&text, scale)
    }

    /// Parses a scenario, with the length of its jobs scaled.
    pub fn scaled(text: &str, scale: f64) -> Result<Scenario, String> {
        check_scale(scale)?;
        let mut scenario = Scenario::parse(text)?;
        for job in &mut scenario.jobs {
            job.seconds *= scale;
            if let Some(copy) = &mut job.copy {
                copy.wait *= scale;
                copy.mib = ((copy.mib as f64 * scale) as u64).max(1);
            }
        }
        scenario.scale = scale;
        Ok(scenario)
    }

    /// The scenario on each of these numbers of nodes, where all are equal, or as it is.
    pub fn sizes(&self, nodes: &[usize]) -> Result<Vec<Scenario>, String> {
        match nodes {
            [] => Ok(vec![self.clone()]),
            nodes => nodes.iter().map(|n| self.on(*n)).collect(),
        }
    }

    fn on(&self, nodes: usize) -> Result<Scenario, String> {
        let mut other = self.clone();
        let [kind] = &mut other.nodes[..] else {
            return Err("--nodes is for scenarios with one kind of nodes".into());
        };
        if nodes != kind.count {
            // Published values are for the original number of nodes.
            other.published = Published::default();
        }
        kind.count = nodes;
        other.check()?;
        Ok(other)
    }

    /// Numbers of jobs to be run: those `given`, or its own.
    pub fn numbers(&self, given: &[usize]) -> Result<Vec<usize>, String> {
        let counted = self.jobs.iter().all(|j| j.count.is_some());
        let numbers = match (given, &self.series[..]) {
            (given, _) if counted && !given.is_empty() => {
                return Err("--jobs is for [[jobs]] without a count".into());
            }
            ([], _) if counted => vec![self.total(0)],
            ([], own) => own.to_vec(),
            (given, _) => given.to_vec(),
        };
        numbers.iter().try_for_each(|n| self.check_total(*n))?;
        Ok(numbers)
    }

    /// Jobs in all, with `n` where the file gives no count.
    pub(crate) fn total(&self, n: usize) -> usize {
        let jobs = self.jobs.iter().map(|j| j.count.unwrap_or(n));
        jobs.fold(0, usize::saturating_add)
    }

    /// Nodes in all.
    pub fn size(&self) -> usize {
        let nodes = self.nodes.iter().map(|n| n.count);
        nodes.fold(0, usize::saturating_add)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const GOOD: &str = r#"
about = "two speeds"
series = [1, 5]
[[nodes]]
count = 2
speed = 0.1
[[nodes]]
speed = 0.4
cores = 2
mem = 512
[[jobs]]
seconds = 3.0
lengths = "uniform"
[[background]]
node = 3
[[events]]
at = 5.0
node = 2
what = "crash"
"#;

    #[test]
    fn number_of_nodes_can_be_overridden() {
        let one = GOOD.replace("[[nodes]]\nspeed = 0.4\ncores = 2\nmem = 512\n", "");
        let one = one.replace("node = 3", "node = 2")
            + "[published]\nsource = \"here\"\njobs = [5]\ncolumns = { a = [9.0] }\n";
        let one = Scenario::parse(&one).expect("good");
        assert_eq!(one.on(7).map(|s| s.size()), Ok(7));
        assert_eq!(one.on(7).map(|s| s.published(5).len()), Ok(0));
        assert_eq!(one.on(2).map(|s| s.published(5).len()), Ok(1));
        let fails = |s: &Scenario, n, part: &str| {
            let e = s.on(n).expect_err(part);
            assert!(e.contains(part), "{e}");
        };
        fails(&one, 0, "0 nodes");
        fails(&one, 1, "no node 2");
        fails(&Scenario::parse(GOOD).expect("good"), 2, "one kind");
    }

    #[test]
    fn number_of_jobs_comes_from_series_argument_or_count() {
        let series = Scenario::parse(GOOD).expect("good");
        assert_eq!(series.numbers(&[]), Ok(vec![1, 5]));
        assert_eq!(series.numbers(&[7]), Ok(vec![7]));
        let counted = GOOD.replace("seconds = 3.0", "seconds = 3.0\ncount = 9");
        let counted = Scenario::parse(&counted).expect("good");
        assert_eq!(counted.numbers(&[]), Ok(vec![9]));
        let fails = |s: &Scenario, n, part: &str| {
            let e = s.numbers(&[n]).expect_err(part);
            assert!(e.contains(part), "{e}");
        };
        fails(&counted, 7, "without a count");
        fails(&series, 0, "0 jobs");
        fails(&series, usize::MAX, "1000000 can be played");
    }
}
