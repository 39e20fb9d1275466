//! `armento mfs-mount POINT`: the process that holds the mount.
//!
//! From: `noded/src/mfs/mount.rs`. It outlives its daemon; SIGTERM has it unmount and end. Files that are in use then get
//! errors.

use super::farm::ByDaemon;
use super::{Failure, answer, instructions, outside};
use crate::sys;
use armento_client::api::{MfsStart, MfsStream, socket_of_mount, socket_path};
use armento_client::encode;
use armento_mfs::{Mount, NodeStats, Options};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Mounts of dead processes above each other: each is taken away.
const STALE_MAX: usize = 64;
/// A reader of the figures that does not read.
const WRITTEN: Duration = Duration::from_secs(1);
/// For files in use when it is unmounted; the daemon waits longer (`noded/src/mfs/mount.rs`).
const GRACE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

/// Returns the exit code. Before: this process has one thread.
pub fn main(point: Option<&OsStr>) -> i32 {
    let signals = sys::Ending::block();
    match begin(point) {
        Ok(None) => answer(Ok(0)),
        Ok(Some((mount, point))) => {
            // Readable by the daemon's user alone.
            let socket = socket_of_mount(&socket_path());
            let mount = Arc::new(mount);
            tell(&socket, &mount);
            answer(Ok(0));
            let code = hold(mount, &point, &signals);
            let _ = fs::remove_file(&socket);
            code
        }
        Err(e) => answer(Err(e)),
    }
}

fn begin(point: Option<&OsStr>) -> Result<Option<(Mount, PathBuf)>, Failure> {
    let start: MfsStart = instructions()?;
    let point = PathBuf::from(point.ok_or("a mount point is missing")?);
    outside::enter()?;
    clear(&point)?;
    if start.clear {
        return Ok(None);
    }
    usable(&point)?;
    let farm = ByDaemon::new(socket_path(), start.node);
    let options = Options {
        deadline: Duration::from_millis(start.deadline_ms),
        cache: true,
    };
    let mount = Mount::start(&point, Arc::new(farm), options)?;
    Ok(Some((mount, point)))
}

/// Takes away mounts whose process is dead: whoever touches one gets ENOTCONN. KERNEL: fuse_request_queue_background and
/// its callers answer that once the connection is aborted.
fn clear(point: &Path) -> io::Result<()> {
    for _ in 0..STALE_MAX {
        match fs::metadata(point) {
            Err(e) if e.raw_os_error() == Some(libc::ENOTCONN) => sys::unmount_lazily(point)?,
            _ => break,
        }
    }
    Ok(())
}

/// An empty directory, made if it is not there.
fn usable(point: &Path) -> Result<(), Failure> {
    let shown = point.display();
    match fs::create_dir(point) {
        Ok(()) => sys::make_public(point)?,
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(format!("{shown} cannot be made: {e}").into()),
    }
    if !fs::symlink_metadata(point)?.is_dir() {
        return Err(format!("{shown} is no directory").into());
    }
    if fs::read_dir(point)?.next().is_some() {
        return Err(format!("{shown} is not empty; move away what is in it").into());
    }
    Ok(())
}

/// Until it is unmounted, by us or by others.
fn hold(mount: Arc<Mount>, point: &Path, signals: &sys::Ending) -> i32 {
    let waits = mount.clone();
    let waiting = thread::Builder::new().name("wait".into()).spawn(move || {
        waits.wait();
        // Somebody ran umount(8), or the signal below has done it.
        sys::end_ourselves();
    });
    if let Err(e) = waiting {
        eprintln!("armento mfs-mount: {e}");
    }
    signals.wait();
    match sys::unmount_lazily(point) {
        // It was unmounted by others.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => return 0,
        Err(e) => eprintln!("armento mfs-mount: {}: {e}", point.display()),
        Ok(()) => {}
    }
    // What was written is on its way; the kernel has done with us when nothing is open. Programs that have files open for
    // longer get errors from them.
    signals.wait_for(GRACE);
    0
}

/// Answers each connection with a line of figures.
fn tell(socket: &Path, mount: &Arc<Mount>) {
    let _ = fs::remove_file(socket);
    let listener = match UnixListener::bind(socket).and_then(|l| {
        sys::make_private(socket)?;
        Ok(l)
    }) {
        Ok(listener) => listener,
        Err(e) => {
            eprintln!(
                "armento mfs-mount: {}: {e}; there are no figures",
                socket.display()
            );
            return;
        }
    };
    let mount = mount.clone();
    let answers = move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else {
                // Out of descriptors: wait for some to come back rather than spin.
                thread::sleep(PAUSE);
                continue;
            };
            let figures: Vec<MfsStream> = mount.stats().nodes.iter().map(figures).collect();
            let line = encode(&figures).unwrap_or_default();
            let _ = stream.set_write_timeout(Some(WRITTEN));
            let _ = stream.write_all(&line);
        }
    };
    if let Err(e) = thread::Builder::new().name("figures".into()).spawn(answers) {
        eprintln!("armento mfs-mount: {e}");
    }
}

fn figures(n: &NodeStats) -> MfsStream {
    MfsStream {
        node: n.node.clone(),
        uid: n.uid,
        connected: n.connected,
        calls: n.calls,
        read_bytes: n.bytes_read,
        written_bytes: n.bytes_written,
        open_files: n.open_files,
        reconnects: n.reconnects,
        errors: n.errors,
        invalidations: n.invalidations,
        p50_us: n.latency_p50_us,
        p99_us: n.latency_p99_us,
    }
}
