//! Processes whose bodies are in a checkpoint begin at home, together: they share memory, which one of them must not see
//! before the others are there.
//!
//! From: `keeper/src/saved/restart.rs`, behind `vacate.rs`. Next: `restore_threads.rs`.

use super::group_home;
use super::home::{fetch_kept, give_back};
use super::restore_threads::Fetched;
use crate::deputy::HostLink;
use crate::safe::send_kept;
use crate::state::{Keep, Kept, Tree};
use armento_migrate::image::objects::ObjectId;
use armento_migrate::{MigrateError, Result};
use armento_model::{MoveId, Pid};
use std::collections::HashSet;
use std::sync::{Arc, mpsc};

/// A process with its memory, which stands still.
pub struct Begun {
    pub pid: Pid,
    mv: MoveId,
    link: Arc<HostLink>,
    got: Fetched,
}

/// Before: the process has made room, for a body at `link`; there will be none. `known`: shared memory whose content is there
/// already. After an error it cannot go on.
pub fn begin_at_home(
    keep: &Arc<Keep>,
    pid: Pid,
    link: &Arc<HostLink>,
    (kept, known): (&Kept, HashSet<ObjectId>),
) -> Result<Begun> {
    let (tx, _) = mpsc::channel();
    let mv = keep.moves.begin(tx, &[link]);
    let engine = link.pass.common_engine();
    let got = fetch_kept(keep, pid, known, |r, w| {
        send_kept(keep, engine, (r, w), (kept, Vec::new()))
    });
    match got {
        Ok(got) => Ok(Begun {
            pid,
            mv,
            link: link.clone(),
            got,
        }),
        Err(e) => {
            give_back(keep, pid, link, mv);
            Err(e)
        }
    }
}

/// All of them are programs again, or none.
pub fn go_on_together(keep: &Arc<Keep>, all: Vec<Begun>) -> Result<()> {
    let Some(link) = all.first().map(|b| b.link.clone()) else {
        return Ok(());
    };
    let moves: Vec<MoveId> = all.iter().map(|b| b.mv).collect();
    let all: Vec<_> = all.into_iter().map(|b| (b.pid, b.mv, b.got)).collect();
    let flip = move |t: &mut Tree| group_home::flip(t, &link, &all);
    let done = keep.tracer.run(flip).unwrap_or(Err(MigrateError::Ended));
    moves.into_iter().for_each(|mv| keep.moves.end(mv));
    done
}
