//! A launcher that runs, with a time limit.

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// Interval between two looks at a running launcher.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A launcher that is told to end takes its processes along.
const END_MAX: Duration = Duration::from_secs(3);
/// Output that is kept; programs of ours print kilobytes.
const BYTES_MAX: usize = 16 << 20;

/// What a program said, and how long it took.
#[derive(Clone, Debug)]
pub struct Output {
    pub stdout: String,
    pub stderr: String,
    /// With the start and the end of its processes.
    pub s: f64,
}

impl Output {
    /// The line of JSON that process 0 of our programs prints.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        let line = self.stdout.lines().rfind(|l| l.starts_with('{'));
        let line = line.ok_or_else(|| {
            anyhow!(
                "the program printed no result: {}",
                last_lines(&self.stderr)
            )
        })?;
        serde_json::from_str(line)
            .with_context(|| format!("the program's result is damaged: {line}"))
    }
}

/// What comes from a pipe. A process that the launcher left behind may keep it open.
struct Kept {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Kept {
    fn new(from: Option<impl Read + Send + 'static>) -> Kept {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let to = bytes.clone();
        let reader = spawn(move || {
            let Some(mut from) = from else { return };
            let mut part = [0; 1 << 16];
            // A pipe that fails has given all it has.
            while let Ok(n @ 1..) = from.read(&mut part) {
                let mut all = to.lock().unwrap_or_else(PoisonError::into_inner);
                if all.len() + n <= BYTES_MAX {
                    all.extend_from_slice(&part[..n]);
                }
            }
        });
        Kept { bytes, reader }
    }

    /// Whether a whole line of JSON has come.
    fn has_result(&self) -> bool {
        let all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = all.split_inclusive(|b| *b == b'\n');
        lines.any(|l| l.starts_with(b"{") && l.ends_with(b"}\n"))
    }

    /// All of it once the launcher has ended.
    fn text(self) -> String {
        let began = Instant::now();
        while !self.reader.is_finished() && began.elapsed() < END_MAX {
            sleep(LOOK_EVERY);
        }
        let all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&all).into_owned()
    }
}

/// Runs it to its end. `linger`: how long it may go on after its result has come; then it is ended.
pub fn run(mut command: Command, limit_s: f64, linger: Option<Duration>) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {name}"))?;
    let (out, err) = (
        Kept::new(child.stdout.take()),
        Kept::new(child.stderr.take()),
    );
    let mut result_at: Option<Instant> = None;
    let mut lingered = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if linger.is_some() && out.has_result() {
            let at = *result_at.get_or_insert_with(Instant::now);
            if linger.is_some_and(|l| at.elapsed() > l) {
                end(&mut child);
                lingered = true;
                break None;
            }
        }
        if began.elapsed().as_secs_f64() > limit_s {
            end(&mut child);
            break None;
        }
        sleep(LOOK_EVERY);
    };
    let s = began.elapsed().as_secs_f64();
    let output = Output {
        stdout: out.text(),
        stderr: err.text(),
        s,
    };
    match status {
        Some(status) if status.success() => Ok(output),
        None if lingered => Ok(output),
        Some(status) => bail!(
            "the MPI program failed ({status}): {}\n{}",
            last_lines(&output.stderr),
            hint(&output.stderr)
        ),
        None => bail!(
            "the MPI program had not ended after {limit_s:.0} s: {}\nhint: MPICH 4.0.2 may hang in MPI_Finalize; Open MPI does not",
            last_lines(&output.stderr)
        ),
    }
}

/// SIGTERM first: mpirun then ends the processes that it has started.
fn end(child: &mut Child) {
    let told = Command::new("kill").arg(child.id().to_string()).status();
    let began = Instant::now();
    while told.is_ok() && began.elapsed() < END_MAX {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        sleep(LOOK_EVERY);
    }
    // It may have ended in between.
    let _ = child.kill();
    let _ = child.wait();
}

fn hint(stderr: &str) -> &'static str {
    const KNOWN: [(&str, &str); 5] = [
        (
            "Could not resolve hostname",
            "hint: every name of the hostfile must resolve here; `armento hostfile` writes addresses",
        ),
        (
            "Host key verification failed",
            "hint: log in once by ssh to every host, or name a launcher: OMPI_MCA_plm_rsh_agent",
        ),
        (
            "unreachable",
            "hint: all hosts must reach each other; OMPI_MCA_btl_tcp_if_include names the interface",
        ),
        (
            "executable",
            "hint: the program must be at the same path on all hosts: XDG_CACHE_HOME=DIR on a directory that all see",
        ),
        (
            "ORTE was unable to reliably start",
            "hint: `ssh HOST hostname` must work from here without a question, and Open MPI be installed there",
        ),
    ];
    let known = KNOWN.iter().find(|(mark, _)| stderr.contains(mark));
    known.map_or("hint: the launcher's own words are above", |(_, h)| h)
}

/// The last lines that say something.
fn last_lines(text: &str) -> String {
    const LINES: usize = 6;
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| l.chars().any(char::is_alphanumeric))
        .collect();
    // What ssh says stands before a page of guesses of the launcher.
    if let Some(ssh) = lines.iter().find(|l| l.starts_with("ssh: ")) {
        return (*ssh).to_owned();
    }
    let from = lines.len().saturating_sub(LINES);
    match lines[from..].join("; ") {
        text if text.is_empty() => "it said nothing".to_owned(),
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_fail_or_never_end_are_told() {
        let shell = |script: &str| {
            let mut c = Command::new("sh");
            c.args(["-c", script]);
            run(c, 0.3, None)
        };
        let good = shell("echo noise; echo '{\"a\": 3}'; echo tail").expect("ends");
        let value: serde_json::Value = good.json().expect("json");
        assert_eq!(value["a"], 3);
        let e = shell("echo rank 1: no >&2; exit 3").expect_err("fails");
        let e = e.to_string();
        assert!(e.contains("rank 1: no") && e.contains("\nhint: "), "{e}");
        let e = shell("sleep 60").expect_err("hangs").to_string();
        assert!(e.contains("had not ended") && e.contains("hint: "), "{e}");
        let mut c = Command::new("sh");
        c.args(["-c", "echo '{\"a\": 4}'; sleep 60"]);
        let late = run(c, 30.0, Some(Duration::from_millis(50))).expect("a result");
        assert_eq!(late.json::<serde_json::Value>().expect("json")["a"], 4);
        assert!(shell("true").expect("ends").json::<u8>().is_err());
    }
}
