//! What the user reads: a line a guest, a final count, or one JSON document.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use crate::catalog::{Guest, How};
use crate::compare::Difference;
use crate::task::Mode;

pub const SCHEMA: &str = "armento.conform/1";
/// Width of the column of names.
const NAME_WIDTH: usize = 22;

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "verdict", content = "detail", rename_all = "kebab-case")]
pub enum Verdict {
    Equal,
    Differs(Vec<Difference>),
    /// The Debian package that is missing.
    Skipped(String),
}

#[derive(Debug, Serialize)]
pub struct Run {
    pub mode: Mode,
    pub round: u32,
    pub seed: u64,
    #[serde(flatten)]
    pub verdict: Verdict,
    pub end: String,
    pub wall_ms: u64,
    /// null: unknown.
    pub moves: Option<u64>,
    pub away: Option<bool>,
    pub repeat: String,
    pub kept: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
pub struct Row {
    pub name: &'static str,
    /// Expected to stay home.
    pub stays: bool,
    pub runs: Vec<Run>,
}

impl Row {
    pub fn skip(&mut self, modes: &[Mode], package: &str) {
        self.runs = modes
            .iter()
            .map(|&mode| Run {
                mode,
                round: 0,
                seed: 0,
                verdict: Verdict::Skipped(package.into()),
                end: String::new(),
                wall_ms: 0,
                moves: None,
                away: None,
                repeat: String::new(),
                kept: None,
            })
            .collect();
    }

    fn skipped(&self) -> bool {
        self.runs
            .iter()
            .all(|run| matches!(run.verdict, Verdict::Skipped(_)))
    }

    fn failed(&self, strict: bool) -> bool {
        self.runs
            .iter()
            .any(|run| matches!(run.verdict, Verdict::Differs(_)))
            || strict && self.runs.iter().any(|run| self.doubtful(run))
    }

    /// Equal, but `armento ps` never showed it where this mode should have put it.
    fn doubtful(&self, run: &Run) -> bool {
        matches!(run.verdict, Verdict::Equal)
            && match run.mode {
                Mode::Native => false,
                Mode::Home => run.away.is_none(),
                Mode::Away | Mode::Storm if self.stays => run.away.is_none(),
                Mode::Away => run.away != Some(true),
                Mode::Storm => run.moves.unwrap_or(0) == 0,
            }
    }

    /// One word for all runs of `mode`.
    fn mark(&self, mode: Mode) -> &'static str {
        let runs: Vec<&Run> = self.runs.iter().filter(|run| run.mode == mode).collect();
        let verdicts = || runs.iter().map(|run| &run.verdict);
        if runs.is_empty() {
            return "-";
        }
        if runs.iter().any(|run| run.end == "hang") {
            return "hang";
        }
        if verdicts().any(|v| matches!(v, Verdict::Differs(_))) {
            return "FAIL";
        }
        if verdicts().any(|v| matches!(v, Verdict::Skipped(_))) {
            return "skip";
        }
        if runs.iter().any(|run| self.doubtful(run)) {
            return "ok?";
        }
        "ok"
    }
}

pub struct Report {
    pub interrupted: bool,
    pub rows: Vec<Row>,
    strict: bool,
}

impl Report {
    pub fn new(strict: bool) -> Report {
        Report {
            interrupted: false,
            rows: vec![],
            strict,
        }
    }

    pub fn code(&self) -> i32 {
        let (passed, failed, _) = self.count();
        match (passed, failed) {
            _ if self.interrupted => 130,
            (0, 0) => 2,
            (_, 0) => 0,
            _ => 1,
        }
    }

    fn count(&self) -> (usize, usize, usize) {
        let skipped = self.rows.iter().filter(|row| row.skipped()).count();
        let failed = self
            .rows
            .iter()
            .filter(|row| row.failed(self.strict))
            .count();
        (self.rows.len() - failed - skipped, failed, skipped)
    }

    pub fn finish(&self, json: bool) -> Result<()> {
        let (passed, failed, skipped) = self.count();
        let mut out = std::io::stdout().lock();
        if json {
            let mut rows: Vec<&Row> = self.rows.iter().collect();
            rows.sort_by_key(|row| row.name);
            let whole = serde_json::json!({
                "schema": SCHEMA, "passed": passed, "failed": failed, "skipped": skipped,
                "interrupted": self.interrupted, "guests": rows,
            });
            writeln!(out, "{}", serde_json::to_string_pretty(&whole)?)?;
        } else {
            let note = if self.interrupted {
                " (interrupted)"
            } else {
                ""
            };
            if self
                .rows
                .iter()
                .any(|row| row.runs.iter().any(|run| row.doubtful(run)))
            {
                writeln!(
                    out,
                    "ok?: equal, but `armento ps` never showed it under a keeper (home) or moved \
                     (away, storm); --strict counts that as failed"
                )?;
            }
            writeln!(
                out,
                "{passed} passed, {failed} failed, {skipped} skipped{note}"
            )?;
        }
        Ok(())
    }
}

