//! `armento paper list | run | report`.

use crate::encoders::Interrupted;
use crate::experiments::{ALL, ONLY_FULL};
use crate::formula::Values;
use crate::report::{self, Section, section};
use crate::runner::{self, Build, Experiment, On, Order, Results};
use anyhow::{Context, Result, bail};
use armento_lab::{say, write_out};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const LIST_HELP: &str = "Example:
  armento paper list --json";
const RUN_HELP: &str = "Examples:
  armento paper run power test1-sim
  armento paper run topology-mono --scale 0.01 --repeat 3
  armento paper run all --resume            go on with what is missing

Results are kept in DIR/ID.json, run by run; Ctrl-C takes the labs down and loses the run that was under way.";
const REPORT_HELP: &str = "Examples:
  armento paper report
  armento paper report --out site           site/report.html, report.md and pictures";

/// Published experiments, re-run
#[derive(Debug, clap::Subcommand)]
pub enum Cmd {
    /// Show every experiment that can be run
    #[command(after_help = LIST_HELP)]
    List(List),
    /// Run experiments and show the paper's tables with the measured values beside
    #[command(after_help = RUN_HELP)]
    Run(Run),
    /// Write one HTML page and Markdown of all results
    #[command(after_help = REPORT_HELP)]
    Report(Report),
}

