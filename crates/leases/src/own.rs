//! Leases of this process, and the signal that says that another process wants to write one of the files.
//!
//! KERNEL: fcntl(2), F_SETLEASE, F_SETSIG, F_SETOWN_EX. The process that opens the file for writing waits until the lease is
//! given back, by closing its descriptor.

use crate::sys;
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// A queued signal, so that no break is lost among others; libc has the first two of them for itself.
const SIGNAL: i32 = 40;
/// What the kernel sends instead when no signal can be queued.
const OVERFLOW: i32 = libc::SIGIO;

/// The thread that hears of breaks; 0: none does.
static HEARS: AtomicI32 = AtomicI32::new(0);

/// Takes a read lease. Refused while a process has the file open for writing, or if we are not its owner.
pub fn take(f: &File) -> bool {
    try_take(f).is_ok()
}

/// As [`take`]; `EACCES` where we are not its owner and have no CAP_LEASE.
pub fn try_take(f: &File) -> io::Result<()> {
    match HEARS.load(Ordering::Acquire) {
        0 => sys::set_lease(f, libc::F_RDLCK),
        tid => take_for(f, tid),
    }
}

/// The thread `hears` gets the signal when a process wants to write the file.
fn take_for(f: &File, hears: i32) -> io::Result<()> {
    // Before it is taken: a break that is not directed would kill this process.
    sys::set_io_signal(f, SIGNAL)?;
    sys::set_io_owner(f, hears)?;
    sys::set_lease(f, libc::F_RDLCK).inspect_err(|_| {
        let _ = sys::set_io_owner(f, 0);
        let _ = sys::set_io_signal(f, 0);
    })
}

/// Whether a process waits to open the file for writing.
pub fn wanted(f: &File) -> bool {
    sys::lease(f) != libc::F_RDLCK
}

/// Calls `broken` in this thread each time that a process wants to write a leased file, with the descriptor of the lease if
/// that is known, and every so often beside; until it returns false. Leases that were taken before are not heard of by
/// signals.
pub fn hear(every: Duration, mut broken: impl FnMut(Option<RawFd>) -> bool) -> io::Result<()> {
    let signals = sys::block_signals(&[SIGNAL, OVERFLOW])?;
    HEARS.store(sys::gettid(), Ordering::Release);
    let mut which = None;
    while broken(which) {
        which = sys::await_signal(&signals, every);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    #[test]
    fn a_writer_is_heard_of_at_once() {
        let (tx, rx) = channel();
        std::thread::spawn(move || hear(Duration::from_secs(5), |_| tx.send(()).is_ok()));
        rx.recv().expect("it hears");
        let path = std::env::temp_dir().join(format!("armento-lease-{}", std::process::id()));
        std::fs::write(&path, "x").expect("written");
        let f = File::open(&path).expect("opened");
        assert!(take(&f) && !wanted(&f));
        let writer = path.clone();
        let began = Instant::now();
        let opened = std::thread::spawn(move || OpenOptions::new().write(true).open(writer));
        rx.recv().expect("it was heard");
        assert!(wanted(&f));
        drop(f);
        assert!(opened.join().expect("it ended").is_ok());
        assert!(
            began.elapsed() < Duration::from_secs(4),
            "by the signal, not by the look every 5 s"
        );
        std::fs::remove_file(path).expect("removed");
    }
}
