//! The file.

use crate::published::Published;
use serde::Deserialize;
use std::path::Path;

/// The simulator's largest farm.
const NODES_MAX: usize = 10_000;
const JOBS_MAX: usize = 1_000_000;
/// A day.
const SECONDS_MAX: f64 = 86_400.0;

/// As written. Times are seconds, memory MiB.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// For people.
    pub about: String,
    /// Numbers of jobs to be tried one after the other: for `[[jobs]]` without a `count`.
    #[serde(default)]
    pub series: Vec<usize>,
    /// What no run takes longer than.
    #[serde(default = "hour")]
    pub limit: f64,
    pub nodes: Vec<Nodes>,
    #[serde(default)]
    pub jobs: Vec<Jobs>,
    #[serde(default)]
    pub background: Vec<Native>,
    #[serde(default)]
    pub events: Vec<Happens>,
    #[serde(default)]
    pub published: Published,
    /// Of this part of their length are its jobs; the file is 1.
    #[serde(skip, default = "whole")]
    pub scale: f64,
}

fn whole() -> f64 {
    1.0
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
    /// Of one core: 1.0 is a whole processor of the machine that plays it.
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

/// How long jobs are, of which the mean is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lengths {
    /// All alike.
    #[default]
    Equal,
    /// Evenly from nothing to twice the mean.
    Uniform,
    /// Memoryless.
    Exponential,
    /// Most short, a few very long: Pareto with alpha 1.5. PAPER: Harchol-Balter and Downey 1997 found the lives of Unix
    /// processes to have such tails.
    Pareto,
}

/// Some jobs of one home.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// Not given: as the series says.
    pub count: Option<usize>,
    /// How long it would compute alone on the first node.
    pub seconds: f64,
    #[serde(default)]
    pub lengths: Lengths,
    /// Number of its home among the nodes, from 1.
    #[serde(default = "one")]
    pub home: usize,
    /// The first one's start.
    #[serde(default)]
    pub at: f64,
    /// Mean time between two starts; memoryless if not 0.
    #[serde(default)]
    pub every: f64,
    #[serde(default = "small")]
    pub mem: u64,
}

fn small() -> u64 {
    4
}

/// Native work of a node's owner, that moves nowhere.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Native {
    pub node: usize,
    #[serde(default = "one")]
    pub tasks: usize,
    #[serde(default)]
    pub from: f64,
    /// Not given: to the end.
    pub to: Option<f64>,
}

/// A trouble.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Happens {
    pub at: f64,
    pub node: usize,
    pub what: Kind,
    /// How long.
    #[serde(rename = "for", default = "half_a_minute")]
    pub lasts: f64,
    /// Of its speed: `slow`.
    #[serde(default = "half")]
    pub percent: u64,
    /// How many compute: `owner`.
    #[serde(default = "one")]
    pub tasks: usize,
    /// Millionths that its clock runs too fast: `skew`.
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

