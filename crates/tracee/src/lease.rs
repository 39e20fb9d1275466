//! Read leases on files, and the signal that says that another process wants to write one of them.
//!
//! KERNEL: fcntl(2), F_SETLEASE, F_SETSIG, F_SETOWN_EX. The process that opens the file for writing waits until the lease is
//! given back, by closing its descriptor.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// A queued signal, so that no break is lost among others; libc has the first two of them for itself.
const SIGNAL: i32 = 40;
/// What the kernel sends instead when no signal can be queued.
const OVERFLOW: i32 = libc::SIGIO;

/// struct f_owner_ex with F_OWNER_TID. KERNEL: fcntl.h.
const F_SETOWN_EX: i32 = 15;
#[repr(C)]
struct Owner {
    kind: i32,
    id: i32,
}
const F_OWNER_TID: i32 = 0;
const F_SETSIG: i32 = 10;

/// The thread that hears of breaks; 0: none does.
static HEARS: AtomicI32 = AtomicI32::new(0);

/// Takes a read lease. Refused while a process has the file open for writing, or if we are not its owner.
pub fn take(f: &File) -> bool {
    let tid = HEARS.load(Ordering::Acquire);
    let owner = Owner {
        kind: F_OWNER_TID,
        id: tid,
    };
    let fd = f.as_raw_fd();
    // SAFETY: plain numbers and a live struct on a live descriptor.
    unsafe {
        // Before it is taken: a break that is not directed would kill this process.
        let heard = tid == 0
            || libc::fcntl(fd, F_SETSIG, SIGNAL) == 0
                && libc::fcntl(fd, F_SETOWN_EX, &raw const owner) == 0;
        heard && libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) == 0
    }
}

/// Whether a process waits to open the file for writing.
pub fn wanted(f: &File) -> bool {
    // SAFETY: plain numbers on a live descriptor.
    unsafe { libc::fcntl(f.as_raw_fd(), libc::F_GETLEASE) != libc::F_RDLCK }
}

/// Calls `broken` in this thread each time that a process wants to write a leased file, and every so often beside; until it
/// returns false. Leases that were taken before are not heard of by signals.
pub fn hear(every: Duration, mut broken: impl FnMut() -> bool) -> io::Result<()> {
    // SAFETY: zeroed sets that sigemptyset fills; all pointers are live.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, SIGNAL);
        libc::sigaddset(&raw mut set, OVERFLOW);
        match libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) {
            0 => HEARS.store(libc::gettid(), Ordering::Release),
            e => return Err(io::Error::from_raw_os_error(e)),
        }
        let limit = libc::timespec {
            tv_sec: every.as_secs() as i64,
            tv_nsec: every.subsec_nanos().into(),
        };
        while broken() {
            libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const limit);
        }
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
        std::thread::spawn(move || hear(Duration::from_secs(5), || tx.send(()).is_ok()));
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
