//! The two runs: one after the other on one node, and all at once on a farm.

use super::mode::Mode;
use super::plan::{Encoder, Plan};
use super::stage::{self, Stage};
use super::ticks::Ticks;
use super::topology::Topology;
use super::view::{Hop, View};
use super::watch::{self, Seen, Usage, Watcher};
use super::{scripts, sound};
use crate::figures::Span;
use crate::published::JOBS;
use anyhow::{Context, Result, bail};
use armento_lab::say;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::time::Instant;

/// Four nodes of 0.4 fit on two cores and leave a fifth for the machine itself.
const SPEED_MAX: f64 = 0.4;
/// Share of all cores that the nodes may have together.
const CORES_SHARE: f64 = 0.8;
/// A farm run that takes this much longer than the single-node run has failed.
const SLACK: f64 = 2.0;
/// Interval between requests to the daemon for the places of the encoders.
const LOOK_MS: u32 = 500;
/// Directory of the files on n1.
const DIR: &str = "/var/tmp/armento-demo";
/// Last log lines of n1's daemon that a failed run shows.
const LOG_LINES: usize = 20;
/// Keepers append their final summaries here.
const SUMMARY: &str = "summary.jsonl";

/// A node's share of a core on this machine, where so many nodes run at most.
pub fn speed(nodes: usize) -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    share(cores, nodes)
}

fn share(cores: usize, nodes: usize) -> f64 {
    (CORES_SHARE * cores as f64 / nodes as f64).min(SPEED_MAX)
}

/// The cost of the encoder on this machine, and the scale that follows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    pub mode: Mode,
    pub encoder: Encoder,
    pub plan: Plan,
}

/// Measures the encoder. `single_s`: the wanted duration of the run on one node; `speed`: of a node.
pub fn prepare(mode: Mode, single_s: f64, speed: f64) -> Result<Prepared> {
    let scratch = sound::Scratch::new()?;
    let encoder = sound::measure(&scratch.0, mode)?;
    Ok(Prepared {
        mode,
        encoder,
        plan: Plan::new(encoder, mode, single_s, speed),
    })
}

/// Where each encoder was at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    pub at_s: f64,
    pub encoders: Vec<Seen>,
}

/// One run of all conversions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ran {
    pub spans: Vec<Span>,
    /// Jobs with an MP3 that is byte-identical to the native one.
    pub equal: usize,
    /// Share of the machine's processors that the hypervisor gave to other machines, percent.
    pub stolen_percent: f64,
}

/// A run on a farm.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Together {
    pub ran: Ran,
    pub samples: Vec<Sample>,
    pub hops: Vec<Hop>,
    pub usage: BTreeMap<usize, Usage>,
    /// The last log lines of n1's daemon, newest first.
    pub log: Vec<String>,
}

/// The clip that all jobs convert, and the MP3 that each must make of it.
pub struct Work {
    prepared: Prepared,
    wav: Vec<u8>,
    mp3: Vec<u8>,
}

impl Work {
    /// Makes both, natively on this machine.
    pub fn new(prepared: &Prepared) -> Result<Work> {
        let scratch = sound::Scratch::new()?;
        let (wav, mp3) = sound::reference(&scratch.0, &prepared.plan, prepared.mode)?;
        Ok(Work {
            prepared: *prepared,
            wav,
            mp3,
        })
    }

    fn patience(&self) -> f64 {
        self.prepared.plan.node_s_per_job * JOBS as f64 * SLACK + 30.0
    }

    /// Starts a farm of so many nodes on links of the plan's rate.
    pub fn raise(&self, nodes: usize, topology: Topology) -> Result<Stage> {
        let plan = &self.prepared.plan;
        Stage::raise(nodes, plan.speed, topology.link(plan.rate_mbit))
    }

    /// All conversions on n1, one after the other: the paper's `converti.sh`.
    pub fn alone(&self, stage: &Stage) -> Result<Ran> {
        self.lay_out(stage)?;
        let mut view = View::new(&stage.nodes());
        let ticks = Ticks::now();
        let child = stage.script(DIR, "converti.sh", &[])?;
        follow(child, self.patience(), |at_s| {
            view.alone(at_s, reported(stage).len(), JOBS);
        })?;
        Ok(self.ran(stage, ticks))
    }

