//! A command on another node, by the user's remote shell: with a limit of time, and one of what it prints.

use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// What a command may print: an observation of a node with many cards and peers is some MiB.
const PRINTED_MAX: u64 = 64 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// After its end, for the rest of what it printed: a remote shell may leave a process that has the pipe open for ever.
const REST: Duration = Duration::from_secs(2);

/// How a command ended, and what it printed.
pub struct Ended {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

/// Runs a command that must end within `limit`. Errors: it cannot be run, or it gave no answer and was ended.
pub fn run(command: &mut Command, limit: Duration) -> Result<Ended, String> {
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .spawn()
        .map_err(|e| format!("cannot run `{program}`: {e}"))?;
    let (out, err) = (printed(child.stdout.take()), printed(child.stderr.take()));
    let until = Instant::now() + limit;
    let status = loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) => break status,
            None if Instant::now() < until => sleep(LOOK_EVERY),
            None => {
                // It is our child and not reaped, so the pid is its own.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no answer in {} s", limit.as_secs()));
            }
        }
    };
    let text = |all: Receiver<String>| all.recv_timeout(REST).unwrap_or_default();
    Ok(Ended {
        status,
        out: text(out),
        err: text(err),
    })
}

/// Reads a pipe until its end, in a thread of its own.
fn printed(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (tell, told) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(PRINTED_MAX).read_to_end(&mut bytes);
        }
        let _ = tell.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    told
}
