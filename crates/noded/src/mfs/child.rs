//! A process of MFS: started as `armento VERB`, told what to do by a line on its standard input, answering by one on its
//! standard output.
//!
//! Next: `cli/src/mfs/serve.rs`, `cli/src/mfs/mount.rs`.

use crate::file_servers::dir;
use crate::hosts::open_log;
use crate::process::{Process, started};
use crate::state::Node;
use crate::sys;
use armento_client::api::MfsUp;
use armento_client::{encode, read_line};
use serde::Serialize;
use std::fs;
use std::io::{BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// From fork to its answer, on a loaded machine.
pub const START: Duration = Duration::from_secs(10);

/// A process that has started and waits for its line.
pub struct Fresh {
    child: Child,
    pub process: Process,
}

/// Starts it. `stem`: of its log, below the state directory.
pub fn start(node: &Node, verb: &str, args: &[&str], stem: &str) -> Result<Fresh, String> {
    let dir = dir(&node.state);
    // Without it, on a disk that takes nothing, it has no log of its own and no record; it works all the same.
    let _ = fs::create_dir_all(&dir);
    let log = match open_log(&dir.join(format!("{stem}.log"))) {
        Ok(log) => Stdio::from(log),
        Err(e) => {
            tracing::warn!("cannot write {stem}.log: {e}: what that process says stands here");
            Stdio::inherit()
        }
    };
    let mut command = Command::new(&node.host_program);
    command
        // For `ps`; its file may be another by now.
        .arg0(std::env::args_os().next().unwrap_or_default())
        .arg(verb)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .current_dir("/")
        .env("ARMENTO_SOCKET", node.config.socket_path())
        // The service manager listens to the daemon only.
        .env_remove("NOTIFY_SOCKET")
        // Signals to the daemon's group do not reach it.
        .process_group(0);
    let mut child = sys::as_others(|| command.spawn())
        .map_err(|e| format!("{}: {e}", node.host_program.display()))?;
    let pid = i32::try_from(child.id()).unwrap_or(0);
    // It waits for its line, so that it is there.
    match started(pid) {
        Some(started) => Ok(Fresh {
            child,
            process: Process { pid, started },
        }),
        None => {
            let _ = child.kill();
            let _ = child.wait();
            Err(format!(
                "it ended at once; see mfs/{stem}.log in the state directory"
            ))
        }
    }
}

impl Fresh {
    /// Sends its line and waits for its answer: the port. After `Err` it has ended.
    pub fn instruct(mut self, order: &impl Serialize) -> Result<(Child, u16), String> {
        match self.up(order) {
            Ok(port) => Ok((self.child, port)),
            Err(why) => {
                // It is our child and not reaped, so the pid is its own.
                let _ = self.child.kill();
                let _ = self.child.wait();
                Err(why)
            }
        }
    }

    fn up(&mut self, order: &impl Serialize) -> Result<u16, String> {
        let line = encode(order).map_err(|e| e.to_string())?;
        let stdin = self.child.stdin.take();
        let mut stdin = stdin.ok_or("it has no standard input")?;
        let stdout = self.child.stdout.take();
        let stdout = stdout.ok_or("it has no standard output")?;
        stdin
            .write_all(&line)
            .map_err(|e| format!("it did not listen: {e}"))?;
        drop(stdin);
        let (tx, rx) = mpsc::channel();
        // Ends with the child's standard output, which a child that fails is killed to close.
        let heard = thread::Builder::new().name("mfs-up".into()).spawn(move || {
            let _ = tx.send(read_line(&mut BufReader::new(stdout)));
        });
        heard.map_err(|e| format!("its answer cannot be read: {e}"))?;
        match rx.recv_timeout(START) {
            Ok(Ok(MfsUp::Up { port })) => Ok(port),
            Ok(Ok(MfsUp::Unable { why })) => Err(why),
            Ok(Err(e)) => Err(format!("it ended before it was up ({e})")),
            Err(_) => Err("it was not up in time".to_owned()),
        }
    }
}
