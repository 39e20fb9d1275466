//! The first connection of home, and how far its clock is ahead.
//!
//! From: `host/src/start.rs`, while this process has one thread. Next: `messages.rs`.

use super::connections::{admit, opened};
use crate::state::{HomeLink, HomeReader};
use armento_client::api::HostStart;
use armento_link::{Listener, Role, Writer};
use armento_tracee::sys as tsys;
use armento_wire::session;
use armento_wire::talk::{self as wire, Purpose, TALK, ToHome, ToHost};
use std::sync::Arc;
use std::time::Duration;

/// Clocks nearer than this are one clock: both nodes run on one kernel, or the link's delay is larger than the difference.
const SAME_CLOCK_NS: i64 = 50_000_000;
/// Home is asked for its clock at most so often, until an answer comes so quickly; each may take so long.
const CLOCK_ASKED: usize = 8;
const CLOCK_GOOD_NS: i64 = 500_000;
const CLOCK_MAX: Duration = Duration::from_secs(10);
/// Most messages of home before the answer to the first question for its clock.
const EARLY_MAX: usize = 256;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Home, when its hello has come.
pub struct FirstConnection {
    pub home: Arc<HomeLink>,
    pub reader: HomeReader,
    /// Messages that came before its clock.
    pub early: Vec<ToHost>,
    /// How far home's CLOCK_MONOTONIC is ahead, nanoseconds; 0 when both clocks are one.
    pub clock_ahead: i64,
}

pub fn await_home(listening: &Listener, start: &HostStart) -> Result<FirstConnection, Failure> {
    let mut met: Option<Arc<HomeLink>> = None;
    let mut early = Vec::new();
    loop {
        let Ok((link, peer)) = admit(listening, start) else {
            continue;
        };
        let Ok((h, socket, r, w)) = opened(link) else {
            continue;
        };
        let Purpose::Calls(resume) = h.purpose else {
            continue;
        };
        if h.tree != start.tree || peer.role != Role::Keeper {
            continue;
        }
        let known = met.get_or_insert_with(|| {
            Arc::new(HomeLink::new(
                h.engine,
                &resume,
                (start.freeze_ms, start.dead_ms),
            ))
        });
        let home = known.clone();
        let options = socket.try_clone()?;
        let Some(claim) = home.claim(&resume) else {
            continue;
        };
        let Ok(mut reader) = home.take_up(&resume, (socket, r, w)) else {
            continue;
        };
        let mut ahead = h.monotonic_ns as i64 - now_ns()?;
        if ahead.abs() >= SAME_CLOCK_NS {
            // Another clock, or a hello that waited for its reader.
            options.set_read_timeout(Some(CLOCK_MAX))?;
            let Ok(asked) = home_ahead(&home.session, &mut reader, &mut early) else {
                home.session.cut();
                continue;
            };
            options.set_read_timeout(None)?;
            ahead = asked;
        }
        let clock_ahead = if ahead.abs() < SAME_CLOCK_NS {
            0
        } else {
            ahead
        };
        drop(claim);
        return Ok(FirstConnection {
            home,
            reader,
            early,
            clock_ahead,
        });
    }
}

fn now_ns() -> std::io::Result<i64> {
    Ok(tsys::clock_ns(libc::CLOCK_MONOTONIC)? as i64)
}

/// How far home's clock is ahead: of several questions the one that was answered quickest is the most
/// exact, to half of its round trip. PAPER: Cristian, Probabilistic clock synchronization, 1989.
/// Other messages that come meanwhile are kept for later.
fn home_ahead(
    session: &session::Session<Writer>,
    r: &mut HomeReader,
    early: &mut Vec<ToHost>,
) -> Result<i64, Failure> {
    let (mut best, mut buf) = (None, Vec::new());
    for _ in 0..CLOCK_ASKED {
        let asked = now_ns()?;
        let asked_ns = asked as u64;
        session.send(TALK, &[&wire::encode(&ToHome::Clock { asked_ns })])?;
        let home = loop {
            if session.hear(r, &mut buf)? != TALK {
                return Err("not a message".into());
            }
            match wire::decode::<ToHost>(&buf, "message")? {
                ToHost::Clock { asked_ns: n, ns } if n == asked_ns => break ns as i64,
                // The answer to a question over a connection that broke.
                ToHost::Alive | ToHost::Clock { .. } => {}
                other if early.len() < EARLY_MAX => early.push(other),
                _ => return Err("not the time".into()),
            }
        };
        let trip = now_ns()? - asked;
        let seen = (trip, home - (asked + trip / 2));
        best = Some(best.map_or(seen, |b| seen.min(b)));
        if trip < CLOCK_GOOD_NS {
            break;
        }
    }
    Ok(best.map_or(0, |(_, ahead)| ahead))
}
