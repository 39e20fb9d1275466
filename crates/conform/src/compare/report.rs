//! Verdicts and their counts, as a last line or as one JSON document. `show` prints each guest.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use crate::compare::difference::Difference;
use crate::task::Mode;

pub const SCHEMA: &str = "armento.conform/1";

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "verdict", content = "detail", rename_all = "kebab-case")]
pub enum Verdict {
    Equal,
    Differs(Vec<Difference>),
    /// It differs as listed in [`crate::compare::known_gaps`].
    Gap {
        reason: &'static str,
        differences: Vec<Difference>,
    },
    /// It is listed as a gap, with this reason, and is equal.
    GapClosed(&'static str),
    /// What is missing, and what to do.
    Skipped(String),
}

impl Verdict {
    /// The verdict on these differences, which a known gap may excuse.
    pub fn new(differences: Vec<Difference>, gap: Option<&'static str>) -> Verdict {
        match (differences.is_empty(), gap) {
            (true, None) => Verdict::Equal,
            (true, Some(reason)) => Verdict::GapClosed(reason),
            (false, None) => Verdict::Differs(differences),
            (false, Some(reason)) => Verdict::Gap {
                reason,
                differences,
            },
        }
    }

    fn equal(&self) -> bool {
        matches!(self, Verdict::Equal | Verdict::GapClosed(_))
    }
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
    pub name: String,
    /// Expected to stay home.
    pub stays: bool,
    pub runs: Vec<Run>,
}

impl Row {
    pub fn skip(&mut self, modes: &[Mode], why: &str) {
        self.runs = modes
            .iter()
            .map(|&mode| Run {
                mode,
                round: 0,
                seed: 0,
                verdict: Verdict::Skipped(why.into()),
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
        self.any(|v| matches!(v, Verdict::Differs(_)))
            || strict && (self.gap() || self.runs.iter().any(|run| self.doubtful(run)))
    }

    /// It differs somewhere, as listed.
    fn gap(&self) -> bool {
        self.any(|v| matches!(v, Verdict::Gap { .. }))
    }

    fn any(&self, is: impl Fn(&Verdict) -> bool) -> bool {
        self.runs.iter().any(|run| is(&run.verdict))
    }

    /// Equal, but `armento ps` never showed it on the node where this mode should have put it.
    pub fn doubtful(&self, run: &Run) -> bool {
        run.verdict.equal()
            && match run.mode {
                Mode::Native => false,
                // Its children go where the balancer places them.
                Mode::Home | Mode::Spread => run.away.is_none(),
                _ if self.stays => run.away.is_none(),
                Mode::Away | Mode::AwayForward => run.away != Some(true),
                Mode::Storm
                | Mode::StormForward
                | Mode::StormCall
                | Mode::Lost
                | Mode::Handover => run.moves.unwrap_or(0) == 0,
            }
    }

    /// One word for all runs of `mode`.
    pub fn mark(&self, mode: Mode) -> &'static str {
        let runs: Vec<&Run> = self.runs.iter().filter(|run| run.mode == mode).collect();
        let verdicts = || runs.iter().map(|run| &run.verdict);
        if runs.is_empty() {
            return "-";
        }
        let differs = |run: &&Run| matches!(run.verdict, Verdict::Differs(_));
        if runs.iter().any(|run| differs(run) && run.end == "hang") {
            return "hang";
        }
        if runs.iter().any(differs) {
            return "FAIL";
        }
        if verdicts().any(|v| matches!(v, Verdict::Gap { .. })) {
            return "gap";
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
        match (passed + self.gaps(), failed) {
            _ if self.interrupted => 130,
            (0, 0) => 2,
            (_, 0) => 0,
            _ => 1,
        }
    }

    /// Guests with known differences; they count as skipped.
    fn gaps(&self) -> usize {
        let known = |row: &&Row| row.gap() && !row.failed(self.strict);
        self.rows.iter().filter(known).count()
    }

    fn count(&self) -> (usize, usize, usize) {
        let skipped = self.rows.iter().filter(|row| row.skipped()).count() + self.gaps();
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
            rows.sort_by_key(|row| &row.name);
            let whole = serde_json::json!({
                "schema": SCHEMA, "passed": passed, "failed": failed, "skipped": skipped,
                "gaps": self.gaps(), "interrupted": self.interrupted, "guests": rows,
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
            match self.gaps() {
                0 => {}
                n => writeln!(
                    out,
                    "gap: {n} of the skipped differ from native as listed, --strict counts them as failed"
                )?,
            }
            writeln!(
                out,
                "{passed} passed, {failed} failed, {skipped} skipped{note}"
            )?;
        }
        Ok(())
    }
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
            name: "guest".into(),
            stays,
            runs: vec![run],
        }
    }

    #[test]
    fn equal_run_never_seen_away_is_doubtful() {
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
    fn gap_is_neither_pass_nor_failure() {
        let differs = || vec![Difference::new("stdout", "a", "b")];
        let why = Some("known");
        for (found, gap, mark, failed, count) in [
            (vec![], None, "ok", false, (1, 0, 0)),
            (vec![], why, "ok", false, (1, 0, 0)),
            (differs(), None, "FAIL", true, (0, 1, 0)),
            (differs(), why, "gap", false, (0, 0, 1)),
        ] {
            let verdict = Verdict::new(found, gap);
            let mut bad = run(Mode::Home, verdict, Some(0), Some(false));
            bad.end = "exit 1".into();
            let row = row(false, bad);
            assert_eq!((row.mark(Mode::Home), row.failed(false)), (mark, failed));
            assert_eq!(row.failed(true), mark != "ok");
            let mut report = Report::new(false);
            report.rows.push(row);
            assert_eq!(report.count(), count);
            assert_eq!(report.code(), i32::from(failed));
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
