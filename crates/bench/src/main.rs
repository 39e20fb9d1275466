//! `armento-bench`: the measured bars, each a ratio or difference of two quantities measured alternately in one run, A
//! B A B, with medians and raw samples.
//!
//! It never compares with an earlier run or another machine, and never changes the machine outside the labs that it
//! starts and one directory of compiled workloads; both are removed at its end. Start at [`run`], then `bench/*.rs`,
//! one file a bench; `row.rs` is their report.

mod bench;
mod programs;
mod row;
mod run;
mod stage;
mod sys;
mod witness;

use anyhow::{Context, Result, bail};
use armento_lab::Facts;
use bench::{BENCHES, Bench};
use clap::Parser;
use row::{Row, Table};
use run::Limit;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// No new round begins after this, so that a whole run takes at most 6 minutes.
const WHOLE: Duration = Duration::from_secs(320);
/// … and a run of all benches of moves, with four gigabytes many times, at most half an hour.
const ENGINE_WHOLE: Duration = Duration::from_secs(1700);
/// The group of benches that measure moves.
const ENGINE: &str = "engine";
/// Version of the output of `--json`.
const SCHEMA: &str = "armento.bench/1";

const HELP: &str = "Benches: home start birth local call, of screens screen history, of farms rest owner make, and of moves (together: engine) bulk pause first bytes beside stalls.
If none is named: home start birth local call bulk.
Examples:
  cargo xtask bench                        the everyday bars, on a release build
  cargo xtask bench engine                 moves of every size: some 25 minutes
  cargo xtask bench screen history         top with 1,000 nodes, a history of a million jobs
  cargo xtask bench rest owner             a farm on which nothing runs, and one with a returning owner: 6 minutes
  cargo xtask bench make                   make -j12 on four slow nodes: 8 minutes
  cargo xtask bench --quick                fewer samples, no gigabyte
  cargo xtask bench pause --only threads
  cargo xtask bench call pause --json bench.json

Exit codes: 0 every bar is met, 1 one is missed or could not be measured, 125 nothing was measured.";

/// Measure the bars
#[derive(Parser)]
#[command(name = "armento-bench", after_help = HELP)]
struct Args {
    /// Run only these benches
    #[arg(value_name = "BENCH", value_parser = bench_named)]
    benches: Vec<String>,
    /// Fewer samples and less memory: only tests that the benches work
    #[arg(long)]
    quick: bool,
    /// Of `pause`, `bulk` and `safe`: only the cases with this in their names
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Write facts, rows and raw samples to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The armento to measure [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    armento: Option<PathBuf>,
}

fn bench_named(word: &str) -> Result<String, String> {
    if word == ENGINE || BENCHES.iter().any(|b| b.name == word) {
        return Ok(word.to_owned());
    }
    let known = BENCHES.map(|b| b.name).join(", ");
    Err(format!(
        "the benches are {known}, and {ENGINE} for those of moves"
    ))
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("armento-bench: {e:#}");
            ExitCode::from(125)
        }
    }
}

/// `Ok(true)`: every bar was measured and met.
fn run(args: &Args) -> Result<bool> {
    let benches = chosen(&args.benches);
    let limit = Limit::of(if args.benches.iter().any(|b| b == ENGINE) {
        ENGINE_WHOLE
    } else {
        WHOLE
    });
    let armento = armento(args.armento.as_deref())?;
    let programs = programs::Programs::compile()?;
    let mut facts = Facts::before(&armento)?;
    print!("{facts}");
    println!("{}", Row::heading());
    let stage = stage::Stage {
        armento,
        programs,
        quick: args.quick,
        only: args.only.clone(),
        limit,
    };
    let mut table = Table::default();
    for bench in &benches {
        measure(bench, &stage, &mut table);
    }
    let rows = table.0;
    if args.benches.is_empty() {
        println!("{}", bench::ELSEWHERE);
    }
    facts.after();
    println!("load after: {}", facts.load_after);
    if let Some(file) = &args.json {
        keep(file, &facts, args.quick, &rows)?;
    }
    Ok(rows.iter().all(Row::pass))
}

/// Those named, each once, in the order of the list; the default ones if none is named.
fn chosen(named: &[String]) -> Vec<&'static Bench> {
    let asked = |b: &&Bench| match named {
        [] => b.everyday,
        _ => named.iter().any(|n| n == b.name || n == ENGINE && b.engine),
    };
    BENCHES.iter().filter(asked).collect()
}

/// A bench that fails is reported in a row of its own; the others go on.
fn measure(bench: &Bench, stage: &stage::Stage, table: &mut Table) {
    if stage.limit.is_over() {
        return table.push(Row::failed(bench.name, "no time was left for it"));
    }
    if let Err(e) = (bench.run)(stage, table) {
        table.push(Row::failed(bench.name, &format!("{e:#}")));
    }
}

fn keep(file: &Path, facts: &Facts, quick: bool, rows: &[Row]) -> Result<()> {
    let all = serde_json::json!({
        "schema": SCHEMA, "quick": quick, "facts": facts, "rows": rows,
    });
    std::fs::write(file, format!("{all:#}\n")).with_context(|| {
        format!(
            "cannot write {}; the table above is complete",
            file.display()
        )
    })
}

/// The one named, or the one built beside this program.
fn armento(named: Option<&Path>) -> Result<PathBuf> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()?.with_file_name("armento"),
    };
    match path.canonicalize() {
        Ok(path) => Ok(path),
        Err(e) => bail!(
            "no armento at {}: {e}; nothing was measured\n\
             hint: cargo xtask bench builds it, or name it with --armento PATH",
            path.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_valid() {
        <Args as clap::CommandFactory>::command().debug_assert();
        assert!(bench_named("call").is_ok_and(|b| b == "call"));
        assert!(bench_named("cal").is_err_and(|e| e.contains("home, start")));
        let names = |named: &[&str]| -> Vec<&str> {
            let named: Vec<String> = named.iter().map(|n| n.to_string()).collect();
            chosen(&named).iter().map(|b| b.name).collect()
        };
        assert_eq!(names(&["pause", "call"]), ["call", "pause"]);
        assert!(names(&["engine"]).contains(&"stalls") && !names(&["engine"]).contains(&"call"));
        assert!(names(&[]).contains(&"bulk") && !names(&[]).contains(&"pause"));
    }
}
