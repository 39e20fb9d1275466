//! Output while the suite runs: a line for each guest, and its differences below it.

use std::io::{IsTerminal, Write};

use anyhow::Result;

use crate::compare::{Row, Run, Verdict};
use crate::guests::{Guest, How};
use crate::task::Mode;

/// Width of the column of names.
const NAME_WIDTH: usize = 22;

/// The line of one guest, and its differences below it.
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
    if let Some(Verdict::Skipped(why)) = row.runs.first().map(|run| &run.verdict) {
        writeln!(out, "    skipped: {why}")?;
    }
    for run in &row.runs {
        // A run that was never seen away closes no gap.
        if !row.doubtful(run) {
            detail(&mut out, run)?;
        }
    }
    Ok(())
}

fn detail(out: &mut impl Write, run: &Run) -> Result<()> {
    match &run.verdict {
        Verdict::Equal => {}
        Verdict::GapClosed(reason) => {
            let mode = run.mode.word();
            writeln!(
                out,
                "    {mode}: gap closed: remove it from known_gaps.rs ({reason})"
            )?;
        }
        Verdict::Gap {
            reason,
            differences,
        } => {
            let what: Vec<&str> = differences.iter().map(|d| d.what.as_str()).collect();
            writeln!(
                out,
                "    {} gap: {reason} (differs: {}; {})",
                run.mode.word(),
                what.join(", "),
                run.end
            )?;
            writeln!(out, "      repeat: {}", run.repeat)?;
        }
        // Printed below, once.
        Verdict::Skipped(_) => {}
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
        let kind = match &guest.how {
            How::Source { .. } => "source",
            How::Shell { .. } => "program",
            How::Terminal { .. } => "terminal",
            How::Suite { .. } => "suite",
        };
        writeln!(
            out,
            "{:<NAME_WIDTH$}  {kind:<8}  {}",
            guest.name, guest.about
        )?;
    }
    Ok(())
}