/// The line of one guest, and below it what differs.
pub fn line(row: &Row, modes: &[Mode]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let colour = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    write!(out, "{:<NAME_WIDTH$}", row.name)?;
    for &mode in modes {
        let mark = row.mark(mode);
        let (on, off) = match (colour, mark) {
            (true, "FAIL" | "hang") => ("\x1b[31m", "\x1b[0m"),
            (true, "ok") => ("\x1b[32m", "\x1b[0m"),
            (true, _) => ("\x1b[33m", "\x1b[0m"),
            _ => ("", ""),
        };
        write!(out, "  {} {on}{mark:<4}{off}", mode.word())?;
    }
    let wall: u64 = row.runs.iter().map(|run| run.wall_ms).sum();
    let moves: u64 = row.runs.iter().filter_map(|run| run.moves).sum();
    write!(out, "  {:>6.1} s", wall as f64 / 1000.0)?;
    if moves > 0 {
        write!(out, "  {moves} moves")?;
    }
    writeln!(out)?;
    for run in &row.runs {
        detail(&mut out, run)?;
    }
    Ok(())
}

fn detail(out: &mut impl Write, run: &Run) -> Result<()> {
    match &run.verdict {
        Verdict::Equal => {}
        Verdict::Skipped(package) => {
            if run.mode == Mode::Native {
                writeln!(out, "    skipped: install the package {package}")?;
            }
        }
        Verdict::Differs(list) => {
            writeln!(
                out,
                "    {} run {}: {}",
                run.mode.word(),
                run.round + 1,
                run.end
            )?;
            for difference in list {
                writeln!(
                    out,
                    "      {} differs (- native, + {})",
                    difference.what,
                    run.mode.word()
                )?;
                for text in &difference.shown {
                    writeln!(out, "        {text}")?;
                }
            }
            if let Some(kept) = &run.kept {
                writeln!(out, "      kept:   {}", kept.display())?;
            }
            writeln!(out, "      repeat: {}", run.repeat)?;
        }
    }
    Ok(())
}

pub fn list(guests: &[Guest]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for guest in guests {
        let kind = match guest.how {
            How::C { .. } => "c",
            How::Shell { .. } => "program",
            How::Terminal { .. } => "terminal",
        };
        writeln!(
            out,
            "{:<NAME_WIDTH$}  {kind:<8}  {}",
            guest.name, guest.about
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(mode: Mode, verdict: Verdict, moves: Option<u64>, away: Option<bool>) -> Run {
        Run {
            mode,
            round: 0,
            seed: 1,
            verdict,
            end: "exit 0".into(),
            wall_ms: 1,
            moves,
            away,
            repeat: String::new(),
            kept: None,
        }
    }

    fn row(stays: bool, run: Run) -> Row {
        Row {
            name: "guest",
            stays,
            runs: vec![run],
        }
    }

    #[test]
    fn equal_is_not_enough_to_have_been_away() {
        let (yes, no) = (Some(true), Some(false));
        for (mode, moves, away, stays, mark) in [
            (Mode::Native, None, None, false, "ok"),
            (Mode::Home, None, None, false, "ok?"),
            (Mode::Home, Some(0), no, false, "ok"),
            (Mode::Away, Some(0), no, false, "ok?"),
            (Mode::Away, Some(0), no, true, "ok"),
            (Mode::Away, Some(1), yes, false, "ok"),
            (Mode::Storm, Some(0), no, false, "ok?"),
            (Mode::Storm, Some(9), yes, false, "ok"),
        ] {
            let row = row(stays, run(mode, Verdict::Equal, moves, away));
            assert_eq!(row.mark(mode), mark, "{mode:?} {moves:?} {away:?} {stays}");
            assert_eq!(row.failed(true), mark != "ok");
            assert!(!row.failed(false));
        }
    }

    #[test]
    fn codes_follow_the_count() {
        let mut report = Report::new(false);
        assert_eq!(report.code(), 2);
        report
            .rows
            .push(row(false, run(Mode::Native, Verdict::Equal, None, None)));
        assert_eq!(report.code(), 0);
        report.rows.push(row(
            false,
            run(Mode::Native, Verdict::Skipped("lame".into()), None, None),
        ));
        assert_eq!((report.code(), report.count()), (0, (1, 0, 1)));
        report.rows.push(row(
            false,
            run(Mode::Home, Verdict::Differs(vec![]), None, None),
        ));
        assert_eq!((report.code(), report.count()), (1, (1, 1, 1)));
    }
}
