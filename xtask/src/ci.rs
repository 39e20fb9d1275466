//! The steps of continuous integration, in order: formatting, tidy, the build, tests, clippy, Debian machines,
//! conformance, the fault campaign; the long run adds fuzzing and test suites.
//!
//! Packages are installed beside the build, which mostly computes; clippy and the image of the Debian machines are made
//! beside the tests, which mostly wait ([`beside`]). Every step runs even when an earlier one failed, so that one run shows all failures. The output is short: failures,
//! gaps and skipped tests; files below the build directory have the rest. The last line counts tests: `N passed, N
//! failed, N skipped`.

mod beside;

use crate::count::{self, Count, Tally};
use crate::terse::{Panics, Terse};
use crate::{fuzz, root, tidy};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Modes of conformance, as `armento conform --mode` takes them.
const MODES: &str = "native,home,away,storm,storm-call";
/// … and with everything on files made at home.
const MODES_ALL: &str =
    "native,home,away,storm,storm-call,away-forward,storm-forward,lost,handover";
/// Guests at once, on two cores: they wait more than they compute.
const GUESTS: &str = "6";
/// … those of the fault campaign, and in the long run.
const JOBS: &str = "4";
/// A guest that takes longer hangs. The longest, thousands of moves under `storm-call`, takes a minute beside the others.
const HANG_S: &str = "180";

/// `Ok(true)` when every step passed. `packages`: Debian's, which the tests need.
pub fn run(long: bool, packages: &[String]) -> Result<bool> {
    let mut packages = beside::Packages::install(packages)?;
    let mut sum = Sum::default();
    let mut bad: Vec<&str> = Vec::new();
    let mut note = |name: &'static str, good: bool| {
        if !good {
            bad.push(name);
        }
    };

    if has_component(&mut sum, "fmt") {
        note("fmt", step("fmt", || cargo(&["fmt", "--all", "--check"]))?);
    }
    note("tidy", step("tidy", || tidy::run(&root()))?);
    packages.check()?;
    note("build", step("build", build)?);
    packages.wait()?;
    let checks = beside::Checks::new(has_component(&mut sum, "clippy").then_some(CLIPPY));
    let first = usual_tests(long);
    note(
        "tests",
        step("tests", || tests(&mut sum, &first, || checks.start()))?,
    );
    note("clippy", clippy(checks)?);
    note(
        "debian",
        step("debian", || tests(&mut sum, &debian(long), || ()))?,
    );
    if long {
        let fuzz = || fuzz::step(&mut sum.count, FUZZ_LONG_S);
        note("fuzz", step("fuzz", fuzz)?);
    }
    for _ in 0..if long { 3 } else { 1 } {
        let run = || conformance(&mut sum, &usual(long));
        note("conformance", step("conformance", run)?);
    }
    note("faults", step("faults", || faults(&mut sum, &moved(long)))?);
    let kept = || faults(&mut sum, &kept_safe(long));
    note(
        "faults of safe programs",
        step("faults of safe programs", kept)?,
    );
    if long {
        note("suites", step("suites", || conformance(&mut sum, &SUITES))?);
    }

    if bad.is_empty() {
        println!("ci: all steps passed");
    } else {
        // Once more, since readers of a log that was cut see its end.
        for line in sum.failures.iter().take(FAILURES_MAX) {
            println!("ci: {line}");
        }
        println!("ci: failed: {}", bad.join(", "));
    }
    println!("{}", sum.count);
    Ok(bad.is_empty() && sum.count.failed == 0)
}

/// What the steps found so far.
#[derive(Default)]
struct Sum {
    count: Count,
    /// A text for each failed test, guest or campaign, and the messages of panics, line by line.
    failures: Vec<String>,
}

/// Lines of failures that are printed once more at the end.
const FAILURES_MAX: usize = 60;

/// Time limits of tests and conformance, seconds, so that a hang does not use up the server's 35 minutes. A cold build
/// takes 6 to 11 minutes on two cores, the tests ten to fourteen with clippy beside them, Debian machines three to six, conformance six to
/// seven, the fault campaign half of one.
const TESTS_S_MAX: u32 = 1020;
const CONFORMANCE_S_MAX: u32 = 660;

