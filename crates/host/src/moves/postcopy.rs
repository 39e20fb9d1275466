//! Pages that come after the process runs at its target: the host's side of `migrate::fetch`, and of `migrate::sweep`.
//!
//! From: `build.rs`, `depart.rs`. Until a process has all its pages it neither forks nor moves.

use crate::inject::pass_in;
use crate::state::{Body, GuestTable, Host, Process, Shared, UserfaultAccess};
use crate::threads;
use armento_link::{Reader, Writer};
use armento_migrate::image::Kind;
use armento_migrate::postcopy::Fetch;
use armento_migrate::source::Job;
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{HomePid, Pid};
use armento_tracee::inject::{Hold, ok};
use armento_tracee::pages::{self, Run};
use armento_tracee::region::Code;
use armento_tracee::sys;
use armento_tracee::uffd::{DEVICE_NEW, Uffd};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// May pages come after the flip here?
pub fn can(shared: &Shared) -> bool {
    !matches!(shared.userfault, UserfaultAccess::No)
}

/// From now on the held body asks for the pages of `later`. Before: nothing of it runs, and what injected calls
/// touch is there.
pub fn begin(shared: &Shared, h: &mut Hold, code: &Code, b: &Body, later: &[Run]) -> Result<Fetch> {
    let flags = (libc::O_CLOEXEC | libc::O_NONBLOCK) as u64;
    let fd = match &shared.userfault {
        UserfaultAccess::Device(device) => {
            let at = pass_in(h, code, shared.pass.as_raw_fd(), device)?;
            let calls = [
                (libc::SYS_ioctl, [at, DEVICE_NEW, flags, 0, 0, 0]),
                (libc::SYS_close, [at, 0, 0, 0, 0, 0]),
            ];
            h.batch(code, &calls)?[0]
        }
        UserfaultAccess::Call | UserfaultAccess::No => {
            h.call(code, libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0])?
                .0
        }
    };
    let fd = ok("userfaultfd", h.tid, fd)?;
    let ours = sys::steal_fd(b.here, fd as i32);
    h.call(code, libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
    let uffd = Uffd::adopt_asking(ours.local("watch its memory")?).local("watch its memory")?;
    let waits = |run: Run| !pages::both(&[run], later).is_empty();
    for a in b
        .areas
        .iter()
        .filter(|a| a.kind == Kind::Anon && waits(a.run()))
    {
        uffd.begin_filling(a.run()).local("watch its memory")?;
    }
    b.proc.pending_pages.set(true);
    Ok(Fetch::new(
        uffd,
        sys::pidfd_open(b.here).of_process("open its descriptor")?,
        later,
    ))
}

/// Receives the remaining pages. When one does not come `fetch` ends the body, and home is notified as of every end.
pub fn fetch((pid, proc): (HomePid, &Process), fetch: Fetch, (r, w): (&mut Reader, &mut Writer)) {
    if let Err(e) = fetch.run(r, w) {
        eprintln!("process {pid} ends: the rest of its memory was lost with its link: {e}");
    }
    proc.pending_pages.set(false);
}

/// A body that stands still here, while its pages are sent. Home decides meanwhile: it sends Drop when the process runs
/// there, which waits for the end of this, and Abort when it is to go on here.
pub struct PageSource {
    host: Arc<Host>,
    pid: HomePid,
    here: Pid,
}

impl PageSource {
    pub fn begin(host: &Arc<Host>, pid: HomePid, here: Pid) -> PageSource {
        let source = PageSource {
            host: host.clone(),
            pid,
            here,
        };
        source.mark(true);
        source
    }

    fn mark(&self, on: bool) {
        let (pid, here) = (self.pid, self.here);
        self.host.tracer.run(move |guests| {
            let Some(b) = guests.bodies.get_mut(&pid).filter(|b| b.here == here) else {
                return;
            };
            b.serving = on;
            if !on && b.quiet {
                threads::remove_body(guests, pid);
            }
        });
    }
}

impl Drop for PageSource {
    fn drop(&mut self) {
        self.mark(false);
    }
}

/// Sends the rest of a body that stands still here.
pub fn serve(pid: HomePid, job: &mut Job<'_, Reader, Writer>, closer: Option<&TcpStream>) {
    let cut = || drop(closer.map(|c| c.shutdown(Shutdown::Both)));
    // A process that ended at the target needs no more pages.
    if let Err(e) = job.serve(&cut)
        && !matches!(e, MigrateError::Ended)
    {
        eprintln!("process {pid}: the rest of its memory was not sent: {e}");
    }
}

/// Removes a body that home has dropped; one whose pages are still being sent from here goes when they are sent.
pub fn drop_later(guests: &mut GuestTable, pid: HomePid) {
    match guests.bodies.get_mut(&pid) {
        Some(b) if b.serving => {
            b.quiet = true;
            guests.shared.has_changed();
        }
        _ => threads::remove_body(guests, pid),
    }
}