impl Scenario {
    /// What this text says, or what is wrong with it.
    pub fn parse(text: &str) -> Result<Scenario, String> {
        let scenario: Scenario =
            toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())?;
        scenario.check()?;
        Ok(scenario)
    }

    /// … with its jobs of this part of their length.
    pub fn load(path: &Path, scale: f64) -> Result<Scenario, String> {
        if !(1e-4..=1e4).contains(&scale) {
            return Err(format!(
                "a scale lies between 0.0001 and 10000, not {scale}"
            ));
        }
        let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
        let mut scenario = Scenario::parse(&text)?;
        scenario.jobs.iter_mut().for_each(|j| j.seconds *= scale);
        scenario.scale = scale;
        Ok(scenario)
    }

    /// It on each of these numbers of nodes, where all are equal, or as it is.
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
        kind.count = nodes;
        // What was published is of its own number.
        other.published = Published::default();
        other.check()?;
        Ok(other)
    }

    /// Numbers of jobs to be tried: those `given`, or its own.
    pub fn numbers(&self, given: &[usize]) -> Vec<usize> {
        match (given, &self.series[..]) {
            ([], []) => vec![0],
            ([], own) => own.to_vec(),
            (given, _) => given.to_vec(),
        }
    }

    /// Nodes in all.
    pub fn size(&self) -> usize {
        self.nodes.iter().map(|n| n.count).sum()
    }

    fn check(&self) -> Result<(), String> {
        let size = self.size();
        if !(1..=NODES_MAX).contains(&size) {
            return Err(format!("{size} nodes: from 1 to {NODES_MAX} can be played"));
        }
        for n in &self.nodes {
            let sane = (0.001..=100.0).contains(&n.speed) && (1..=1024).contains(&n.cores);
            if !sane || n.mem == 0 {
                return Err(
                    "a node's speed lies between 0.001 and 100, its cores between 1 and 1024, its mem above 0"
                        .into(),
                );
            }
        }
        let time = |what: &str, s: f64| match (0.0..=SECONDS_MAX).contains(&s) {
            true => Ok(()),
            false => Err(format!("{what} = {s}: from 0 to {SECONDS_MAX} seconds")),
        };
        time("limit", self.limit)?;
        let node = |i: usize| match (1..=size).contains(&i) {
            true => Ok(()),
            false => Err(format!(
                "there is no node {i}: they are numbered from 1 to {size}"
            )),
        };
        let least = self.series.iter().max().copied().unwrap_or(0);
        let jobs: usize = self.jobs.iter().map(|j| j.count.unwrap_or(least)).sum();
        if jobs > JOBS_MAX {
            return Err(format!("{jobs} jobs: {JOBS_MAX} at most can be played"));
        }
        for j in &self.jobs {
            time("seconds", j.seconds)?;
            time("at", j.at)?;
            time("every", j.every)?;
            node(j.home)?;
            if j.count.is_none() && self.series.is_empty() {
                return Err("[[jobs]] without a count needs a series".into());
            }
        }
        for b in &self.background {
            node(b.node)?;
            time("from", b.from)?;
            time("to", b.to.unwrap_or(b.from))?;
        }
        for e in &self.events {
            node(e.node)?;
            time("at", e.at)?;
            time("for", e.lasts)?;
            if !(1..=1000).contains(&e.percent) || e.ppm.abs() > 100_000 {
                return Err(
                    "percent lies between 1 and 1000, ppm between -100000 and 100000".into(),
                );
            }
        }
        self.published.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
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
    fn files_are_read_and_checked() {
        let s = Scenario::parse(GOOD).expect("good");
        assert_eq!((s.size(), s.jobs[0].lengths), (3, Lengths::Uniform));
        let check = |from: &str, to: &str, part: &str| {
            let e = Scenario::parse(&GOOD.replace(from, to)).expect_err(to);
            assert!(e.contains(part), "{e}");
        };
        check("node = 3", "node = 4", "no node 4");
        check("speed = 0.4", "speed = 0.0", "speed");
        check("seconds = 3.0", "seconds = -1.0", "seconds = -1");
        check("series = [1, 5]", "", "needs a series");
        check("series = [1, 5]", "series = [2000000]", "1000000 at most");
        check("count = 2", "count = 20000", "20001 nodes");
        check("what = \"crash\"", "what = \"explodes\"", "explodes");
        check("cores = 2", "coers = 2", "coers");
    }

    #[test]
    fn the_number_of_nodes_can_be_another() {
        let one = GOOD.replace("[[nodes]]\nspeed = 0.4\ncores = 2\nmem = 512\n", "");
        let one = Scenario::parse(&one.replace("node = 3", "node = 2")).expect("good");
        assert_eq!(one.on(7).map(|s| s.size()), Ok(7));
        let fails = |s: &Scenario, n, part: &str| {
            let e = s.on(n).expect_err(part);
            assert!(e.contains(part), "{e}");
        };
        fails(&one, 0, "0 nodes");
        fails(&one, 1, "no node 2");
        fails(&Scenario::parse(GOOD).expect("good"), 2, "one kind");
    }
}