/// Seconds of fuzzing of all decoders together, in `make test-all` only: a unit test of `fuzz` runs every input of the corpus,
/// and building the instrumented decoders takes minutes of the server's 35.
const FUZZ_LONG_S: u32 = 3600;

/// `program` under timeout(1), which ends it and its children when the time is over. On a terminal it stays in the
/// foreground, so that Ctrl-C reaches it.
fn bounded(program: &Path, seconds_max: u32) -> Command {
    let mut c = Command::new("timeout");
    as_from_a_shell(&mut c);
    if std::io::stdin().is_terminal() {
        c.arg("--foreground");
    }
    c.args(["--kill-after=20", &seconds_max.to_string()])
        .arg(program);
    c
}

const CLIPPY: &[&str] = &[
    "clippy",
    "--release",
    "--locked",
    "--workspace",
    "--all-targets",
    "--",
    "-D",
    "warnings",
];

/// Passes the arguments to the bench crate.
pub fn bench(args: &[String]) -> Result<bool> {
    let mut all = vec![
        "run",
        "--release",
        "--locked",
        "--bin",
        "armento-bench",
        "--",
    ];
    all.extend(args.iter().map(String::as_str));
    cargo(&["build", "--release", "--locked", "--bin", "armento"])?;
    cargo(&all)
}

/// Announces a step, runs it, and prints its duration.
fn step(name: &str, run: impl FnOnce() -> Result<bool>) -> Result<bool> {
    println!("== {name}");
    let start = Instant::now();
    let good = run()?;
    let word = if good { "passed" } else { "FAILED" };
    println!(
        "== {name}: {word} in {:.0} s",
        start.elapsed().as_secs_f64()
    );
    Ok(good)
}

/// Whether a toolchain component is there, which small Rust installations lack.
fn has_component(sum: &mut Sum, name: &str) -> bool {
    let present = || quiet(Command::new("cargo").args([name, "--version"]));
    if !present() {
        let package = if name == "fmt" { "rustfmt" } else { name };
        let _ = quiet(Command::new("rustup").args(["component", "add", package]));
    }
    let has = present();
    if !has {
        println!("== {name}: skipped: this Rust installation has no cargo {name}");
        sum.count.skipped += 1;
    }
    has
}

/// Waits for clippy, which has run beside the tests, and prints what it found.
fn clippy(checks: beside::Checks) -> Result<bool> {
    let found = checks.finish()?;
    print!("{}", found.said);
    let word = if found.passed { "passed" } else { "FAILED" };
    let seconds = found.took.as_secs_f64();
    println!("== clippy: {word} in {seconds:.0} s beside the tests");
    Ok(found.passed)
}

pub fn quiet(c: &mut Command) -> bool {
    let c = c
        .current_dir(root())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    c.status().is_ok_and(|s| s.success())
}

/// Removes what `cargo run` has set for this program. Build scripts look at these names (ring's does): with other values
/// than in a user's shell nearly everything would be compiled anew.
fn as_from_a_shell(c: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            c.env_remove(&name);
        }
    }
    c
}

fn cargo(args: &[&str]) -> Result<bool> {
    let mut c = Command::new("cargo");
    as_from_a_shell(&mut c);
    // A log needs no line for each crate; warnings and errors are printed all the same.
    if !std::io::stderr().is_terminal() {
        c.env("CARGO_TERM_QUIET", "true");
    }
    let status = c
        .args(args)
        .current_dir(root())
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cargo {} did not start", args.join(" ")))?;
    Ok(status.success())
}

/// Builds everything that later steps run, so that their limits count running only: the tests, and with those of the
/// command line the program. `cargo build` before would compile crates once more whose tests need another feature of theirs.
fn build() -> Result<bool> {
    cargo(&[
        "test",
        "--release",
        "--locked",
        "--workspace",
        "--no-run",
        "--quiet",
    ])
}

