//! This process's connection to the lease holder of its user.
//!
//! It is looked for when a lease was refused for want of a right, in a thread of its own; until it is there, such leases are
//! refused. A holder that is gone, or does not answer, is not looked for again for a while.

use crate::protocol::{self, GIVE_BACK, SETTLE, TAKE, VERSION};
use crate::{socket, sys};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A holder that does not answer for so long counts as gone. It does nothing that waits.
const ANSWER: Duration = Duration::from_secs(2);
/// Between two searches for a holder.
const AGAIN: Duration = Duration::from_secs(60);

/// Looks for a holder, and has [`Holder::watch`] run in a thread.
type Find = Box<dyn Fn() + Send + Sync>;

static FIND: OnceLock<Find> = OnceLock::new();
static NOW: Mutex<State> = Mutex::new(State {
    holder: None,
    sought: None,
});
/// The count of breaks of the present holder; null: there was none yet.
static BREAKS: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
/// Breaks of holders that are gone, with one for the end of each.
static EARLIER: AtomicU64 = AtomicU64::new(0);

struct State {
    holder: Option<Arc<Holder>>,
    sought: Option<Instant>,
}

fn now() -> MutexGuard<'static, State> {
    NOW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets what looks for a holder when one is needed: at most once a minute. It must not wait.
pub fn find_by(find: impl Fn() + Send + Sync + 'static) {
    let _ = FIND.set(Box::new(find));
}

/// How often leases of the holder's ended by themselves. What is sent after a look at it must not rest on them; which of them
/// have ended says [`crate::Leased::is_wanted`].
pub fn breaks() -> u64 {
    let page = BREAKS.load(Ordering::SeqCst);
    let present = sys::count(page).map_or(0, |count| count.load(Ordering::SeqCst));
    EARLIER.load(Ordering::SeqCst) + present
}

/// Returns when the holder has let go of all that was given back.
pub fn settle() {
    let holder = now().holder.clone();
    if let Some(h) = holder
        && h.unsettled.swap(false, Ordering::SeqCst)
    {
        let _ = h.ask(&protocol::request(SETTLE, 0), None);
    }
}

/// A lease that the holder has taken; dropped, it is given back.
pub struct Held {
    holder: Arc<Holder>,
    id: u32,
}

impl Held {
    /// The holder is gone, and its leases are not watched any more.
    pub fn is_lost(&self) -> bool {
        self.holder.gone.load(Ordering::SeqCst)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.holder.unsettled.store(true, Ordering::SeqCst);
        let _wire = self.holder.wire();
        // Should it fail, the holder is gone.
        let _ = protocol::send(
            &self.holder.socket,
            &protocol::request(GIVE_BACK, self.id),
            &[],
        );
    }
}

/// `None`: there is no holder, or it cannot take the lease either.
pub fn take(f: &File) -> Option<Held> {
    let holder = {
        let mut st = now();
        let usable = |h: &&Arc<Holder>| !h.gone.load(Ordering::SeqCst);
        let holder = st.holder.as_ref().filter(usable).cloned();
        let again = st.sought.is_none_or(|at| at.elapsed() > AGAIN);
        if holder.is_none() && again {
            st.sought = Some(Instant::now());
            drop(st);
            FIND.get().inspect(|find| find());
        }
        holder?
    };
    let id = holder.next.fetch_add(1, Ordering::Relaxed);
    let taken = holder.ask(&protocol::request(TAKE, id), Some(f)).ok()?;
    (taken == 0).then_some(Held { holder, id })
}

pub struct Holder {
    socket: OwnedFd,
    /// Held while a request waits for its answer.
    wire: Mutex<()>,
    event: OwnedFd,
    next: AtomicU32,
    /// Something was given back since the last answer.
    unsettled: AtomicBool,
    gone: AtomicBool,
}

impl Holder {
    /// Connects to a holder: from now on it is asked for leases.
    pub fn reach(path: &Path) -> io::Result<Arc<Holder>> {
        let socket = socket::reach(path)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER))?;
        set_socket_timeout(&socket, Timeout::Send, Some(ANSWER))?;
        let mut version = [0u8; 1];
        let (len, fds) = protocol::receive(&socket, &mut version)?;
        let (1, [VERSION], Ok([page, event])) = (len, version, <[OwnedFd; 2]>::try_from(fds))
        else {
            return Err(io::Error::other("the lease holder is of another version"));
        };
        let breaks = sys::map_count(&page, false)?;
        let holder = Arc::new(Holder {
            socket,
            wire: Mutex::new(()),
            event,
            next: AtomicU32::new(1),
            unsettled: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        });
        let mut st = now();
        let before = BREAKS.load(Ordering::SeqCst);
        let counted = sys::count(before).map_or(0, |count| count.load(Ordering::SeqCst));
        // The page of the one before stays mapped: another thread may be looking at it. There is one a minute at most.
        EARLIER.fetch_add(counted, Ordering::SeqCst);
        BREAKS.store(std::ptr::from_ref(breaks).cast_mut(), Ordering::SeqCst);
        st.holder = Some(holder.clone());
        Ok(holder)
    }

    /// Calls `broken` after each break, until the holder is gone, and then once more.
    pub fn watch(&self, mut broken: impl FnMut()) {
        while !self.gone.load(Ordering::SeqCst) {
            let mut fds = [
                PollFd::new(&self.event, PollFlags::IN),
                // KERNEL: poll(2): the end of the connection is told anyway. What can be read is the answer to a request.
                PollFd::new(&self.socket, PollFlags::RDHUP),
            ];
            match poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
            if !fds[1].revents().is_empty() {
                break;
            }
            let mut count = [0u8; 8];
            let _ = rustix::io::read(&self.event, &mut count);
            broken();
        }
        self.end();
        broken();
    }

    fn wire(&self) -> MutexGuard<'_, ()> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, request: &[u8], file: Option<&File>) -> io::Result<i32> {
        let wire = self.wire();
        let asked = self.ask_locked(request, file);
        drop(wire);
        if asked.is_err() {
            self.end();
        }
        asked
    }

    fn ask_locked(&self, request: &[u8], file: Option<&File>) -> io::Result<i32> {
        let fds: Vec<_> = file.into_iter().map(AsFd::as_fd).collect();
        protocol::send(&self.socket, request, &fds)?;
        let mut answer = [0u8; 4];
        let (len, _) = protocol::receive(&self.socket, &mut answer)?;
        if len != answer.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(i32::from_ne_bytes(answer))
    }

    /// It is asked nothing more, and what rested on its leases does not hold any more.
    fn end(&self) {
        if !self.gone.swap(true, Ordering::SeqCst) {
            EARLIER.fetch_add(1, Ordering::SeqCst);
            // KERNEL: the thread that polls it sees the end.
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        }
    }
}