#[derive(Debug, clap::Args)]
pub struct List {
    /// Print JSON (schema armento.paper-list/1)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub struct Run {
    /// Experiments of `armento paper list`, or all
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Length of the work, 1 as in the paper [default: the experiment's]
    #[arg(long, value_name = "K")]
    scale: Option<f64>,
    /// Ground: `all` are those of this one, others are refused [default: the experiment's]
    #[arg(long, value_enum)]
    on: Option<On>,
    /// Number of nodes [default: the experiment's]
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// Number of times that each run is done; mean, lowest and highest are shown
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Also the runs that take long: larger systems, a second MPI; `all` then has every experiment
    #[arg(long)]
    full: bool,
    /// Keep what was measured, and do only what is missing
    #[arg(long)]
    resume: bool,
    /// Write all results as JSON to this file (schema armento.paper-results/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Folder of results [default: ~/.local/share/armento/papers]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct Report {
    /// Folder of the report [default: report in the folder of results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Folder of results [default: ~/.local/share/armento/papers]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// The exit code: 1 when a sample was discarded. A relation that fails is a result, not an error.
pub fn run(cmd: Cmd) -> Result<i32> {
    match cmd {
        Cmd::List(args) => list(&args),
        Cmd::Run(args) => run_all(&args),
        Cmd::Report(args) => report(&args),
    }
}

fn list(args: &List) -> Result<i32> {
    if args.json {
        let one = |e: &&Experiment| {
            json!({
                "id": e.id, "title": e.title, "paper": e.paper, "place": e.place,
                "requirements": e.requirements, "shows": e.shows, "emulation": e.emulation,
                "on": e.on, "nodes": e.nodes, "scale": e.scale, "minutes": e.minutes,
                "packages": e.tools.iter().map(|t| t.package).collect::<Vec<_>>(),
                "relations": e.relations,
            })
        };
        let all: Vec<_> = ALL.iter().map(one).collect();
        let doc = json!({ "schema": "armento.paper-list/1", "experiments": all });
        say!("{doc:#}");
        return Ok(0);
    }
    say!(
        "{:<17}{:<7}{:<11}{:<10}{:<9}WHAT IT SHOWS",
        "ID",
        "PAPER",
        "ON",
        "NODES",
        "MINUTES"
    );
    for e in ALL {
        let minutes = match e.minutes {
            m if m < 1.0 => "< 1".to_owned(),
            m => format!("{m:.0}"),
        };
        say!(
            "{:<17}{:<7}{:<11}{:<10}{:<9}{}",
            e.id,
            e.paper,
            e.on.word(),
            e.nodes,
            minutes,
            e.title
        );
    }
    Ok(0)
}

/// `all` are those of the wanted ground; without one, all that need no farm of the user's; those that take long only if `full`.
fn chosen(ids: &[String], on: Option<On>, full: bool) -> Result<Vec<&'static Experiment>> {
    if ids.iter().any(|id| id == "all") {
        let wanted = |e: &&&Experiment| {
            on.map_or(e.on != On::Farm, |on| e.on == on) && (full || !ONLY_FULL.contains(&e.id))
        };
        return Ok(ALL.iter().filter(wanted).copied().collect());
    }
    let mut chosen: Vec<&Experiment> = Vec::new();
    for id in ids {
        match ALL.iter().find(|e| e.id == id) {
            Some(e) if chosen.iter().all(|c| c.id != e.id) => chosen.push(e),
            Some(_) => {}
            None => bail!("there is no experiment `{id}`\nhint: `armento paper list` shows them"),
        }
    }
    Ok(chosen)
}

fn run_all(args: &Run) -> Result<i32> {
    let chosen = chosen(&args.ids, args.on, args.full)?;
    let folder = runner::folder(args.data.as_deref())?;
    let order = Order {
        scale: args.scale,
        on: args.on,
        nodes: args.nodes,
        repeats: args.repeat,
        full: args.full,
        resume: args.resume,
    };
    // What is wrong is said before the first run, not after half an hour.
    for e in &chosen {
        e.setting(&order)?;
        e.check_tools()?;
    }
    let hint = format!("armento paper run {} --resume", args.ids.join(" "));
    let stop = runner::arm(hint.clone())?;
    let (mut discarded, mut done) = (0, Vec::new());
    for e in &chosen {
        let (results, ended) = match runner::begin(e, &order, &folder, &stop) {
            Ok(done) => done,
            // The signal came while the encoders were being watched.
            Err(e) => match e.downcast_ref::<Interrupted>() {
                Some(Interrupted(signal)) => {
                    eprintln!("armento paper: {}\nhint: {hint}", runner::INTERRUPTED);
                    return Ok(128 + signal);
                }
                None => return Err(e),
            },
        };
        discarded += ended.discarded;
        let others = values_of_others(&folder, e)?;
        let shown = section(e, Some(&results), &others, &Build::here());
        write_out(format_args!("{}", report::text(&shown)));
        done.push(results);
    }
    say!(
        "\nresults: {}\nreport: armento paper report",
        folder.display()
    );
    if let Some(to) = &args.json {
        let doc = json!({ "schema": "armento.paper-results/1", "results": done });
        fs::write(to, format!("{doc:#}\n"))
            .with_context(|| format!("cannot write {}", to.display()))?;
    }
    if discarded > 0 {
        eprintln!(
            "armento paper: {discarded} samples were discarded\nhint: --resume does these runs again"
        );
    }
    Ok(i32::from(discarded > 0))
}

/// Values of all other experiments on the same ground, for relations between several.
fn values_of_others(folder: &Path, e: &Experiment) -> Result<Values> {
    let mut all = Values::default();
    for other in ALL.iter().filter(|o| o.id != e.id && o.on == e.on) {
        if let Some(results) = Results::load(folder, other.id)? {
            let mut values = results.values();
            (other.derive)(&mut values);
            all = all.or(&values);
        }
    }
    Ok(all)
}

fn report(args: &Report) -> Result<i32> {
    let folder = runner::folder(args.data.as_deref())?;
    let mut results: BTreeMap<&str, Results> = BTreeMap::new();
    for e in ALL {
        if let Some(r) = Results::load(&folder, e.id)? {
            results.insert(e.id, r);
        }
    }
    if results.is_empty() {
        bail!(
            "{} has no results\nhint: armento paper run all",
            folder.display()
        );
    }
    let here = Build::here();
    let mut sections: Vec<Section> = Vec::new();
    for e in ALL {
        let others = values_of_others(&folder, e)?;
        sections.push(section(e, results.get(e.id), &others, &here));
    }
    let out = args.out.clone().unwrap_or_else(|| folder.join("report"));
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut files = vec![
        ("report.html".to_owned(), report::html(&sections)?),
        ("report.md".to_owned(), report::markdown(&sections)),
    ];
    files.extend(report::pictures(&sections)?);
    for (name, text) in files {
        let to = out.join(name);
        fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))?;
    }
    say!("{}", out.join("report.html").display());
    say!("{}", out.join("report.md").display());
    let old = results.values().filter(|r| r.build != here).count();
    if old > 0 {
        say!("{old} experiments were measured by another build, and say so");
    }
    Ok(0)
}