/// A call of `cargo test`.
struct Tests {
    words: &'static [&'static str],
    seconds_max: u32,
    /// Number of tests at once.
    threads: usize,
    long: bool,
    /// All output, below the build directory.
    file: &'static str,
}

/// Unit, integration and documentation tests of the workspace.
fn usual_tests(long: bool) -> Tests {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Tests {
        words: &["--exclude", "armento-machines"],
        seconds_max: if long { 4 * TESTS_S_MAX } else { TESTS_S_MAX },
        // The tests wait for farms more than they compute: half as many again as there are processors.
        threads: cores + cores.div_ceil(2),
        long,
        file: "tests.log",
    }
}

/// Time limits of tests on Debian machines in QEMU, seconds: the image is built in two minutes, two machines boot in
/// one and the test itself takes two; the long ones boot some twenty times.
const DEBIAN_S_MAX: u32 = 600;
const DEBIAN_LONG_S_MAX: u32 = 4 * 3600;

/// One after the other: each machine needs a processor of its own.
fn debian(long: bool) -> Tests {
    Tests {
        words: &["--test", "debian_*"],
        seconds_max: if long {
            DEBIAN_LONG_S_MAX
        } else {
            DEBIAN_S_MAX
        },
        threads: 1,
        long,
        file: "debian.log",
    }
}

/// Runs them; `begun` is called when the first has written something.
fn tests(sum: &mut Sum, what: &Tests, begun: impl FnOnce()) -> Result<bool> {
    let mut c = bounded(Path::new("cargo"), what.seconds_max);
    c.args([
        "test",
        "--release",
        "--locked",
        "--workspace",
        "--no-fail-fast",
    ]);
    let threads = what.threads.to_string();
    c.args(what.words);
    c.args(["--", "--show-output", "--test-threads", &threads]);
    let kept = target().join(what.file);
    let mut log = File::create(&kept).with_context(|| format!("{} not made", kept.display()))?;
    c.current_dir(root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.try_clone()?);
    if what.long {
        c.env("ARMENTO_LONG_TESTS", "1");
    }
    let start = Instant::now();
    let mut begun = Some(begun);
    let mut child = c.spawn().context("cargo test did not start")?;
    let (mut tally, mut terse) = (Tally::default(), Terse::default());
    let mut panics = Panics::default();
    let out = child.stdout.take().context("cargo test has no output")?;
    for line in BufReader::new(out).split(b'\n') {
        let line = line?;
        if let Some(begun) = begun.take() {
            begun();
        }
        let line = String::from_utf8_lossy(&line);
        // With the seconds since the step began: which tests take long.
        writeln!(log, "{:6.1} {line}", start.elapsed().as_secs_f64())?;
        if let Some(told) = terse.line(&line) {
            println!("{told}");
        }
        if line.ends_with(" ... FAILED") {
            sum.failures.push(line.to_string());
        }
        sum.failures.extend(panics.line(&line));
        tally.line(&line);
    }
    let good = child.wait()?.success();
    println!("tests: {} (all output: {})", tally.count, kept.display());
    // It did not compile, or died: a failure even if no test reported one.
    if !good && tally.count.failed == 0 {
        tally.count.failed = 1;
    }
    sum.count += tally.count;
    Ok(good)
}

/// A call of `armento conform`.
struct Conform {
    words: &'static [&'static str],
    seconds_max: u32,
    /// Its report, below the build directory.
    file: &'static str,
}

/// Every guest in every mode, once.
fn usual(long: bool) -> Conform {
    let file = "conform.json";
    if long {
        // Also guests that need big packages.
        return Conform {
            words: &[
                "--mode",
                MODES_ALL,
                "--long",
                "--jobs",
                JOBS,
                "--timeout",
                HANG_S,
            ],
            seconds_max: 3 * CONFORMANCE_S_MAX,
            file,
        };
    }
    Conform {
        words: &["--mode", MODES, "--jobs", GUESTS, "--timeout", HANG_S],
        seconds_max: CONFORMANCE_S_MAX,
        file,
    }
}

