//! Child processes: their output line by line, a time limit on every wait, killed when dropped.

use crate::sys;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Lines read in advance; the reading thread waits when there are more.
const AHEAD: usize = 1024;
/// Longer than any line of a workload.
const LINE_MAX: u64 = 64 << 10;
/// Lines kept of one child: the gaps that a workload records, and a few more.
const LINES_MAX: usize = 70_000;
/// Output may come this much after the end: a keeper still has the pipe, or the reader is slow.
const LATE: Duration = Duration::from_millis(300);
/// Interval between checks of a child that closed its output but has not ended.
const CHECK_EVERY: Duration = Duration::from_millis(1);

/// A deadline.
#[derive(Clone, Copy, Debug)]
pub struct Limit(Instant);

impl Limit {
    pub fn of(d: Duration) -> Limit {
        Limit(Instant::now() + d)
    }

    pub fn secs(s: u64) -> Limit {
        Limit::of(Duration::from_secs(s))
    }

    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }
}

/// A running child. Its standard output and standard error are one stream of lines.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    what: String,
}

impl Running {
    pub fn start(mut command: Command) -> Result<Running> {
        let words: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
        // The words before `--` only enter the node.
        let own = words.rsplitn(2, |w| w == "--").next().unwrap_or_default();
        let what = own.join(" ");
        let (read, write) = std::io::pipe()?;
        command
            .stdin(Stdio::null())
            .stdout(write.try_clone()?)
            .stderr(write);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {what}"))?;
        // The command holds copies of the pipe's end.
        drop(command);
        let (send, lines) = sync_channel(AHEAD);
        std::thread::spawn(move || {
            let mut from = BufReader::new(read);
            let mut line = Vec::new();
            loop {
                line.clear();
                match from.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
                    Ok(n) if n > 0 => {}
                    _ => return,
                }
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                if send.send(text).is_err() {
                    return;
                }
            }
        });
        Ok(Running { child, lines, what })
    }

    /// The next line it prints.
    pub fn line(&mut self, limit: Limit) -> Result<String> {
        match self.lines.recv_timeout(limit.left()) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => bail!("`{}` printed nothing", self.what),
            Err(RecvTimeoutError::Disconnected) => bail!("`{}` ended early", self.what),
        }
    }

    pub fn signal(&self, signal: i32) -> Result<()> {
        Ok(sys::signal(self.child.id(), signal)?)
    }

    /// Waits for its end; returns the remaining lines.
    pub fn finish(mut self, limit: Limit) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        let mut ended: Option<(ExitStatus, Limit)> = None;
        while lines.len() < LINES_MAX {
            let wait = ended
                .as_ref()
                .map_or(Duration::from_millis(5), |e| e.1.left());
            match self.lines.recv_timeout(wait) {
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if ended.is_some() => break,
                Err(RecvTimeoutError::Timeout) => {
                    self.in_time(limit)?;
                    ended = self.child.try_wait()?.map(|s| (s, Limit::of(LATE)));
                }
            }
        }
        let status = match ended {
            Some((status, _)) => status,
            None => self.wait(limit)?,
        };
        if !status.success() {
            let tail = &lines[lines.len().saturating_sub(3)..];
            bail!("`{}` failed ({status}): {}", self.what, tail.join(" / "));
        }
        Ok(lines)
    }

    fn wait(&mut self, limit: Limit) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            self.in_time(limit)?;
            std::thread::sleep(CHECK_EVERY);
        }
    }

    fn in_time(&self, limit: Limit) -> Result<()> {
        if limit.is_over() {
            bail!("`{}` did not end in time; it was killed", self.what);
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when it has ended and was waited for, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the command to its end; returns its lines.
pub fn lines(command: Command, limit: Limit) -> Result<Vec<String>> {
    Running::start(command)?.finish(limit)
}

/// Runs the command to its end; every line is one number.
pub fn numbers(command: Command, limit: Limit) -> Result<Vec<f64>> {
    let parse = |l: &String| {
        l.parse::<f64>()
            .with_context(|| format!("expected a number, not `{l}`"))
    };
    lines(command, limit)?.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut c = Command::new("sh");
        c.args(["-c", script]);
        c
    }

    #[test]
    fn lines_come_in_order_and_failures_are_reported() {
        let many = lines(sh("seq 3000"), Limit::secs(20)).unwrap();
        assert_eq!((many.len(), &many[2999][..]), (3000, "3000"));
        let e = lines(sh("echo why >&2; exit 3"), Limit::secs(20)).unwrap_err();
        assert!(e.to_string().contains("why"), "{e}");
        assert!(numbers(sh("echo x"), Limit::secs(20)).is_err());
    }

    #[test]
    fn child_beyond_its_limit_is_killed() {
        let mut r = Running::start(sh("echo $$; exec sleep 600")).unwrap();
        let pid = r.line(Limit::secs(20)).unwrap();
        assert!(r.finish(Limit::of(Duration::from_millis(20))).is_err());
        assert!(!std::path::Path::new(&format!("/proc/{pid}/stat")).exists());
    }
}
