//! The lease holder: takes leases for the clients of one user, and ends each the moment that a writer waits.
//!
//! One thread hears of writers, one a client serves its requests. A client that ends gives back everything. It never opens a
//! file: it gets descriptors of what its user could open for reading.

use crate::protocol::{self, GIVE_BACK, SETTLE, TAKE, VERSION};
use crate::{own, sys};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::collections::HashMap;
use std::fs::File;
use std::io::{
    self,
    ErrorKind::{BrokenPipe, ConnectionReset},
};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Clients at once: keepers of one user on one node.
const CLIENTS_MAX: usize = 256;
/// Leases at once; a client takes some 2,000 at most.
const LEASES_MAX: usize = 32_768;
/// Leases are looked at this often beside what their signal says.
const LOOK: Duration = Duration::from_secs(60);
/// Between two looks whether there are clients.
const IDLE_LOOK: Duration = Duration::from_secs(1);
/// A thread of a client needs little.
const STACK: usize = 64 << 10;

#[derive(Default)]
struct Leases {
    /// By the descriptor that the signal names.
    all: HashMap<RawFd, Lease>,
    /// Those descriptors, by client and its number of the lease.
    numbers: HashMap<(u64, u32), RawFd>,
    clients: HashMap<u64, Client>,
    next_client: u64,
    /// Since when there is no client.
    idle: Option<Instant>,
}

struct Lease {
    client: u64,
    id: u32,
    file: File,
}

struct Client {
    breaks: &'static AtomicU64,
    event: OwnedFd,
}

type Shared = Arc<Mutex<Leases>>;

fn lock(all: &Mutex<Leases>) -> MutexGuard<'_, Leases> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves clients that connect to `listener`, a socket of type SOCK_SEQPACKET that only one user can reach; returns when
/// there was none for `idle`.
pub fn serve(listener: OwnedFd, idle: Duration) -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it fewer leases are taken.
    let _ = setrlimit(Resource::Nofile, limit);
    let all = Shared::default();
    lock(&all).idle = Some(Instant::now());
    let hearing = all.clone();
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::Builder::new()
        .name("breaks".into())
        .spawn(move || {
            let heard = own::hear(LOOK, |fd| {
                let _ = ready.send(());
                lock(&hearing).broken(fd);
                true
            });
            if let Err(e) = heard {
                eprintln!("armento lease-holder: {e}");
                std::process::exit(1);
            }
        })?;
    // A lease that is taken before it hears would not be heard of.
    let _ = is_ready.recv();
    let accepting = all.clone();
    std::thread::Builder::new()
        .name("accept".into())
        .spawn(move || accept(&listener, &accepting))?;
    loop {
        std::thread::sleep(IDLE_LOOK);
        if lock(&all).idle.is_some_and(|since| since.elapsed() > idle) {
            return Ok(());
        }
    }
}

