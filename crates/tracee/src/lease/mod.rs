//! Read leases on files, and the signal that says that another process wants to write one of them.
//!
//! KERNEL: fcntl(2), F_SETLEASE, F_SETSIG, F_SETOWN_EX. The process that opens the file for writing waits until the lease is
//! given back, by closing its descriptor.

mod sys;

use std::fs::File;
use std::io;
use std::ops::Deref;
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
    let tid = HEARS.load(Ordering::Acquire);
    // Before it is taken: a break that is not directed would kill this process.
    let heard =
        tid == 0 || sys::set_io_signal(f, SIGNAL).is_ok() && sys::set_io_owner(f, tid).is_ok();
    heard && sys::set_lease(f, libc::F_RDLCK).is_ok()
}

/// A description of a program's with a lease of ours; dropped, it has neither a lease nor an owner any more.
pub struct Leased(File);

impl Leased {
    /// `None` also for a description that has a lease or an owner already.
    pub fn take(theirs: File) -> Option<Leased> {
        let plain = !sys::has_io_owner(&theirs) && sys::lease(&theirs) == libc::F_UNLCK;
        (plain && take(&theirs)).then_some(Leased(theirs))
    }
}

impl Deref for Leased {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        // KERNEL: the end of a lease clears its owner and signal (lease_modify); again, should the lease have ended before.
        let _ = sys::set_lease(&self.0, libc::F_UNLCK);
        let _ = sys::set_io_owner(&self.0, 0);
        let _ = sys::set_io_signal(&self.0, 0);
    }
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
    fn a_program_s_description_is_left_as_it_was() {
        let path = std::env::temp_dir().join(format!("armento-leased-{}", std::process::id()));
        std::fs::write(&path, "x").expect("written");
        let f = File::open(&path).expect("opened");
        let dup = f.try_clone().expect("duplicated");
        let l = Leased::take(dup).expect("a lease");
        assert!(!wanted(&f), "it is the description's");
        drop(l);
        assert_eq!(sys::lease(&f), libc::F_UNLCK);
        assert!(!sys::has_io_owner(&f));
        std::fs::remove_file(path).expect("removed");
    }

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
