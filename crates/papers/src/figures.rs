//! The paper's figures as pure functions: percents, spreads, bars, equivalent power.

/// Start and end of one job, seconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Span {
    pub job: usize,
    pub start_s: f64,
    pub end_s: f64,
    /// Exit status of the encoder as the script's shell saw it.
    pub status: i32,
}

impl Span {
    pub fn duration(&self) -> f64 {
        self.end_s - self.start_s
    }
}

/// the paper's makespan and the usual one. They are equal only when all jobs start together
/// (E-15).
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Makespan {
    pub longest_job_s: f64,
    pub last_end_minus_first_start_s: f64,
}

impl Makespan {
    pub fn of(spans: &[Span]) -> Option<Makespan> {
        let most = |f: fn(&Span) -> f64| spans.iter().map(f).reduce(f64::max);
        let first = spans.iter().map(|s| s.start_s).reduce(f64::min)?;
        Some(Makespan {
            longest_job_s: most(Span::duration)?,
            last_end_minus_first_start_s: most(|s| s.end_s)? - first,
        })
    }
}

/// slowest and fastest job, their difference, and that in percent of the slowest.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Spread {
    pub slowest_s: f64,
    pub fastest_s: f64,
    pub diff_s: f64,
    pub diff_percent: f64,
}

impl Spread {
    pub fn of(durations: &[f64]) -> Option<Spread> {
        let slowest_s = durations.iter().copied().reduce(f64::max)?;
        let fastest_s = durations.iter().copied().reduce(f64::min)?;
        let diff_s = slowest_s - fastest_s;
        Some(Spread {
            slowest_s,
            fastest_s,
            diff_s,
            diff_percent: percent(diff_s, slowest_s),
        })
    }
}

/// the power of one machine that would do the work in the cluster's time.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Power {
    pub w: f64,
    pub maximum: f64,
    pub difference_percent: f64,
}

impl Power {
    /// `z`: power of one node, in any unit; the result is in that unit.
    pub fn of(z: f64, nodes: u32, single_s: f64, cluster_s: f64) -> Power {
        let (w, maximum) = (z * single_s / cluster_s, z * f64::from(nodes));
        Power {
            w,
            maximum,
            difference_percent: (w / maximum - 1.0) * 100.0,
        }
    }
}

pub fn percent(part: f64, whole: f64) -> f64 {
    part / whole * 100.0
}

/// one cell is 2 %, as the paper draws it: `O` a whole cell, `o` about half, `.` a trace.
pub fn bar(percent: f64) -> String {
    let cells = (percent.clamp(0.0, 400.0) / 2.0).floor();
    let rest = percent.clamp(0.0, 400.0) - cells * 2.0;
    // The paper's own steps: nothing at .13, a dot at .27, a half from .56 on.
    let tail = match rest {
        r if r < 0.2 => "",
        r if r < 0.5 => ".",
        _ => "o",
    };
    "O".repeat(cells as usize) + tail
}

/// Minutes and seconds as the paper's tables print them, whole seconds: 6459 is `107.39`.
pub fn mm_ss(seconds: f64) -> String {
    let s = seconds.round().max(0.0) as u64;
    format!("{}.{:02}", s / 60, s % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staggered_starts_make_the_makespans_differ() {
        let span = |start_s, end_s| Span {
            job: 1,
            start_s,
            end_s,
            status: 0,
        };
        let together = Makespan::of(&[span(0.0, 5.0), span(0.0, 7.0)]).unwrap();
        assert_eq!(
            together.longest_job_s,
            together.last_end_minus_first_start_s
        );
        let staggered = Makespan::of(&[span(0.0, 5.0), span(4.0, 10.0)]).unwrap();
        assert_eq!(staggered.longest_job_s, 6.0);
        assert_eq!(staggered.last_end_minus_first_start_s, 10.0);
        assert_eq!(Makespan::of(&[]), None);
    }

    #[test]
    fn times_print_as_in_the_paper() {
        assert_eq!(mm_ss(6459.0), "107.39");
        assert_eq!(mm_ss(2368.0), "39.28");
        assert_eq!(mm_ss(61.4), "1.01");
    }

    #[test]
    fn bars_have_the_papers_steps() {
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(100.0).len(), 50);
        // E-17: 69.16 % are 34 cells and a half, one more than printed.
        assert_eq!(bar(69.16), format!("{}o", "O".repeat(34)));
        assert_eq!(bar(f64::from(u16::MAX)).len(), 200);
    }
}