/// The test suites of well-known programs, fetched as Debian sources.
const SUITES: Conform = Conform {
    words: &[
        "--suite",
        "all",
        "--mode",
        "away,storm,storm-call",
        "--timeout",
        "300",
    ],
    seconds_max: 7200,
    file: "suites.json",
};

fn conformance(sum: &mut Sum, what: &Conform) -> Result<bool> {
    let armento = target().join("release/armento");
    let out = bounded(&armento, what.seconds_max)
        .args(["conform", "--json"])
        .args(what.words)
        .current_dir(root())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{} did not start", armento.display()))?;
    let text = String::from_utf8_lossy(&out.stdout);
    let kept = keep(&target().join(what.file), &text);
    match count::conform(&text) {
        Some((count, lines)) => {
            for line in lines {
                println!("conformance: {line}");
                if line.starts_with("FAILED") {
                    sum.failures.push(format!("conformance: {line}"));
                }
            }
            sum.count += count;
            println!("conformance: {count} (details: {kept})");
            let good = out.status.success() && count.failed == 0;
            // It was stopped, or did not finish: a failure even if every guest so far was equal.
            if !good && count.failed == 0 {
                println!(
                    "conformance: FAILED: ended with {} before its end",
                    out.status
                );
                sum.count.failed += 1;
            }
            Ok(good)
        }
        None => {
            println!("conformance: no report, {}; its output: {kept}", out.status);
            sum.count.failed += 1;
            Ok(false)
        }
    }
}

/// Moves of the fault campaign and its time limit, seconds: about thirty moves a second on two cores, and afterwards up
/// to 45 s until the last body without a home is gone.
const FAULTS: (&str, u32) = ("200", 240);
const FAULTS_LONG: (&str, u32) = ("10000", 3600);
/// Programs that are kept safe, and the time limit: about one in two seconds on two cores.
const SAFE: (&str, u32) = ("10", 240);
const SAFE_LONG: (&str, u32) = ("1000", 5400);

/// A fault campaign.
struct Faults {
    words: Vec<&'static str>,
    seconds_max: u32,
    report: &'static str,
}

/// Programs are moved about while faults are injected.
fn moved(long: bool) -> Faults {
    let (moves, seconds_max) = if long { FAULTS_LONG } else { FAULTS };
    Faults {
        words: vec!["--moves", moves],
        seconds_max,
        report: "faults.json",
    }
}

/// Programs that are kept safe lose their bodies.
fn kept_safe(long: bool) -> Faults {
    let (programs, seconds_max) = if long { SAFE_LONG } else { SAFE };
    Faults {
        words: vec!["--safe", "--programs", programs],
        seconds_max,
        report: "faults-safe.json",
    }
}

fn faults(sum: &mut Sum, campaign: &Faults) -> Result<bool> {
    let armento = target().join("release/armento");
    let out = bounded(&armento, campaign.seconds_max)
        .args([
            "conform", "--faults", "--json", "--seed", "1", "--jobs", JOBS,
        ])
        .args(&campaign.words)
        .current_dir(root())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{} did not start", armento.display()))?;
    let text = String::from_utf8_lossy(&out.stdout);
    let kept = keep(&target().join(campaign.report), &text);
    match count::faults(&text) {
        Some((count, line)) if out.status.success() || count.failed > 0 => {
            println!("faults: {line} (details: {kept})");
            if count.failed > 0 {
                sum.failures.push(format!("faults: {line}"));
            }
            sum.count += count;
            Ok(count.failed == 0)
        }
        _ => {
            println!(
                "faults: FAILED: no report, {}; its output: {kept}",
                out.status
            );
            sum.count.failed += 1;
            Ok(false)
        }
    }
}

/// The build directory of cargo.
pub fn target() -> PathBuf {
    let dir = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(dir)
}

fn keep(path: &Path, text: &str) -> String {
    match std::fs::write(path, text) {
        Ok(()) => path.display().to_string(),
        Err(e) => format!("not kept, {e}"),
    }
}
