//! Processes that share memory come home together.
//!
//! From: `move_process.rs`. Next: `home.rs` for each.
//!
//! ```text
//! all at once: pre-copy, freeze · when all stand still: state, memory · then for all: restore, flip
//! ```

use super::group::{about, ended};
use super::outcome::MoveCost;
use super::restore_threads::Fetched;
use super::{home, restore_threads};
use crate::deputy::HostLink;
use crate::sharing::{fetch_objects, objects_away, release_objects};
use crate::state::{Keep, MoveEvent, Tree};
use armento_migrate::{MigrateError, Result};
use armento_model::{MoveId, Pid, Stay};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// A member on its way home, and what the host says of it.
type Homeward = (Pid, MoveId, Receiver<MoveEvent>);

/// One that has come.
pub type Here = (Pid, MoveId, Fetched);

pub fn group_home(keep: &Arc<Keep>, group: &[Pid], link: &Arc<HostLink>) -> Result<MoveCost> {
    let moves: Vec<Homeward> = group
        .iter()
        .map(|pid| {
            let (tx, news) = mpsc::channel();
            (*pid, keep.moves.begin(tx, &[link]), news)
        })
        .collect();
    // All orders before the first freeze: the host knows by then which are to stand still together.
    let orders = moves.iter();
    orders.for_each(|(pid, mv, _)| home::order(keep, *pid, link, *mv));
    let got: Vec<Result<_>> = std::thread::scope(|s| {
        let fetch = |(pid, mv, _): &Homeward| {
            let (pid, mv) = (*pid, *mv);
            let work = move || {
                home::fetch(keep, pid, link, mv).map_err(|e| {
                    // At once: one that is ending ends only then, and the others wait for it.
                    home::give_back(keep, pid, link, mv);
                    about(pid, e)
                })
            };
            std::thread::Builder::new().spawn_scoped(s, work)
        };
        let all: Vec<_> = moves.iter().map(fetch).collect();
        let wait = |t: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| match t {
            Ok(t) => t.join().unwrap_or(Err(MigrateError::Ended)),
            Err(e) => Err(MigrateError::Stays(Stay::NoRoom, e.to_string())),
        };
        all.into_iter().map(wait).collect()
    });
    let away = objects_away(keep, group);
    let mut turn = None;
    let flipped = all_here(keep, &moves, got).and_then(|all| {
        turn = Some(keep.shm_guards.lock_settling());
        fetch_objects(keep, &away)?;
        let bytes = all.iter().map(|(.., f)| f.bytes).sum();
        let frozen = all.iter().map(|(.., f)| f.frozen).min();
        let link = link.clone();
        let flip = move |t: &mut Tree| flip(t, &link, &all);
        let flipped = keep.tracer.run(flip).unwrap_or(Err(MigrateError::Ended));
        flipped.map(|()| MoveCost {
            bytes,
            pause: frozen.map_or(Duration::ZERO, |f| f.elapsed()),
            ..MoveCost::default()
        })
    });
    if flipped.is_ok() {
        release_objects(keep, &away);
    }
    drop(turn);
    for (pid, mv, news) in &moves {
        if flipped.is_err() {
            home::give_back(keep, *pid, link, *mv);
        }
        keep.moves.end(*mv);
        if let (Err(_), Ok(MoveEvent::Failed { stay, detail })) = (&flipped, news.try_recv()) {
            eprintln!("process {pid} of a group: {stay}: {detail}");
        }
    }
    flipped
}

/// What came of each that still lives: one that ended on the way is no hindrance.
fn all_here(keep: &Keep, moves: &[Homeward], got: Vec<Result<Fetched>>) -> Result<Vec<Here>> {
    let mut all = Vec::new();
    for ((pid, mv, _), one) in moves.iter().zip(got) {
        match one {
            Ok(f) => all.push((*pid, *mv, f)),
            Err(_) if ended(keep, *pid) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(all)
}

/// All of them are programs again, or none.
pub fn flip(t: &mut Tree, link: &Arc<HostLink>, all: &[Here]) -> Result<()> {
    let mut dressed: Vec<&Here> = Vec::new();
    for one in all {
        let (pid, _, f) = one;
        match restore_threads::restore_threads(t, *pid, f) {
            Ok(()) => dressed.push(one),
            Err(_) if ended(&t.keep, *pid) => {}
            Err(e) => {
                for (pid, _, f) in dressed {
                    restore_threads::forget_registrations(t, *pid, &f.state);
                }
                return Err(about(*pid, e));
            }
        }
    }
    for (pid, mv, _) in dressed {
        match home::flip(t, *pid, link, *mv) {
            Err(e) if !ended(&t.keep, *pid) => return Err(about(*pid, e)),
            _ => {}
        }
    }
    Ok(())
}
