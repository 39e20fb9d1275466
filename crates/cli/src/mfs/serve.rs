//! `armento mfs-serve`: one user's files for one node's mount.
//!
//! From: `noded/src/mfs/serve.rs`. It becomes that user before it reads a byte from the network, ends by itself when it was
//! idle for a while, and outlives its daemon.

use super::{Failure, answer, instructions, outside};
use crate::sys;
use armento_client::api::{Answer, Ask, FilesExport, FilesStart, RENEW};
use armento_client::{ANSWER, Session};
use armento_link::{Duplex, LinkError, Listener};
use armento_mfs::{Export, Exports, Server};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Without streams and open files for so long it ends; the next open starts another.
const IDLE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Streams at once: a mount has one, and for a moment two when it connects again.
const STREAMS_MAX: usize = 16;

/// Returns the exit code. Before: this process has one thread.
pub fn main() -> i32 {
    let up = prepare();
    let failed = up.is_err();
    match up {
        Ok((start, server, listener)) => {
            answer(Ok(listener.port()));
            run(&start, &server, &Arc::new(listener))
        }
        Err(e) => answer(Err(e)),
    }
    .max(i32::from(failed))
}

fn prepare() -> Result<(FilesStart, Arc<Server>, Listener), Failure> {
    let start: FilesStart = instructions()?;
    outside::enter()?;
    // The mount's kernel has applied the caller's.
    sys::set_umask(0);
    sys::be_ordinary_to_oom();
    sys::become_user(start.uid, start.gid, &start.groups)?;
    let export = |e: &FilesExport| Export {
        path: e.path.clone(),
        read_only: e.read_only,
        hidden: e.hidden.clone(),
    };
    let paths = start.exports.iter().map(export).collect();
    let server = Server::new(Exports { paths })?;
    let listener = Listener::bind(&start.listen, &start.identity)?;
    Ok((start, server, listener))
}

fn run(start: &FilesStart, server: &Arc<Server>, listener: &Arc<Listener>) -> i32 {
    let (serving, accepting) = (server.clone(), listener.clone());
    let expect = start.expect.clone();
    let accept = move || {
        let streams = Arc::new(AtomicUsize::new(0));
        loop {
            match accepting.accept(std::slice::from_ref(&expect)) {
                Ok((duplex, _)) => begin(&serving, duplex, &streams),
                Err(LinkError::Io(e)) => {
                    // Out of descriptors or memory: wait for some to come back rather than spin.
                    eprintln!("armento mfs-serve: accepting: {e}");
                    thread::sleep(Duration::from_millis(100));
                }
                Err(LinkError::Closed) => return,
                Err(e) => eprintln!("armento mfs-serve: {e}"),
            }
        }
    };
    if let Err(e) = thread::Builder::new().name("accept".into()).spawn(accept) {
        eprintln!("armento mfs-serve: {e}");
        return crate::out::FAILED;
    }
    let mut renewed = Instant::now();
    let begun = Instant::now();
    loop {
        thread::sleep(LOOK_EVERY);
        // Its first stream is on its way when it begins.
        if begun.elapsed() > IDLE && server.idle().is_some_and(|idle| idle > IDLE) {
            return 0;
        }
        if renewed.elapsed() > RENEW {
            renewed = Instant::now();
            renew(listener);
        }
    }
}

fn begin(server: &Arc<Server>, duplex: Duplex, streams: &Arc<AtomicUsize>) {
    if streams.fetch_add(1, Ordering::Relaxed) >= STREAMS_MAX {
        streams.fetch_sub(1, Ordering::Relaxed);
        eprintln!("armento mfs-serve: too many streams; one was closed");
        return;
    }
    let (server, count) = (server.clone(), streams.clone());
    let serve = move || {
        if let Err(e) = server.serve(duplex) {
            eprintln!("armento mfs-serve: {e}");
        }
        count.fetch_sub(1, Ordering::Relaxed);
    };
    if let Err(e) = thread::Builder::new().name("stream".into()).spawn(serve) {
        streams.fetch_sub(1, Ordering::Relaxed);
        eprintln!("armento mfs-serve: {e}");
    }
}

/// New keys, for the old ones expire; without a daemon the old ones hold for a day.
fn renew(listener: &Listener) {
    let asked = Session::connect().and_then(|mut s| s.ask(Ask::MfsIdentity, ANSWER));
    match asked {
        Ok(Answer::Identity { identity }) => {
            if let Err(e) = listener.renew(&identity) {
                eprintln!("armento mfs-serve: {e}");
            }
        }
        Ok(_) => {}
        Err(e) => eprintln!("armento mfs-serve: no new identity: {e}"),
    }
}