    /// All conversions at once, started on n1: the paper's `converti-om.sh`.
    pub fn together(&self, stage: &Stage) -> Result<Together> {
        self.lay_out(stage)?;
        let mut view = View::new(&stage.nodes());
        let mut watcher = Watcher::new(stage.root());
        let mut samples = Vec::new();
        let ticks = Ticks::now();
        let summary = format!("ARMENTO_SUMMARY={DIR}/{SUMMARY}");
        let child = stage.script(DIR, "converti-om.sh", &[summary])?;
        follow(child, self.patience(), |at_s| {
            let done = reported(stage).len();
            let encoders = watcher.encoders().unwrap_or_default();
            view.show(at_s, &encoders, done);
            samples.push(Sample { at_s, encoders });
        })?;
        let ran = self.ran(stage, ticks);
        let summary = fs::read_to_string(file(stage, SUMMARY)).unwrap_or_default();
        let log = fs::read_to_string(stage.n1(armento_lab::farm::LOG)).unwrap_or_default();
        let last = log.lines().rev().take(LOG_LINES);
        Ok(Together {
            usage: watch::usage(&summary, &last_seen(&samples)),
            log: last.map(str::to_owned).collect(),
            hops: view.moves,
            ran,
            samples,
        })
    }

    fn ran(&self, stage: &Stage, ticks: Ticks) -> Ran {
        let stolen_percent = ticks.stolen_percent();
        let same = |i: &usize| {
            let path = file(stage, &format!("audio{i:02}.mp3"));
            fs::read(path).is_ok_and(|bytes| bytes == self.mp3)
        };
        Ran {
            spans: reported(stage),
            equal: (1..=JOBS).filter(same).count(),
            stolen_percent,
        }
    }

    /// Makes a clean directory on n1 with the scripts and 24 copies of the clip.
    fn lay_out(&self, stage: &Stage) -> Result<()> {
        let dir = stage.n1(DIR);
        if dir.exists() {
            fs::remove_dir_all(&dir).context("cannot clear the folder on n1")?;
        }
        fs::create_dir_all(&dir).context("cannot make the folder on n1")?;
        for i in 1..=JOBS {
            fs::write(dir.join(format!("audio{i:02}.wav")), &self.wav)?;
        }
        let options = self.prepared.mode.options();
        fs::write(dir.join("converti.sh"), scripts::alone(options))?;
        fs::write(dir.join("converti-om.sh"), scripts::farm(options))?;
        Ok(())
    }
}

fn file(stage: &Stage, name: &str) -> PathBuf {
    stage.n1(DIR).join(name)
}

fn reported(stage: &Stage) -> Vec<Span> {
    scripts::spans(&fs::read_to_string(file(stage, scripts::REPORT)).unwrap_or_default())
}

/// Polls a running script twice a second until it ends.
fn follow(mut child: Child, patience: f64, mut look: impl FnMut(f64)) -> Result<()> {
    let start = Instant::now();
    loop {
        let at_s = start.elapsed().as_secs_f64();
        look(at_s);
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                bail!("the script on n1 ended with {status}");
            }
            return Ok(());
        }
        if at_s > patience {
            // The figures show what is missing.
            say!("  not done after {patience:.0} s");
            end(child);
            return Ok(());
        }
        if let Err(e) = stage::pause(LOOK_MS) {
            end(child);
            return Err(e);
        }
    }
}

/// Kills `lab exec`; processes on n1 end with the lab.
fn end(mut child: Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

fn last_seen(samples: &[Sample]) -> BTreeMap<usize, Seen> {
    let all = samples.iter().flat_map(|s| &s.encoders);
    all.map(|e| (e.job, e.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_leave_room_for_the_machine() {
        let check = |cores: usize, want: f64| {
            assert!((share(cores, 4) - want).abs() < 1e-9, "{cores}");
        };
        check(1, 0.2);
        check(2, 0.4);
        check(64, 0.4);
    }
}
