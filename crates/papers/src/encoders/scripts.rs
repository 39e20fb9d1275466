//! The paper's two scripts, with today's encoder and finer time stamps.

use crate::figures::Span;
use crate::published::JOBS;

/// Written by every job at its end: number, start, end, exit status.
pub const REPORT: &str = "report.txt";

/// `converti.sh`: one after the other.
pub fn alone(options: &str) -> String {
    format!(
        "{}for i in {}; do\n    job $i lame\ndone\n",
        head(options),
        numbers()
    )
}

/// `converti-om.sh`: all at once, in the background; the farm distributes them.
pub fn farm(options: &str) -> String {
    let job = "    job $i armento run lame &";
    format!(
        "{}for i in {}; do\n{job}\ndone\nwait\n",
        head(options),
        numbers()
    )
}

fn head(options: &str) -> String {
    // Nanoseconds: at today's speed the paper's whole seconds are too coarse.
    format!(
        "#!/bin/sh\njob() {{\n    i=$1; shift\n    start=$(date +%s.%N)\n    \
         \"$@\" {options} audio$i.wav audio$i.mp3 </dev/null\n    status=$?\n    \
         echo \"$i $start $(date +%s.%N) $status\" >> {REPORT}\n}}\n"
    )
}

/// `01 02 … 24`
fn numbers() -> String {
    let all: Vec<String> = (1..=JOBS).map(|i| format!("{i:02}")).collect();
    all.join(" ")
}

/// The report, as far as it is written.
pub fn spans(report: &str) -> Vec<Span> {
    let mut all: Vec<Span> = report.lines().filter_map(span).collect();
    all.sort_by_key(|s| s.job);
    all
}

fn span(line: &str) -> Option<Span> {
    let mut words = line.split(' ');
    Some(Span {
        job: words.next()?.parse().ok()?,
        start_s: words.next()?.parse().ok()?,
        end_s: words.next()?.parse().ok()?,
        status: words.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_name_every_job() {
        assert!(alone("-x").contains("01 02") && alone("-x").contains("23 24;"));
        assert!(farm("-x").contains("armento run lame &\ndone\nwait"));
    }

    #[test]
    fn reports_are_read_while_being_written() {
        let s = spans("02 10.5 12.25 0\n01 10.0 11.0 1\n03 11");
        assert_eq!(s.len(), 2);
        assert_eq!((s[0].job, s[0].status, s[1].duration()), (1, 1, 1.75));
    }
}
