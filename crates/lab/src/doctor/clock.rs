//! The clock of this machine, and those of the farm's other nodes.

use super::check::{Check, Need, State};
use super::sys;
use armento_client::api::{Answer, Ask, NodeInfo};
use armento_client::{ANSWER, Session};
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// KERNEL adjtimex(2): the clock may be this far off. Hosting requires 20 ms between two nodes, so each may have half.
const ERROR_US: i64 = 10_000;
/// Longest wait for chronyc(1), which waits for a chronyd that does not run.
const CHRONY: Duration = Duration::from_secs(2);
const CHECK_EVERY: Duration = Duration::from_millis(10);
const REMEDY: &str =
    "apt-get install chrony; programs move only between nodes with clocks that agree within 20 ms";

pub(super) fn own() -> Check {
    let (state, found) = judge(sys::clock_error_us(), || chrony().as_deref().map(tracking));
    Check::new("clock", Need::Nothing, state, found, REMEDY)
}

/// The state that chrony reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chrony {
    /// Off by so much at most, microseconds.
    Within(i64),
    /// It has no source.
    Not,
}

/// `kernel`: the clock's error in the kernel, `None` when the kernel's clock is marked unsynchronised.
fn judge(kernel: Option<i64>, chrony: impl FnOnce() -> Option<Chrony>) -> (State, String) {
    let ms = |us: i64| (us + 999) / 1000;
    if let Some(us) = kernel {
        return match us <= ERROR_US {
            true => (State::Ok, format!("synchronised within {} ms", ms(us))),
            false => (
                State::Limited,
                format!("synchronised within {} ms only", ms(us)),
            ),
        };
    }
    let unmarked = "the kernel's clock is not marked as synchronised";
    match chrony() {
        Some(Chrony::Within(us)) if us <= ERROR_US => (
            State::Ok,
            format!(
                "synchronised within {} ms according to chrony (without `rtcsync` the kernel is not informed)",
                ms(us)
            ),
        ),
        Some(Chrony::Within(us)) => (
            State::Limited,
            format!("{unmarked}, and chrony has it within {} ms only", ms(us)),
        ),
        Some(Chrony::Not) => (
            State::Limited,
            format!("{unmarked}, and chrony runs but has no source (`chronyc sources`)"),
        ),
        None => (
            State::Limited,
            format!("{unmarked}, and no chrony answers (one machine alone, as in a lab, is fine)"),
        ),
    }
}

/// chronyc(1), `tracking`, with commas (-c).
fn chrony() -> Option<String> {
    let mut child = Command::new("chronyc")
        .args(["-c", "-n", "tracking"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let until = Instant::now() + CHRONY;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() >= until {
            // The child has not been reaped, so its pid is valid.
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        sleep(CHECK_EVERY);
    }
    let mut said = String::new();
    child.stdout.take()?.read_to_string(&mut said).ok()?;
    (said.matches(',').count() >= 13).then_some(said)
}

/// Fields: id, name, stratum, time, offset, last offset, RMS offset, frequency, residual, skew, root delay, root
/// dispersion, interval, leap status. The bound of the error is chrony.conf(5)'s: dispersion and half of the delay.
fn tracking(line: &str) -> Chrony {
    let fields: Vec<&str> = line.trim().split(',').collect();
    let number = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok());
    let (Some(offset), Some(delay), Some(dispersion)) = (number(4), number(10), number(11)) else {
        return Chrony::Not;
    };
    if fields.get(13) == Some(&"Not synchronised") || fields.get(2) == Some(&"0") {
        return Chrony::Not;
    }
    Chrony::Within(((offset.abs() + dispersion + delay / 2.0) * 1e6) as i64)
}

/// The clocks of the other nodes, as this node's daemon measured them.
pub(super) fn others() -> Check {
    let asked = Session::connect().map(|mut s| s.ask(Ask::Nodes, ANSWER));
    let nodes = match asked {
        Ok(Ok(Answer::Nodes { nodes })) => nodes,
        _ => Vec::new(),
    };
    let (state, found) = compare(&nodes);
    Check::new("clocks", Need::Nothing, state, found, REMEDY)
}

fn compare(nodes: &[NodeInfo]) -> (State, String) {
    let others: Vec<&NodeInfo> = nodes
        .iter()
        .filter(|n| !n.here && n.state == "alive")
        .collect();
    let apart = others.iter().filter(|n| n.clock_apart);
    let apart: Vec<String> = apart
        .map(|n| format!("{} by {} ms", n.name, n.clock_us.unwrap_or(0) / 1000))
        .collect();
    if !apart.is_empty() {
        let found = format!(
            "nothing moves to or from nodes with a clock difference: {}",
            apart.join(", ")
        );
        return (State::Limited, found);
    }
    let seen = others.iter().filter_map(|n| n.clock_us);
    let found = match seen.map(i64::abs).max() {
        Some(us) => format!("the other nodes' are within {:.1} ms", us as f64 / 1000.0),
        None => "no other node's was seen".into(),
    };
    (State::Ok, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chrony_counts_where_the_kernel_is_unsynchronised() {
        let check = |kernel, chrony: Option<Chrony>, state, part: &str| {
            let got = judge(kernel, || chrony);
            assert!(got.0 == state && got.1.contains(part), "{got:?}");
        };
        check(Some(500), None, State::Ok, "within 1 ms");
        check(Some(50_000), None, State::Limited, "50 ms only");
        check(
            None,
            Some(Chrony::Within(19)),
            State::Ok,
            "according to chrony",
        );
        check(
            None,
            Some(Chrony::Within(90_000)),
            State::Limited,
            "within 90 ms only",
        );
        check(None, Some(Chrony::Not), State::Limited, "no source");
        check(None, None, State::Limited, "no chrony answers");
    }

    #[test]
    fn chronyc_output_is_parsed() {
        let line = "0A090901,10.9.9.1,9,1700000000.1,0.000019,0.00001,0.00002,-1.2,0.0,0.1,0.000400,0.000100,4.0,Normal\n";
        assert_eq!(tracking(line), Chrony::Within(319));
        let not = "7F7F0101,,0,0.0,0.000000000,0.0,0.0,0.0,0.0,0.0,1.000000000,1.000000000,0.0,Not synchronised\n";
        assert_eq!(tracking(not), Chrony::Not);
        assert_eq!(tracking("506 Cannot talk to daemon"), Chrony::Not);
    }
}
