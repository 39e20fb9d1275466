//! What an experiment is: facts for readers, and functions that run it and show it.

use super::results::{Means, Results};
use super::setting::{On, Setting};
use crate::chapter::{Chapter, Mean};
use crate::formula::Values;
use anyhow::Result;
use armento_lab::Traffic;
use serde_json::Value;
use std::ops::RangeInclusive;

/// A program that an experiment needs, and the Debian package that has it.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    pub program: &'static str,
    pub package: &'static str,
}

/// One run of an experiment, repeated as often as was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Unique in its experiment.
    pub name: String,
    /// Time that it will take, seconds: for the time left.
    pub expect_s: f64,
}

/// What one run measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// By the names of `papers/relations.csv`.
    pub values: Values,
    /// Everything else that a reader may want.
    pub raw: Value,
    pub traffic: Vec<Traffic>,
    /// Why this is no measurement: it is discarded.
    pub problem: Option<String>,
}

/// What is known of an experiment.
pub struct Found<'a> {
    /// None where it was never run.
    pub results: Option<&'a Results>,
    pub means: Means,
    /// Means, and what follows from them.
    pub values: Values,
}

impl Found<'_> {
    /// A measured value, or one that follows from several.
    pub fn mean(&self, name: &str) -> Option<Mean> {
        let derived = || Mean::of(&[self.values.get(name)?]);
        self.means.get(name).copied().or_else(derived)
    }

    /// The value alone.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.mean(name).map(|m| m.mean)
    }
}

/// An experiment of a paper.
pub struct Experiment {
    pub id: &'static str,
    pub title: &'static str,
    /// Key of the paper, as in `docs/papers.md`, and the place there.
    pub paper: &'static str,
    pub place: &'static str,
    pub requirements: &'static [&'static str],
    /// What it shows.
    pub shows: &'static str,
    /// What stands for what: workload, network, policy.
    pub emulation: &'static str,
    pub on: On,
    /// By default, and those that it can have.
    pub nodes: usize,
    pub nodes_range: RangeInclusive<usize>,
    pub scale: f64,
    pub scale_range: RangeInclusive<f64>,
    /// At the default scale on two cores.
    pub minutes: f64,
    pub tools: &'static [Tool],
    /// Ids in `papers/relations.csv` and `papers/bars.csv`.
    pub relations: &'static [&'static str],
    /// Refuses a setting for which this machine is too small, with one that fits.
    pub fits: fn(&Setting) -> Result<()>,
    /// What all runs share, such as the measured cost of an encoder; kept with the results.
    pub prepare: fn(&Setting) -> Result<Value>,
    /// In their order; names do not depend on the machine.
    pub runs: fn(&Setting) -> Vec<Run>,
    /// `seed`: other for each repeat.
    pub perform: fn(&Run, &Setting, &Value, u64) -> Result<Measured>,
    /// Adds what follows from the means of several runs.
    pub derive: fn(&mut Values),
    /// Tables and pictures of what is known.
    pub chapter: fn(&Found) -> Chapter,
}

/// For experiments without anything to share.
pub fn nothing(_: &Setting) -> Result<Value> {
    Ok(Value::Null)
}

/// For experiments whose runs each have all their values.
pub fn as_is(_: &mut Values) {}

/// For experiments that any machine can run.
pub fn always(_: &Setting) -> Result<()> {
    Ok(())
}