fn accept(listener: &OwnedFd, all: &Shared) {
    loop {
        let begun = accept_with(listener, SocketFlags::CLOEXEC)
            .map_err(io::Error::from)
            .and_then(|socket| begin(socket, all));
        if let Err(e) = begun {
            eprintln!("armento lease-holder: {e}");
            // Out of descriptors or memory: wait for some to come back rather than spin.
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn begin(socket: OwnedFd, all: &Shared) -> io::Result<()> {
    let (page, breaks) = page()?;
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let fds = [page.as_fd(), event.as_fd()];
    match protocol::send(&socket, &[VERSION], &fds) {
        // The daemon connects only to see that this process is there.
        Err(e) if matches!(e.kind(), BrokenPipe | ConnectionReset) => return Ok(()),
        sent => sent?,
    }
    let number = {
        let mut st = lock(all);
        if st.clients.len() >= CLIENTS_MAX {
            return Err(io::Error::other("too many clients; one was refused"));
        }
        st.next_client += 1;
        let number = st.next_client;
        st.clients.insert(number, Client { breaks, event });
        st.idle = None;
        number
    };
    let shared = all.clone();
    let serve = move || {
        // Ends with the connection.
        let _ = converse(&socket, number, &shared);
        lock(&shared).ended(number);
    };
    let thread = std::thread::Builder::new().stack_size(STACK);
    thread.name("client".into()).spawn(serve).map_or_else(
        |e| {
            lock(all).ended(number);
            Err(e)
        },
        |_| Ok(()),
    )
}

/// A page that the client can only read, which starts with the count of breaks.
fn page() -> io::Result<(OwnedFd, &'static AtomicU64)> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let page = rustix::fs::memfd_create("armento-breaks", flags)?;
    rustix::fs::ftruncate(&page, sys::PAGE as u64)?;
    let breaks = sys::map_count(&page, true)?;
    // KERNEL: memfd_create(2), F_SEAL_FUTURE_WRITE, from Linux 5.1.
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&page, seals)?;
    Ok((page, breaks))
}

fn converse(socket: &OwnedFd, client: u64, all: &Shared) -> io::Result<()> {
    let mut bytes = [0u8; 8];
    loop {
        let (len, mut fds) = protocol::receive(socket, &mut bytes)?;
        let Some((what, id)) = protocol::parse(&bytes[..len]) else {
            return Ok(());
        };
        let done = match (what, fds.pop()) {
            (TAKE, Some(fd)) => match lock(all).take(client, id, File::from(fd)) {
                Ok(()) => 0,
                Err(e) => e.raw_os_error().unwrap_or(libc::EIO),
            },
            (GIVE_BACK, None) => {
                lock(all).give_back(client, id);
                continue;
            }
            (SETTLE, None) => 0,
            _ => return Ok(()),
        };
        protocol::send(socket, &i32::to_ne_bytes(done), &[])?;
    }
}

impl Leases {
    fn take(&mut self, client: u64, id: u32, file: File) -> io::Result<()> {
        if self.numbers.contains_key(&(client, id)) || self.all.len() >= LEASES_MAX {
            return Err(io::Error::from_raw_os_error(libc::ENOLCK));
        }
        // Of a description that has a lease or an owner the program's own would be lost.
        if !sys::only_reads(&file) || sys::has_io_owner(&file) || sys::lease(&file) != libc::F_UNLCK
        {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        own::try_take(&file)?;
        let fd = file.as_raw_fd();
        self.numbers.insert((client, id), fd);
        self.all.insert(fd, Lease { client, id, file });
        Ok(())
    }

    fn give_back(&mut self, client: u64, id: u32) {
        // It may have been broken meanwhile.
        let fd = self.numbers.remove(&(client, id));
        if let Some(l) = fd.and_then(|fd| self.all.remove(&fd)) {
            sys::end_lease(&l.file);
        }
    }

    /// A process waits to write a leased file: by the descriptor of the lease, or any of which that is so.
    fn broken(&mut self, fd: Option<RawFd>) {
        let mut fds: Vec<RawFd> = match fd {
            Some(fd) => vec![fd],
            None => self.all.keys().copied().collect(),
        };
        // The number may be that of another lease by now.
        fds.retain(|fd| self.all.get(fd).is_some_and(|l| own::wanted(&l.file)));
        for l in fds.iter().filter_map(|fd| self.all.remove(fd)) {
            self.numbers.remove(&(l.client, l.id));
            let client = self.clients.get(&l.client);
            if let Some(c) = client {
                // Before the writer goes on: whatever is caused by the write comes after.
                c.breaks.fetch_add(1, Ordering::SeqCst);
            }
            sys::end_lease(&l.file);
            drop(l.file);
            if let Some(c) = client {
                // A count that is full is readable anyway.
                let _ = rustix::io::write(&c.event, &1u64.to_ne_bytes());
            }
        }
    }

    fn ended(&mut self, client: u64) {
        for (_, l) in self.all.extract_if(|_, l| l.client == client) {
            self.numbers.remove(&(client, l.id));
            sys::end_lease(&l.file);
        }
        if let Some(c) = self.clients.remove(&client) {
            sys::unmap_count(c.breaks);
        }
        if self.clients.is_empty() {
            self.idle = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketType, socketpair};

    #[test]
    fn a_client_that_is_gone_is_no_error_and_takes_no_place() {
        let flags = SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (gone, ours) = pair.expect("a pair of sockets");
        drop(gone);
        let all = Shared::default();
        begin(ours, &all).expect("no error");
        assert!(lock(&all).clients.is_empty());
    }
}
