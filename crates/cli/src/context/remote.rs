//! The way to a farm's node. A command speaks with it as with its own daemon: over a socket that this process makes in a
//! directory of its own, and from which it passes all lines on.

use super::store::Context;
use crate::out::Failure;
use armento_link::{Token, random_hex};
use armento_noded::remote::{Open, open, sign_in as sign_in_at, sign_out as sign_out_at};
use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// Begin of the names of such directories; the pid and random digits follow.
const DIR: &str = "armento-context-";

/// What this machine proves itself with, and the hash of the farm's certificate.
fn token(context: &Context) -> Result<Token, Failure> {
    context.access.parse().map_err(|_| Failure {
        message: format!("what is kept of {} is damaged", context.name),
        hint: "`armento context remove` it, and add it again".into(),
    })
}

pub fn sign_in(name: &str, token: &Token, addr: &str) -> Result<Context, Failure> {
    let found = sign_in_at(addr, token)?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    let access = Token {
        secret: found.session.secret,
        ..token.clone()
    };
    Ok(Context {
        name: name.to_owned(),
        address: addr.to_owned(),
        access: access.to_string(),
        farm: found.farm,
        node: found.node.to_string(),
        user: found.session.user,
        expires: now + found.session.left_s,
    })
}

pub fn sign_out(context: &Context) -> Result<(), Failure> {
    Ok(sign_out_at(&context.address, &token(context)?)?)
}

/// A socket of this process, and its listener.
pub struct Way {
    pub path: PathBuf,
    listener: Option<UnixListener>,
}

/// Before: this process has one thread.
pub fn bind() -> Result<Way, Failure> {
    let place = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    sweep(&place);
    // Random: another user, or an earlier process of this number, may have taken a name that can be guessed.
    let dir = place.join(format!("{DIR}{}-{}", std::process::id(), random_hex(8)));
    let path = dir.join("socket");
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&dir)
        .map_err(local)?;
    let listener = UnixListener::bind(&path).map_err(local)?;
    Ok(Way {
        path,
        listener: Some(listener),
    })
}

fn local(e: io::Error) -> Failure {
    Failure {
        message: format!("there is no place for a socket: {e}"),
        hint: "is XDG_RUNTIME_DIR, or /tmp, writable?".into(),
    }
}

impl Way {
    /// The daemon of `context` answers at it, as long as this value lives. The first connection is made before this returns, so
    /// that an error is told here.
    pub fn open(mut self, context: &Context) -> Result<Way, Failure> {
        let token = token(context)?;
        let first = open(&context.address, &token)?;
        let address = context.address.clone();
        if let Some(listener) = self.listener.take() {
            thread::Builder::new()
                .name("context".into())
                .spawn(move || accept(&listener, first, &address, &token))
                .map_err(local)?;
        }
        Ok(self)
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        if let Some(dir) = self.path.parent() {
            let _ = fs::remove_dir(dir);
        }
    }
}

/// Removes directories of commands that have ended.
fn sweep(place: &Path) {
    let Ok(all) = fs::read_dir(place) else { return };
    for entry in all.flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|n| n.strip_prefix(DIR)?.split('-').next());
        let Some(pid) = pid.and_then(|p| p.parse::<u32>().ok()) else {
            continue;
        };
        if !Path::new("/proc").join(pid.to_string()).exists() {
            // Another user's stays: it is not ours to remove.
            let _ = fs::remove_file(entry.path().join("socket"));
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn accept(listener: &UnixListener, first: Open, address: &str, token: &Token) {
    let mut ready = Some(first);
    for own in listener.incoming().flatten() {
        let Some(remote) = ready.take().or_else(|| open(address, token).ok()) else {
            // The command sees its daemon go, and says so.
            continue;
        };
        let _ = thread::Builder::new()
            .name("context".into())
            .spawn(move || pass_on(own, remote));
    }
}

fn pass_on(own: UnixStream, remote: Open) {
    let Open {
        reader,
        mut writer,
        socket,
    } = remote;
    let Ok(from) = own.try_clone() else { return };
    let back = thread::Builder::new()
        .name("context".into())
        .spawn(move || {
            copy(&from, &mut writer);
            let _ = socket.shutdown(Shutdown::Both);
        });
    copy(reader, &own);
    let _ = own.shutdown(Shutdown::Both);
    if let Ok(back) = back {
        let _ = back.join();
    }
}

/// Until one of them ends.
fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buf = [0; 16384];
    loop {
        match from.read(&mut buf) {
            Ok(0) => return,
            Ok(n) if to.write_all(&buf[..n]).and_then(|()| to.flush()).is_err() => return,
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
