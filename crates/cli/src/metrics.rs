//! `armento metrics`.

use crate::out::{Failure, say, unexpected_answer};
use armento_client::{ANSWER, Session};
use armento_metrics::{Snapshot, prometheus_text, render};
use std::path::{Path, PathBuf};

const HELP: &str = "Examples:
  armento metrics
  armento metrics --format text
  armento metrics --out /var/lib/prometheus/node-exporter/armento.prom    for node_exporter's textfile collector

Prometheus' server reads either format. See the page of the manual for a dashboard and alert rules.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// OpenMetrics 1.0, or Prometheus' text format 0.0.4 [default: openmetrics; with --out: text]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Write this file, whole or not at all
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Openmetrics,
    Text,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let openmetrics = render(&snapshot()?);
    let default = match args.out {
        Some(_) => Format::Text,
        None => Format::Openmetrics,
    };
    let text = match args.format.unwrap_or(default) {
        Format::Openmetrics => openmetrics,
        Format::Text => prometheus_text(&openmetrics),
    };
    match &args.out {
        None => say(&text),
        Some(path) => replace(path, &text)?,
    }
    Ok(0)
}

fn snapshot() -> anyhow::Result<Snapshot> {
    let mut session = Session::connect().map_err(Failure::from)?;
    let mut snapshot = Snapshot::default();
    for ask in Snapshot::questions() {
        if !snapshot.take(session.ask(ask, ANSWER).map_err(Failure::from)?) {
            return Err(unexpected_answer());
        }
    }
    Ok(snapshot)
}

/// Writes the file so that a reader finds the old or the new content. The collector reads names that end with .prom only, so
/// what is written beside it is not read.
fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    armento_fabric::file::replace_by_new(path, text.as_bytes()).map_err(|e| Failure {
        message: format!("{} cannot be written: {e}; it is as it was", path.display()),
        hint: "does its directory exist, and may you write there?".into(),
    })
}
