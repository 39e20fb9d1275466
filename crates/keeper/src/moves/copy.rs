//! A process at home is copied, and stands still until it is let go on: a checkpoint of it.
//!
//! From: `keeper/src/saved/save.rs`. Next: `migrate/src/stored.rs`.

use super::departure::Departure;
use super::eligibility;
use super::prepare::{Company, Prepared, prepare, undo};
use crate::state::Keep;
use armento_migrate::image::flags::Noted;
use armento_migrate::image::objects::Views;
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
    let prepared = begin(keep, pid, Company::Alone)?;
    let mut taking = Taking::new(pages, None);
    let copied = copy(keep, pid, prepared, (&mut taking, None));
    match copied {
        Ok(frozen) => Ok((taking, frozen)),
        Err(e) => {
            taking.discard();
            go_on_at_home(keep, pid);
            Err(e)
        }
    }
}

fn begin(keep: &Arc<Keep>, pid: Pid, company: Company) -> Result<(Prepared, Noted)> {
    eligibility::may_leave(keep, pid, company.aim())?;
    let noted = eligibility::noted(pid)?;
    let prep = keep
        .tracer
        .run(move |t| prepare(t, pid, company))
        .unwrap_or(Err(MigrateError::Ended))?;
    if prep.at_exec {
        go_on_at_home(keep, pid);
        let why = "its program is about to begin".into();
        return Err(MigrateError::Stays(Stay::Busy, why));
    }
    Ok((prep, noted))
}

/// One that stands still, to be copied with those that share its memory.
pub struct Halted {
    pub pid: Pid,
    prepared: (Prepared, Noted),
    since: Instant,
}

/// Stops it. After `Ok` it stands still: [`go_on_at_home`] lets it go on.
pub fn halt_at_home(keep: &Arc<Keep>, pid: Pid) -> Result<Halted> {
    Ok(Halted {
        pid,
        prepared: begin(keep, pid, Company::Checkpoint)?,
        since: Instant::now(),
    })
}

impl Halted {
    /// Copies it. Before: all that share its memory stand still. `others`: what of that is copied already; what is copied with
    /// this one is added. It stands still afterwards, also after an error.
    pub fn copy(
        self,
        keep: &Arc<Keep>,
        others: &mut Views,
        pages: &Arc<Mutex<PageStore>>,
    ) -> Result<(Taking, Instant)> {
        let mut taking = Taking::joint(pages);
        match copy(keep, self.pid, self.prepared, (&mut taking, Some(others))) {
            Ok(_) => Ok((taking, self.since)),
            Err(e) => {
                taking.discard();
                Err(e)
            }
        }
    }
}

/// It goes on as if nothing had been: since when.
pub fn go_on_at_home(keep: &Keep, pid: Pid) -> Option<Instant> {
    keep.tracer.run(move |t| undo(t, pid)).flatten()
}

/// The source is this thread, the target another one. Returns since when it stands still.
fn copy(
    keep: &Arc<Keep>,
    pid: Pid,
    (prep, noted): (Prepared, Noted),
    (taking, others): (&mut Taking, Option<&mut Views>),
) -> Result<Instant> {
    let (source, target) = UnixStream::pair().local("make a pair of sockets")?;
    let both =
        |s: UnixStream| Ok::<_, MigrateError>((s.try_clone().local("copy a descriptor")?, s));
    let ((mut r, mut w), (mut reads, mut writes)) = (both(source)?, both(target)?);
    std::thread::scope(|scope| {
        let target = std::thread::Builder::new().spawn_scoped(scope, || {
            let came = target::receive(&mut reads, &mut writes, taking);
            // A source that still writes is not to wait for ever.
            let _ = reads.shutdown(Shutdown::Both);
            came
        });
        let target = target.local("start a thread")?;
        let (sent, frozen) = {
            let mut source = Departure::new(keep, pid, prep, &noted, (&mut r, &mut w));
            if let Some(others) = &others {
                source = source.with_sharers((**others).clone());
            }
            let sent = source.send(noted);
            if let Some(others) = others {
                *others = std::mem::take(&mut source.others);
            }
            (sent, source.frozen)
        };
        if sent.is_err() {
            let _ = r.shutdown(Shutdown::Both);
        }
        let came = target.join().map_err(|_| MigrateError::Ended)?;
        // The target's reason is the better one.
        match (came, sent) {
            (Ok(_), Ok(())) => Ok(frozen),
            (Err(MigrateError::Link(_)), Err(e)) | (Ok(_), Err(e)) | (Err(e), _) => Err(e),
        }
    })
}
