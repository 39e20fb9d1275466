//! Tasks of the repository: `cargo xtask ci
//!
//! tidy
//!
//! gen
//!
//! fuzz
//!
//! bench`. `ci` is exactly what the server runs.
//!
//! It never changes the product's sources (`gen` writes generated pages of the manual). Start at [`ci::run`]; the rules
//! that are checked are in [`tidy`].

mod ci;
mod count;
mod fuzz;
mod generate;
mod terse;
mod tidy;

use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask ci [--long] [--packages NAME…] | tidy | gen | fuzz [ARGS…] | bench [ARGS…]
  ci      formatting, tidy, every test, clippy, conformance once per mode, a small fault campaign;
          --packages: Debian packages to install beside the build, all words that follow;
          --long: conformance three times with all guests, the test suites of programs, the long tests,
          the decoders fuzzed for an hour, 10,000 moves of the fault campaign
  tidy    the rules of the house: layers, file lengths, words, unsafe, stale paths
  gen     write the generated pages of the manual
  fuzz    decoders under libFuzzer: [--seconds N] (in all; 60) [TARGET…]
  bench   run the measured bars (armento-bench)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("xtask: {e:#}");
            ExitCode::from(2)
        }
    }
}

/// `Ok(false)`: it ran, and found something wrong.
fn dispatch(args: &[String]) -> Result<bool> {
    let rest = args.get(1..).unwrap_or_default();
    match args.first().map(String::as_str) {
        Some("ci") => {
            let mut words = rest.splitn(2, |a| a == "--packages");
            let options = words.next().unwrap_or_default();
            let packages = words.next().unwrap_or_default();
            ci::run(options.iter().any(|a| a == "--long"), packages)
        }
        Some("tidy") => tidy::run(&root()),
        Some("gen") => generate::write(&root()).map(|()| true),
        Some("fuzz") => fuzz::command(rest),
        Some("bench") => ci::bench(rest),
        Some("-h" | "--help" | "help") => {
            println!("{USAGE}");
            Ok(true)
        }
        _ => bail!("{USAGE}"),
    }
}

/// The checkout: the directory above this package.
fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}
