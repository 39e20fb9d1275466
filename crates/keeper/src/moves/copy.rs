//! A process at home is copied, and stands still until it is let go on: a checkpoint of it.
//!
//! From: `keeper/src/saved/save.rs`. Next: `migrate/src/stored.rs`.

use super::departure::Departure;
use super::eligibility;
use super::prepare::{Prepared, prepare, undo};
use crate::state::Keep;
use armento_migrate::image::flags::Noted;
use armento_migrate::pages::PageStore;
use armento_migrate::stored::Taking;
use armento_migrate::{Local, MigrateError, Result, target};
use armento_model::{Pid, Stay};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Copies its memory into `pages` while it runs, then stops it and takes the rest. After `Ok` it stands still, since when
/// is returned: [`go_on_at_home`] lets it go on. After an error it goes on.
pub fn copy_at_home(
    keep: &Arc<Keep>,
    pid: Pid,
    pages: &Arc<Mutex<PageStore>>,
) -> Result<(Taking, Instant)> {
    eligibility::may_leave(keep, pid)?;
    let noted = eligibility::noted(pid)?;
    let prep = keep
        .tracer
        .run(move |t| prepare(t, pid, false))
        .unwrap_or(Err(MigrateError::Ended))?;
    let copied = match prep.at_exec {
        true => {
            let why = "its program is about to begin".into();
            Err(MigrateError::Stays(Stay::Busy, why))
        }
        false => copy(keep, pid, (prep, noted), pages),
    };
    if copied.is_err() {
        go_on_at_home(keep, pid);
    }
    copied
}

/// It goes on as if nothing had been.
pub fn go_on_at_home(keep: &Keep, pid: Pid) {
    keep.tracer.run(move |t| undo(t, pid));
}

/// The source is this thread, the target another one.
fn copy(
    keep: &Arc<Keep>,
    pid: Pid,
    (prep, noted): (Prepared, Noted),
    pages: &Arc<Mutex<PageStore>>,
) -> Result<(Taking, Instant)> {
    let (source, target) = UnixStream::pair().local("make a pair of sockets")?;
    let both =
        |s: UnixStream| Ok::<_, MigrateError>((s.try_clone().local("copy a descriptor")?, s));
    let ((mut r, mut w), (mut reads, mut writes)) = (both(source)?, both(target)?);
    std::thread::scope(|scope| {
        let target = std::thread::Builder::new().spawn_scoped(scope, || {
            let mut taking = Taking::new(pages, None);
            let came = target::receive(&mut reads, &mut writes, &mut taking);
            // A source that still writes is not to wait for ever.
            let _ = reads.shutdown(Shutdown::Both);
            (taking, came)
        });
        let target = target.local("start a thread")?;
        let (sent, frozen) = {
            let mut source = Departure::new(keep, pid, prep, &noted, (&mut r, &mut w));
            (source.send(noted), source.frozen)
        };
        if sent.is_err() {
            let _ = r.shutdown(Shutdown::Both);
        }
        let (taking, came) = target.join().map_err(|_| MigrateError::Ended)?;
        // The target's reason is the better one.
        match (came, sent) {
            (Ok(_), Ok(())) => Ok((taking, frozen)),
            (Err(MigrateError::Link(_)), Err(e)) | (Ok(_), Err(e)) | (Err(e), _) => {
                taking.discard();
                Err(e)
            }
        }
    })
}
