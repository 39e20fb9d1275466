//! How far a move is, on standard error of a terminal, while a command waits for it.

use armento_client::api::{Answer, Ask, Moving};
use armento_client::{ANSWER, Session};
use armento_lab::Waiting;
use armento_model::{Pid, size};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Before this the line says nothing of bytes: [`Waiting`] shows none at all for two seconds.
const FIRST: Duration = Duration::from_millis(1500);
/// Keepers report about once a second.
const EVERY: Duration = Duration::from_secs(1);

/// A line that goes when this is dropped. After that the process has no thread of it.
pub struct MoveProgress {
    thread: Option<(Sender<()>, JoinHandle<()>)>,
    /// Dropped last.
    _waiting: Arc<Waiting>,
}

impl MoveProgress {
    pub fn of(pid: Pid) -> MoveProgress {
        let waiting = Arc::new(Waiting::new(format!("process {pid} moves")));
        let (end, ends) = channel::<()>();
        let shown = waiting.clone();
        let look = move || {
            let mut session = None;
            let mut before = None;
            let mut wait = FIRST;
            while ends.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                wait = EVERY;
                let moving = moving(&mut session, pid);
                if let Some(now) = moving {
                    shown.say(line(pid, before.as_ref(), &now));
                    before = Some(now);
                }
            }
        };
        let thread = waiting.is_shown().then(|| (end, thread::spawn(look)));
        MoveProgress {
            thread,
            _waiting: waiting,
        }
    }
}

impl Drop for MoveProgress {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.thread.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

fn moving(session: &mut Option<Session>, pid: Pid) -> Option<Moving> {
    let open = match session {
        Some(open) => open,
        None => session.insert(Session::connect().ok()?),
    };
    match open.ask(Ask::Ps { all: false }, ANSWER) {
        Ok(Answer::Ps { procs }) => procs.into_iter().find(|p| p.pid == pid)?.moving,
        _ => {
            *session = None;
            None
        }
    }
}

/// `before`: as it was said last time.
fn line(pid: Pid, before: Option<&Moving>, now: &Moving) -> String {
    let earlier =
        before.filter(|b| b.to == now.to && b.for_ms < now.for_ms && b.bytes <= now.bytes);
    let (bytes, ms) = earlier.map_or((now.bytes, now.for_ms), |b| {
        (now.bytes - b.bytes, now.for_ms - b.for_ms)
    });
    let per_s = bytes.saturating_mul(1000) / ms.max(1);
    format!(
        "process {pid} moves to {}: {} sent, {}/s",
        now.to,
        size(now.bytes >> 10),
        size(per_s >> 10)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_since_the_last_report() {
        let at = |bytes_mib: u64, for_ms| Moving {
            to: "n3".parse().expect("name"),
            bytes: bytes_mib << 20,
            for_ms,
        };
        let first = line(7, None, &at(300, 2_000));
        assert_eq!(first, "process 7 moves to n3: 300 M sent, 150 M/s");
        let then = line(7, Some(&at(300, 2_000)), &at(400, 3_000));
        assert_eq!(then, "process 7 moves to n3: 400 M sent, 100 M/s");
        // The same report again, and another move.
        assert_eq!(line(7, Some(&at(300, 2_000)), &at(300, 2_000)), first);
        assert_eq!(line(7, Some(&at(900, 9_000)), &at(300, 2_000)), first);
    }
}
