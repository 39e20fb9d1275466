//! All that is said about one experiment.

use crate::chapter::Chapter;
use crate::formula::Values;
use crate::relations::{self, Judged, Verdict};
use crate::runner::{Build, Experiment, Found, On, Results};
use std::collections::BTreeMap;

/// One experiment with its results, if it has any.
pub struct Section<'a> {
    pub experiment: &'a Experiment,
    pub results: Option<&'a Results>,
    pub chapter: Chapter,
    pub judged: Vec<Judged>,
    /// When, how and on which machine it was measured; what is missing or in doubt.
    pub facts: Vec<String>,
}

/// `others`: values of other experiments, for relations between several.
pub fn section<'a>(
    experiment: &'a Experiment,
    results: Option<&'a Results>,
    others: &Values,
    here: &Build,
) -> Section<'a> {
    let means = results.map_or_else(BTreeMap::new, Results::means);
    let mut values = results.map_or_else(Values::default, Results::values);
    (experiment.derive)(&mut values);
    // What was not run shows no relation, whatever others have measured.
    let with_others = match results {
        Some(_) => values.clone().or(others),
        None => Values::default(),
    };
    let found = Found {
        results,
        means,
        values,
    };
    let ids = experiment.relations.iter();
    let judged = ids.filter_map(|id| relations::relation(id));
    Section {
        experiment,
        results,
        chapter: (experiment.chapter)(&found),
        judged: judged.map(|r| r.judge(&with_others)).collect(),
        facts: facts(experiment, results, here),
    }
}

fn facts(e: &Experiment, results: Option<&Results>, here: &Build) -> Vec<String> {
    let mut all = vec![format!("Emulation: {}.", e.emulation)];
    let Some(r) = results else {
        all.push(format!("Not run. `armento paper run {}` runs it.", e.id));
        return all;
    };
    let began = r.samples.first().map_or("never", |s| &*s.at);
    let repeats = match r.repeats {
        1 => "one run each".to_owned(),
        n => format!("{n} runs each: mean, lowest and highest are shown"),
    };
    let nodes = match r.setting.nodes {
        0 => String::new(),
        n => format!(", {n} nodes"),
    };
    all.push(format!(
        "{}: {began}; scale {} (1 is as long as in the paper){nodes}; {repeats}; seeds from 1.",
        match e.on {
            On::Paper => "Computed",
            On::Simulator => "Simulated",
            On::Lab | On::Farm => "Measured",
        },
        r.setting.scale
    ));
    let m = &r.machine;
    all.push(format!(
        "Machine: {}, {} cores, {} MiB, kernel {}; load before: {}, after: {}; armento {} ({} build {}).",
        m.cpu,
        m.cores.len(),
        m.mem_total_kib / 1024,
        m.kernel,
        m.load_before,
        m.load_after,
        r.build.version,
        m.build,
        r.build.hash
    ));
    if r.build != *here {
        all.push(format!(
            "These results are of another build than the program that writes this report ({} {}).",
            here.version, here.hash
        ));
    }
    if !r.complete {
        let wanted = (e.runs)(&r.setting).len() * r.repeats as usize;
        all.push(format!(
            "Incomplete: {} of {wanted} runs were measured. `armento paper run {} --resume` does the rest.",
            r.samples.len(),
            e.id
        ));
    }
    for d in &r.discarded {
        all.push(format!("Discarded: {}, {}: {}.", d.run, d.at, d.why));
    }
    all
}

impl Section<'_> {
    /// How many of its relations pass, fail, and could not be judged.
    pub fn counts(&self) -> [usize; 3] {
        let count = |what: fn(&Verdict) -> bool| {
            let of = self.judged.iter().filter(|j| what(&j.verdict));
            of.count()
        };
        [
            count(|v| matches!(v, Verdict::Holds(_))),
            count(|v| matches!(v, Verdict::Fails(_))),
            count(|v| matches!(v, Verdict::Unmeasured(_))),
        ]
    }

    /// Bytes of each run: its name, those that n1 received and sent, and those that all nodes sent.
    pub fn traffic(&self) -> Vec<(String, u64, u64, u64)> {
        let samples = self.results.map_or(&[][..], |r| &r.samples);
        let one = |s: &crate::runner::Sample| {
            let of = |first: bool, f: fn(&armento_lab::Traffic) -> u64| -> u64 {
                let some = s.traffic.iter().filter(|t| !first || t.node == "n1");
                some.map(f).sum()
            };
            let name = format!("{}, repeat {}", s.run, s.repeat + 1);
            (
                name,
                of(true, |t| t.received),
                of(true, |t| t.sent),
                of(false, |t| t.sent),
            )
        };
        samples
            .iter()
            .filter(|s| !s.traffic.is_empty())
            .map(one)
            .collect()
    }
}
