//! The task for a runner and its answer, one JSON line each.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Longest line between session and runner, bytes: two captures and a tree of files, as JSON.
pub const LINE_MAX: usize = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The program itself.
    Native,
    /// `armento run --stay`.
    Home,
    /// `armento run --on n2`.
    Away,
    /// `armento run --storm`.
    Storm,
    /// `armento run --storm-call`.
    StormCall,
    /// `armento run --spread`.
    Spread,
    /// As `Away` and `Storm`, with `--forward-files`: hosts answer no call on files.
    AwayForward,
    StormForward,
    /// `armento run --safe --storm-loss`.
    Lost,
    /// `armento run --storm-handover`.
    Handover,
}

impl Mode {
    pub fn word(self) -> &'static str {
        match self {
            Mode::Native => "native",
            Mode::Home => "home",
            Mode::Away => "away",
            Mode::Storm => "storm",
            Mode::StormCall => "storm-call",
            Mode::Spread => "spread",
            Mode::AwayForward => "away-forward",
            Mode::StormForward => "storm-forward",
            Mode::Lost => "lost",
            Mode::Handover => "handover",
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    pub guest: String,
    /// The text of a user's own script.
    pub script: Option<String>,
    pub mode: Mode,
    /// Fresh directories are made below it.
    pub base: PathBuf,
    pub storm_ms: u32,
    pub seed: u64,
    pub timeout_s: u32,
    /// Needed by every mode but native.
    pub armento: Option<PathBuf>,
    /// The node that `away` uses.
    pub node: String,
    /// Keep the guest's directory.
    pub keep: bool,
}

impl Task {
    /// The guest's name as one part of a path, also of a list of paths: names of suite units contain slashes and
    /// colons.
    pub fn folder(&self) -> String {
        self.guest.replace(['/', ':'], "+")
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    Exit(i32),
    Signal(i32),
    /// It did not end in time (or kept an output open) and was killed.
    Hang,
    /// Not run: this Debian package is missing.
    Missing(String),
    /// Not run: the harness could not start it.
    Broken(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Exit(code) => write!(f, "exit {code}"),
            End::Signal(signal) => write!(f, "signal {signal}"),
            End::Hang => write!(f, "hang"),
            End::Missing(package) => write!(f, "skipped: package {package} is missing"),
            End::Broken(why) => write!(f, "not run: {why}"),
        }
    }
}

/// One stream, bounded: all of it counts in the digest, the head is kept for display.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    pub bytes: u64,
    pub sha256: String,
    /// The first bytes, each as the character with the same number.
    pub head: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Below the guest's directory.
    pub path: String,
    /// `file`, `dir`, `link`, `fifo`, `socket` or `device`.
    pub kind: String,
    /// Permission bits.
    pub mode: u32,
    pub bytes: u64,
    pub links: u64,
    /// Of the contents, or of a link's target.
    pub sha256: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub end: End,
    /// The terminal's output, for a guest on a terminal.
    pub stdout: Capture,
    pub stderr: Capture,
    pub files: Vec<Entry>,
    /// Names of processes that still existed some seconds after the end.
    pub left: Vec<String>,
    /// The message of its keeper when that failed: then the program went on at home, and the run proves nothing.
    pub keeper: Option<String>,
    /// The step at which a terminal script got stuck.
    pub stuck: Option<String>,
    pub wall_ms: u64,
    /// Moves made by the tree according to the last `armento ps`; none if unknown.
    pub moves: Option<u64>,
    /// Whether a process of the tree was seen away. None if unknown.
    pub away: Option<bool>,
}

impl Outcome {
    /// Nothing ran.
    pub fn without_run(end: End) -> Outcome {
        Outcome {
            end,
            stdout: Capture::default(),
            stderr: Capture::default(),
            files: Vec::new(),
            left: Vec::new(),
            keeper: None,
            stuck: None,
            wall_ms: 0,
            moves: None,
            away: None,
        }
    }
}
