//! A program that another node sends: announced by a statement of the farm, then sent in parts, then put in place.
//!
//! From: `noded/src/membership/revoke.rs` (announced), `noded/src/peer_server.rs` (parts). The hash in the statement says what it must
//! be, so it does not matter which member sends it. The service's own view of /usr is read-only: a process in the namespace
//! of process 1 puts it in place (`cli/src/upgrade/helper.rs`).

use super::program::{own_program, previous};
use super::reexec::restart;
use crate::clock::unix_ms;
use crate::error::{Result, refusal};
use crate::policy::out_of_date;
use crate::revocation::Stated;
use crate::state::{Node, Upload};
use crate::sys;
use armento_client::api::{PART_MAX, PROGRAM_MAX, Refusal};
use armento_client::hex::unhex;
use std::cmp::Ordering;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Verb of the process that puts it in place.
const VERB: &str = "upgrade-install";
/// It is kept here while it arrives, in the state directory.
const FILE: &str = "program.part";
/// A program that has not arrived by then is forgotten.
const ARRIVES: Duration = Duration::from_secs(600);
/// An order is carried out within this time of its signature. It is sent at once; a day is for clocks that are wrong by their
/// time zone (12 h) and no more.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// The farm says that this node's program is to be replaced. `sha256`: of the new one; `None`: by the one of before.
pub fn announced(node: &Node, stated: &Stated, sha256: Option<String>, size: u64) -> Result<()> {
    let me = &node.farm.node;
    if !node.settings().allow_upgrade {
        let what = format!("{me} lets no other node replace its program; nothing was changed");
        let hint = "run `armento farm upgrade` on that node, or set allow_upgrade there";
        return Err(refusal("not-trusted", what, hint));
    }
    if size > PROGRAM_MAX {
        let what = format!("a program of {size} bytes is too large; nothing was changed");
        return Err(refusal("too-large", what, "is it the right file?"));
    }
    if !stated.is_fresh(unix_ms(), FRESH) {
        let what = format!(
            "{me} was told this at a time that is a day or more from now; nothing was changed"
        );
        let hint = "start again: `armento farm upgrade`; if it is refused again, compare the clocks of both nodes";
        return Err(refusal("late", what, hint));
    }
    {
        // One change of switches at a time, as in `policy/switches.rs`.
        let _turn = node.given.lock().unwrap_or_else(PoisonError::into_inner);
        let mut switches = node.lock().switches.clone();
        match switches.compare_statement(stated) {
            Ordering::Greater => {}
            Ordering::Equal => return Ok(()),
            Ordering::Less => return Err(out_of_date(me)),
        }
        switches.takes_statement(stated);
        let written = switches.write(&node.state);
        written.map_err(|e| refusal("failed", format!("{e}; nothing was changed"), e.hint()))?;
        node.lock().switches = switches;
    }
    let Some(sha256) = sha256 else {
        put_in_place(node, None)?;
        return restart(node);
    };
    let path = file(node);
    let _ = fs::remove_file(&path);
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path);
    let file = made.map_err(|e| cannot_keep(&e))?;
    *upload(node) = Some(Upload {
        sha256,
        size,
        received: 0,
        since: Instant::now(),
        file,
    });
    Ok(())
}

fn file(node: &Node) -> PathBuf {
    node.state.path().join(FILE)
}

fn upload(node: &Node) -> MutexGuard<'_, Option<Upload>> {
    node.upload.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cannot_keep(e: &std::io::Error) -> Refusal {
    let what = format!("the program cannot be stored: {e}; nothing was changed");
    refusal("failed", what, "is the disk of the state directory full?")
}

fn not_announced() -> Refusal {
    let what = "no program was announced, or it did not arrive in time; nothing was changed";
    refusal("late", what, "start again: `armento farm upgrade`")
}

/// A part of it. One that came before is passed over: every question may be asked twice.
pub fn part(node: &Node, offset: u64, data: &str) -> Result<()> {
    let mut upload = upload(node);
    let Some(it) = upload.as_mut().filter(|u| u.since.elapsed() < ARRIVES) else {
        *upload = None;
        let _ = fs::remove_file(file(node));
        return Err(not_announced());
    };
    let bytes = unhex(data).filter(|b| b.len() <= PART_MAX);
    let wrong = || {
        let what = format!("a part at {offset} of {} bytes cannot be", it.size);
        refusal("garbled", what, "start again: `armento farm upgrade`")
    };
    let bytes = bytes.ok_or_else(wrong)?;
    let end = offset.saturating_add(bytes.len() as u64);
    if end <= it.received {
        return Ok(());
    }
    if offset != it.received || end > it.size {
        return Err(wrong());
    }
    it.file.write_all(&bytes).map_err(|e| cannot_keep(&e))?;
    it.received = end;
    Ok(())
}

/// All of it is there: it is put in place, and the daemon becomes it.
pub fn ended(node: &Node, sha256: &str) -> Result<()> {
    // Another one's end leaves this one as it is.
    let it = upload(node).take_if(|u| u.sha256 == sha256);
    let Some(it) = it else {
        return Err(not_announced());
    };
    let path = file(node);
    let put = match it.received == it.size {
        true => File::open(&path)
            .map_err(|e| cannot_keep(&e))
            .and_then(|program| put_in_place(node, Some((program, sha256)))),
        false => {
            let what = format!(
                "{} of {} bytes have arrived; nothing was changed",
                it.received, it.size
            );
            Err(refusal(
                "garbled",
                what,
                "start again: `armento farm upgrade`",
            ))
        }
    };
    let _ = fs::remove_file(&path);
    put?;
    restart(node)
}

/// Has a process of its own replace the program; `None`: by the one of before.
fn put_in_place(node: &Node, program: Option<(File, &str)>) -> Result<()> {
    let failed = |why: String| {
        let what = format!("the program was not replaced: {why}");
        refusal("failed", what, "see the daemon's log on that node")
    };
    let path = own_program().map_err(|e| failed(e.to_string()))?;
    let (input, sha256) = match program {
        Some((file, sha256)) => (Stdio::from(file), sha256),
        None => (Stdio::null(), "previous"),
    };
    let mut command = Command::new(&node.host_program);
    command
        .arg(VERB)
        .arg(&path)
        .arg(sha256)
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .current_dir("/")
        // The service manager listens to the daemon only.
        .env_remove("NOTIFY_SOCKET");
    let done = sys::as_others(|| command.output()).map_err(|e| failed(e.to_string()))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let said = said.lines().next().unwrap_or("it said nothing").to_owned();
        return Err(failed(armento_model::clean(&said)));
    }
    let kept = previous(&path);
    tracing::info!(
        "{} was replaced; the program of before is {}",
        path.display(),
        kept.display()
    );
    Ok(())
}
