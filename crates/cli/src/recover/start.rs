//! One program goes on from the checkpoint that this node keeps.
//!
//! From: `mod.rs`. Next: `noded/src/kept/recover.rs` (the checkpoint is taken), `cli/src/restart.rs`, in a process of its own.

use crate::out::{Failure, ask, unexpected_answer};
use crate::users::{self, Account};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask, KeptInfo, PART_MAX, RecoverStep};
use armento_client::hex::unhex;
use armento_model::{Pid, clean};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, fchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program that goes on from its checkpoint is seen by the daemon after this.
const BEGINS: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of its output that are shown when it has failed.
const SAID_MAX: usize = 2000;

/// One step, by this node's daemon.
pub fn step(id: &str, recover: RecoverStep) -> Result<Answer, Failure> {
    let id = id.to_owned();
    ask(Ask::Recover { id, recover }, ANSWER)
}

/// A program that goes on.
pub struct Begun {
    pub pid: u32,
    pub output: PathBuf,
}

impl Begun {
    pub fn text(&self, k: &KeptInfo) -> String {
        format!(
            "{} of {} goes on as process {}; its output goes to {}\n",
            clean(&k.command),
            k.home,
            self.pid,
            clean(&self.output.display().to_string())
        )
    }
}

/// The files are made before anything is taken: a full disk is met then.
pub fn start(k: &KeptInfo, output: Option<&Path>, home_is_off: bool) -> anyhow::Result<Begun> {
    let account = users::account(k.uid)?;
    let name = |end: &str| account.home.join(format!("armento-{}.{end}", k.id));
    let output = match output {
        Some(file) => std::path::absolute(file)?,
        None => name("out"),
    };
    let path = name("ckpt");
    let out = made(&output, &account, false)?;
    let mut file = made(&path, &account, true)?;
    let taken = step(&k.id, RecoverStep::Take { home_is_off })
        .map_err(anyhow::Error::from)
        .and_then(|_| fetch(&k.id, &mut file));
    if let Err(e) = taken {
        let _ = fs::remove_file(&path);
        return Err(e);
    }
    step(&k.id, RecoverStep::Done)?;
    let child = spawn(&path, out, &account).map_err(|e| failed(&path, &e.to_string()))?;
    wait(child, &path, output)
}

/// Owned by the user. `new`: it must not exist.
fn made(path: &Path, account: &Account, new: bool) -> Result<File, Failure> {
    let mut open = OpenOptions::new();
    // Of another user's directory root believes nothing that is there: no file of that name, no link.
    let new = new || account.is_other();
    open.append(true).create(true).create_new(new).mode(0o600);
    let file = open.open(path).and_then(|file| {
        if account.is_other() {
            fchown(&file, Some(account.uid), Some(account.gid))?;
        }
        Ok(file)
    });
    file.map_err(|e| Failure {
        message: format!("{}: {e}; nothing was started", path.display()),
        hint: "remove it if it is of no use, or name another with --output".into(),
    })
}

/// Copies the checkpoint from the daemon, in parts.
fn fetch(id: &str, file: &mut File) -> anyhow::Result<()> {
    let mut offset = 0;
    loop {
        let Answer::KeptPart { size, data } = step(id, RecoverStep::Read { offset })? else {
            return Err(unexpected_answer());
        };
        let bytes = unhex(&data).filter(|b| b.len() <= PART_MAX);
        let bytes = bytes.ok_or_else(unexpected_answer)?;
        if bytes.is_empty() && offset < size {
            return Err(unexpected_answer());
        }
        file.write_all(&bytes)?;
        offset += bytes.len() as u64;
        if offset >= size {
            file.sync_data()?;
            return Ok(());
        }
    }
}

/// `armento restart` as that user, in a process group of its own.
fn spawn(path: &Path, out: File, account: &Account) -> std::io::Result<Child> {
    let mut command = match account.is_other() {
        // Also when the program was replaced by a new version meanwhile.
        false => Command::new("/proc/self/exe"),
        true => {
            // setpriv(1): the user's groups, too.
            let mut as_user = Command::new("setpriv");
            as_user.args([
                format!("--reuid={}", account.uid),
                format!("--regid={}", account.gid),
                "--init-groups".into(),
                "--".into(),
            ]);
            as_user
                .arg(std::env::current_exe()?)
                .env("HOME", &account.home);
            as_user
        }
    };
    command
        .args(["restart", "--pid", "new", "--put-back"])
        .arg(path)
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .current_dir("/")
        .process_group(0);
    command.spawn()
}

fn failed(path: &Path, why: &str) -> Failure {
    let path = path.display();
    Failure {
        message: format!("it was taken, and could not be started: {why}"),
        hint: format!("its checkpoint is {path}: `armento restart --pid new --put-back {path}`"),
    }
}

/// Until the daemon shows it, or it has ended.
fn wait(mut child: Child, path: &Path, output: PathBuf) -> anyhow::Result<Begun> {
    let (pid, until) = (child.id(), Instant::now() + BEGINS);
    let begun = Begun { pid, output };
    while Instant::now() < until {
        if let Some(status) = child.try_wait()? {
            if status.code() == Some(crate::out::FAILED) {
                let said = fs::read(&begun.output).unwrap_or_default();
                let last = &said[said.len().saturating_sub(SAID_MAX)..];
                let last = String::from_utf8_lossy(last);
                return Err(failed(path, last.trim()).into());
            }
            return Ok(begun);
        }
        if runs(pid) {
            return Ok(begun);
        }
        std::thread::sleep(LOOK);
    }
    let after = BEGINS.as_secs();
    Err(failed(
        path,
        &format!("it is not seen after {after} s, and may come yet"),
    )
    .into())
}

fn runs(pid: u32) -> bool {
    let Ok(Answer::Ps { procs }) = ask(Ask::Ps { all: false }, ANSWER) else {
        return false;
    };
    procs.iter().any(|p| Pid::try_from(pid) == Ok(p.pid))
}
