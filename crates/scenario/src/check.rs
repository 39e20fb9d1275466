//! Validation of a scenario.

use crate::file::{Happens, Jobs, Native, Nodes, Scenario};

/// The simulator's largest farm.
const NODES_MAX: usize = 10_000;
pub(crate) const JOBS_MAX: usize = 1_000_000;
/// A terabyte.
const COPY_MIB_MAX: u64 = 1 << 20;
/// A day.
const SECONDS_MAX: f64 = 86_400.0;

impl Scenario {
    pub(crate) fn check(&self) -> Result<(), String> {
        let size = self.size();
        if !(1..=NODES_MAX).contains(&size) {
            return Err(format!("{size} nodes: from 1 to {NODES_MAX} can be played"));
        }
        self.nodes.iter().try_for_each(Nodes::check)?;
        time("limit", self.limit)?;
        if !(1..=100_000).contains(&self.link_mbit) {
            return Err("link_mbit lies between 1 and 100000".into());
        }
        if self
            .guest_cpu_weight
            .is_some_and(|w| !(1..=10_000).contains(&w))
        {
            return Err("guest_cpu_weight lies between 1 and 10000".into());
        }
        for j in &self.jobs {
            j.check(size)?;
            if j.count.is_none() && self.series.is_empty() {
                return Err("[[jobs]] without a count needs a series".into());
            }
        }
        match &self.series[..] {
            [] => self.check_total(0)?,
            all => all.iter().try_for_each(|n| self.check_total(*n))?,
        }
        self.background.iter().try_for_each(|b| b.check(size))?;
        self.events.iter().try_for_each(|e| e.check(size))?;
        self.published.check()
    }

    /// With `n` jobs where the file gives no count.
    pub(crate) fn check_total(&self, n: usize) -> Result<(), String> {
        match self.total(n) {
            1..=JOBS_MAX => Ok(()),
            jobs => Err(format!("{jobs} jobs: from 1 to {JOBS_MAX} can be played")),
        }
    }
}

impl Nodes {
    fn check(&self) -> Result<(), String> {
        let sane = (0.001..=100.0).contains(&self.speed) && (1..=1024).contains(&self.cores);
        match sane && self.mem > 0 {
            true => Ok(()),
            false => Err(
                "a node's speed lies between 0.001 and 100, its cores between 1 and 1024, its mem above 0"
                    .into(),
            ),
        }
    }
}

impl Jobs {
    fn check(&self, size: usize) -> Result<(), String> {
        time("seconds", self.seconds)?;
        time("at", self.at)?;
        time("every", self.every)?;
        if let Some(copy) = self.copy {
            time("wait", copy.wait)?;
            if !(1..=COPY_MIB_MAX).contains(&copy.mib) {
                return Err(format!("copy mib lies between 1 and {COPY_MIB_MAX}"));
            }
        }
        node(self.home, size)
    }
}

impl Native {
    fn check(&self, size: usize) -> Result<(), String> {
        node(self.node, size)?;
        time("from", self.from)?;
        time("to", self.to.unwrap_or(self.from))
    }
}

impl Happens {
    fn check(&self, size: usize) -> Result<(), String> {
        node(self.node, size)?;
        time("at", self.at)?;
        time("for", self.lasts)?;
        match (1..=1000).contains(&self.percent) && (-100_000..=100_000).contains(&self.ppm) {
            true => Ok(()),
            false => Err("percent lies between 1 and 1000, ppm between -100000 and 100000".into()),
        }
    }
}

fn time(what: &str, s: f64) -> Result<(), String> {
    match (0.0..=SECONDS_MAX).contains(&s) {
        true => Ok(()),
        false => Err(format!("{what} = {s}: from 0 to {SECONDS_MAX} seconds")),
    }
}

fn node(i: usize, size: usize) -> Result<(), String> {
    match (1..=size).contains(&i) {
        true => Ok(()),
        false => Err(format!(
            "there is no node {i}: they are numbered from 1 to {size}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Lengths;
    use crate::file::tests::GOOD;

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
        let copy = |c: &str| format!("seconds = 3.0\ncopy = {{ {c} }}");
        check("seconds = 3.0", &copy("mib = 0, wait = 1.0"), "copy mib");
        check("seconds = 3.0", &copy("mib = 9, wait = -1.0"), "wait = -1");
        check(
            "series = [1, 5]",
            "series = [1, 5]\nlink_mbit = 0",
            "link_mbit",
        );
        check("series = [1, 5]", "", "needs a series");
        check(
            "series = [1, 5]",
            "series = [2000000]",
            "1000000 can be played",
        );
        check("series = [1, 5]", "series = [0]", "0 jobs");
        // The sum of two such counts overflows a usize.
        let many = "count = 9223372036854775807";
        let jobs = format!("seconds = 3.0\n{many}\n[[jobs]]\nseconds = 1.0\n{many}");
        let jobs = format!("{jobs}\n[[jobs]]\nseconds = 1.0\ncount = 4");
        check("seconds = 3.0", &jobs, "1000000 can be played");
        let nodes =
            format!("{many}\nspeed = 1.0\n[[nodes]]\n{many}\nspeed = 1.0\n[[nodes]]\ncount = 2");
        check("count = 2", &nodes, "10000 can be played");
        check("count = 2", "count = 20000", "20001 nodes");
        check("what = \"crash\"", "what = \"explodes\"", "explodes");
        check("cores = 2", "coers = 2", "coers");
    }
}
