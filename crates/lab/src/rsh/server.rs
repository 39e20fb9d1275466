//! The lab's process that starts commands in nodes: one fork a request, so that each may enter its node.

use super::place::socket_of;
use super::request::{Request, answer};
use super::{supervise, sys as rsh_sys};
use crate::state::{Dir, MARK};
use crate::sys::{self, Waited};
use anyhow::{Context, Result};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Commands at once in one lab: a launcher holds one for each node, and a lab has at most 64.
const COMMANDS_MAX: usize = 512;
/// How long a client may take to send its request.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// Makes the socket of the lab. Only root can reach it here; nodes have it mounted.
pub fn bind(dir: &Dir) -> Result<UnixListener> {
    let socket = socket_of(dir);
    let parent = socket.parent().context("no parent")?;
    fs::DirBuilder::new().mode(0o700).create(parent)?;
    let listener = UnixListener::bind(&socket)?;
    // Users of nodes may connect; the kernel tells who they are.
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// Starts the server; it ends with the calling process.
pub fn start(lab: &str, listener: UnixListener) -> Result<Child> {
    Command::new("/proc/self/exe")
        .arg0("armento")
        .args(["lab-init", "rsh", lab])
        .env_clear()
        .env(MARK, lab)
        .current_dir("/")
        .stdin(OwnedFd::from(listener))
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start the server of `lab rsh`")
}

/// `lab-init rsh LAB`. Before: the socket is this process's standard input.
pub fn main(lab: &str) -> Result<()> {
    sys::set_parent_death_signal(sys::SIGKILL)?;
    sys::setsid();
    sys::usual_umask();
    let listener = UnixListener::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let null = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    sys::redirect_stdio(&null)?;
    drop(null);
    rsh_sys::expect_children();
    let mut running = 0_usize;
    loop {
        while let Waited::Ended(..) = sys::wait_child(-1) {
            running = running.saturating_sub(1);
        }
        if !rsh_sys::readable_or_child(&listener) {
            continue;
        }
        let Ok((mut stream, _)) = listener.accept() else {
            continue; // the client is gone, or this process has no descriptor left until one ends
        };
        if running >= COMMANDS_MAX {
            answer(
                &mut stream,
                Err(anyhow::anyhow!(
                    "{COMMANDS_MAX} commands run in this lab by `lab rsh`, the most at once\nhint: wait until one has ended"
                )),
            );
            continue;
        }
        match sys::fork() {
            Ok(Some(_)) => running += 1,
            Ok(None) => {
                drop(listener);
                serve(lab, stream);
                sys::exit_now(0)
            }
            Err(e) => answer(
                &mut stream,
                Err(anyhow::Error::new(e).context("cannot start a process for the command")),
            ),
        }
    }
}

/// One request, in a process of its own.
fn serve(lab: &str, mut stream: UnixStream) {
    let request = stream
        .set_read_timeout(Some(REQUEST_MAX))
        .context("no time limit")
        .and_then(|()| rsh_sys::peer(&stream).context("the client has no name"))
        .and_then(|peer| Ok((peer, Request::receive(&mut stream)?)));
    let started = request.and_then(|((uid, gid), (request, files))| {
        stream.set_read_timeout(None)?;
        supervise::start(lab, &request, (uid, gid), &stream, files)
    });
    match started {
        Ok(supervisor) => {
            drop(stream);
            // The command's files are the supervisor's now: only its end matters here.
            while !matches!(
                sys::wait_child(supervisor),
                Waited::Ended(..) | Waited::NoChildren
            ) {
                rsh_sys::child_within(None);
            }
        }
        Err(e) => answer(&mut stream, Err(e)),
    }
}
