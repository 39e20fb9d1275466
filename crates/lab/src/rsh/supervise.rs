//! The process in the node that has started the command, and answers for it.

use super::request::{DONE, Request, answer};
use super::sys as rsh_sys;
use crate::enter::{self, Handles, User};
use crate::sys::{self, Waited};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// What a user finds in a new session. login(1): `ENV_PATH` and `ENV_SUPATH` of login.defs(5).
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Pause between two attempts to end all descendants, and their number: five seconds in all.
const END_PAUSE: Duration = Duration::from_millis(50);
const END_ATTEMPTS: u32 = 100;

/// Starts the supervisor of a command, a child of this process. `asks`: user and group of the client. Before: this process
/// has one thread and does nothing else.
pub fn start(
    lab: &str,
    request: &Request,
    asks: (u32, u32),
    stream: &UnixStream,
    files: [OwnedFd; 3],
) -> Result<i32> {
    let handles = Handles::find(lab, &request.node)?;
    sys::setns(handles.first(), sys::CLONE_NEWPID).context("cannot enter the node")?;
    let mut stream = stream.try_clone()?;
    match sys::fork()? {
        Some(supervisor) => Ok(supervisor),
        None => {
            let started = command(&handles, request, asks, files);
            match started {
                Ok(command) => attend(&mut stream, command),
                Err(e) => answer(&mut stream, Err(e)),
            }
            sys::exit_now(0)
        }
    }
}

/// Enters the node and starts the command there; returns its pid, which is also its process group's.
fn command(
    handles: &Handles,
    request: &Request,
    (uid, gid): (u32, u32),
    files: [OwnedFd; 3],
) -> Result<i32> {
    sys::set_parent_death_signal(sys::SIGKILL)?;
    handles.join_namespaces()?;
    let user = match &request.user[..] {
        "" => User::of(uid).unwrap_or_else(|| User::unnamed(uid, gid)),
        name => User::find(name)?,
    };
    if uid != 0 && user.uid != uid {
        bail!(
            "only root may run commands as {}\nhint: leave -l out",
            request.user
        );
    }
    rsh_sys::adopt_orphans()?;
    rsh_sys::expect_children();
    match sys::fork()? {
        Some(pid) => Ok(pid),
        None => {
            let error = exec(request, &user, files);
            eprintln!("armento: {error:#}");
            sys::exit_now(enter::NOT_EXECUTABLE)
        }
    }
}

/// Becomes the command; returns only on failure.
fn exec(request: &Request, user: &User, files: [OwnedFd; 3]) -> anyhow::Error {
    let prepare = || -> Result<Command> {
        sys::setsid();
        rsh_sys::usual_signals();
        rsh_sys::become_stdio(&files)?;
        sys::keep_files_private();
        sys::become_user(user.uid, user.gid, &user.groups)
            .with_context(|| format!("cannot become {}", user.name))?;
        // It ends with its supervisor. Set now: KERNEL: prctl(2), a change of user clears it.
        sys::set_parent_death_signal(sys::SIGKILL)?;
        let mut shell = Command::new(&user.shell);
        shell.arg("-c").arg(OsStr::from_bytes(&request.command));
        shell.env_clear().env("PATH", PATH).env("HOME", &user.home);
        shell.env("USER", &user.name).env("LOGNAME", &user.name);
        shell.env("SHELL", &user.shell);
        for variable in &request.variables {
            let mut parts = variable.splitn(2, |b| *b == b'=');
            if let (Some(name), Some(value)) = (parts.next(), parts.next())
                && !name.is_empty()
            {
                shell.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
            }
        }
        if std::env::set_current_dir(&user.home).is_err() {
            std::env::set_current_dir("/")?;
        }
        Ok(shell)
    };
    match prepare() {
        Ok(mut shell) => {
            let error = shell.exec();
            anyhow::Error::new(error).context(format!("cannot run {}", user.shell))
        }
        Err(e) => e,
    }
}

/// Passes on signals, reports the end of the command, and stays until the client has all output. A client that is gone
/// before takes with it whatever the command has started.
fn attend(stream: &mut UnixStream, command: i32) {
    let mut over = false;
    loop {
        loop {
            match sys::wait_child(-1) {
                Waited::Ended(pid, code) if pid == command => {
                    over = true;
                    answer(stream, Ok(code));
                }
                Waited::Ended(..) | Waited::Stopped(_) => {}
                Waited::Nothing | Waited::NoChildren => break,
            }
        }
        if !rsh_sys::readable_or_child(stream) {
            continue;
        }
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) if byte[0] == DONE => return,
            Ok(1) if !over => rsh_sys::kill_group(command, byte[0].into()),
            Ok(1) => {}
            _ => return end_all(),
        }
    }
}

/// Kills all descendants, also those in sessions of their own: as their parents end, they become this process's children.
fn end_all() {
    for _ in 0..END_ATTEMPTS {
        for pid in descendants(std::process::id() as i32) {
            sys::kill(pid, sys::SIGKILL);
        }
        loop {
            match sys::wait_child(-1) {
                Waited::NoChildren => return,
                Waited::Nothing => break,
                _ => {}
            }
        }
        rsh_sys::child_within(Some(END_PAUSE));
    }
}

/// Processes below `root` in the node's /proc.
fn descendants(root: i32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for pid in pids {
        if let Some(parent) = crate::down::parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let (mut found, mut open) = (Vec::new(), vec![root]);
    while let Some(pid) = open.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        open.extend(below);
    }
    found
}
