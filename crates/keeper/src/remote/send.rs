//! Checkpoints of the whole tree are written into a private file, and sent.
//!
//! From: `mod.rs`. Next: `keeper/src/saved/save.rs` (the file), `renew.rs` (the questions).

use super::renew::ask;
use crate::saved::save_file;
use crate::state::{Keep, Lease, Verdict, tell_user};
use armento_checkpoint::home::sha256;
use armento_client::AskError;
use armento_client::api::{CheckpointOrder, KEPT_COMMAND_MAX, KeepStep, PART_MAX};
use armento_client::hex::hex;
use armento_migrate::failpoint::point;
use armento_migrate::phase::Failpoint;
use armento_model::clean;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first checkpoint comes so soon after the start; one that failed is tried again after this.
const FIRST: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_secs(5);
/// A step whose answer did not come is asked once more; each may be asked twice.
const TRIES: u32 = 2;
/// For large files that outlive a restart, hier(7).
const DIR: &str = "/var/tmp";

/// Makes and sends one checkpoint after the other, for ever.
pub fn send_copies(keep: &Arc<Keep>, every: Duration) {
    let (mut said, mut failed) = (None, false);
    let mut pause = FIRST.min(every);
    loop {
        std::thread::sleep(pause);
        if keep.lease.verdict(Lease::now()) != Verdict::Run {
            pause = AGAIN.min(every);
            continue;
        }
        let (begun, at) = (Instant::now(), Lease::now());
        match copy(keep) {
            Ok(()) => {
                keep.lease.made(at);
                (said, failed) = (None, false);
                pause = every.saturating_sub(begun.elapsed());
            }
            Err(why) => {
                // A program that is about to begin has none yet: the first failure is not told.
                if failed && said.as_ref() != Some(&why) {
                    tell_user(keep.settings.root, &not_kept(keep, &why));
                }
                (said, failed) = (Some(why), true);
                pause = AGAIN.min(every);
            }
        }
    }
}

/// Why there is no new checkpoint, for the user.
fn not_kept(keep: &Keep, why: &str) -> String {
    let hint = "hint: it is tried again every few seconds; `armento why PID` shows what is kept";
    match keep.lease.kept(Lease::now()) {
        Some((at, age)) => format!(
            "armento: its checkpoint at {at}, {} s old, could not be replaced: {why}\n{hint}\n",
            age.as_secs()
        ),
        None => format!(
            "armento: it could not be recovered on another node if this one were lost: {why}\n{hint}\n"
        ),
    }
}

/// A directory that is removed with what is in it.
struct Private(PathBuf);

impl Private {
    fn new(keep: &Keep) -> io::Result<Private> {
        let dir = Path::new(DIR);
        let dir = match dir.is_dir() {
            true => dir.to_owned(),
            false => std::env::temp_dir(),
        };
        // The number of a tree is drawn by chance: nobody else has made a directory of that name.
        let path = dir.join(format!("armento-{}", keep.settings.tree));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Private(path))
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn copy(keep: &Arc<Keep>) -> Result<(), String> {
    let dir = Private::new(keep).map_err(|e| format!("no directory for its checkpoint: {e}"))?;
    let path = dir.0.join("tree.ckpt");
    let order = CheckpointOrder {
        pids: subjects(keep),
        file: path.display().to_string(),
        overwrite: true,
        with_files: true,
    };
    save_file(keep, &order).map_err(|no| no.message)?;
    point(Failpoint::KeepWritten);
    send(keep, &path)
}

/// The first program, with all that descends from it; or, when it has ended, what it has left.
fn subjects(keep: &Keep) -> Vec<i32> {
    let root = keep.settings.root;
    let pids = keep.pids();
    match pids.contains(&root) || pids.is_empty() {
        true => vec![root],
        false => pids,
    }
}

fn send(keep: &Keep, path: &Path) -> Result<(), String> {
    let unread = |e: io::Error| format!("its checkpoint cannot be read: {e}");
    let hash = sha256(path).map_err(unread)?;
    let mut file = File::open(path).map_err(unread)?;
    let size = file.metadata().map_err(unread)?.len();
    let command = clean(&keep.settings.hello.command);
    step(keep, || KeepStep::Begin {
        size,
        sha256: hex(&hash),
        command: command.chars().take(KEPT_COMMAND_MAX).collect(),
        boot: boot_id(),
        dead_ms: 0,
    })?;
    let mut buffer = vec![0; PART_MAX];
    let mut offset = 0;
    while offset < size {
        let n = file.read(&mut buffer).map_err(unread)?;
        if n == 0 {
            return Err("its checkpoint has become shorter".into());
        }
        let data = hex(&buffer[..n]);
        step(keep, || KeepStep::Part {
            offset,
            data: data.clone(),
        })?;
        offset += n as u64;
    }
    point(Failpoint::KeepSent);
    step(keep, || KeepStep::End)?;
    point(Failpoint::KeepDone);
    Ok(())
}

fn step(keep: &Keep, make: impl Fn() -> KeepStep) -> Result<(), String> {
    let mut last = String::new();
    for _ in 0..TRIES {
        match ask(keep, make()) {
            Ok(true) => return Ok(()),
            Ok(false) => return Err("the node that keeps its checkpoint has forgotten it".into()),
            Err(AskError::Refused(no)) if no.code != "silent" => return Err(no.message),
            Err(e) => last = e.to_string(),
        }
    }
    Err(last)
}

/// Of this boot of the kernel, random(4).
fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}
