//! Looks at the farm for one browser, once a second while a page is open, and now and then for the history.
//!
//! Next: `web/src/state.rs`.

use crate::history::Point;
use crate::hub::{Hub, NoStream, Watched, unexpected};
use crate::state::Look;
use armento_client::api::{Answer, Ask, Refusal};
use armento_client::{ANSWER, AskError, Session};
use serde_json::json;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two looks: what is shown is a second old at most.
const EVERY: Duration = Duration::from_millis(900);
/// … while no page is open.
const EVERY_UNSEEN: Duration = Duration::from_secs(2);
/// Without a page for so long the watch ends, and its history with it.
const UNSEEN_MAX: Duration = Duration::from_secs(3600);
/// Decisions in one answer.
const LOG_MAX: u32 = 200;

/// The watch for a signed-in browser, which is begun if there is none. Blocks.
pub fn watch(hub: &Arc<Hub>, secret: &str) -> Result<Arc<Watched>, NoStream> {
    let (session, _) = hub.acting(secret).map_err(NoStream::Ask)?;
    let (watched, new) = hub.place(secret)?;
    if !new {
        return Ok(watched);
    }
    let (all, own) = (hub.clone(), watched.clone());
    let thread = thread::Builder::new().name("watch".into());
    if let Err(e) = thread.spawn(move || run(&all, &own, session)) {
        hub.end(&watched, true);
        return Err(NoStream::Ask(AskError::from(e)));
    }
    Ok(watched)
}

/// Returns when the browser is signed out, or has had no page for long.
fn run(hub: &Arc<Hub>, watched: &Watched, session: Session) {
    let mut session = Some(session);
    let mut seen = Instant::now();
    loop {
        let begun = Instant::now();
        match look(hub, watched, &mut session) {
            Ok(()) => {}
            Err(AskError::Refused(no)) if is_over(&no) => {
                let over = json!({ "v": crate::state::VERSION, "over": no });
                let shared = watched.lock();
                watched.send(&over, true);
                drop(shared);
                hub.end(watched, true);
                return;
            }
            Err(e) => {
                session = None;
                let mut shared = watched.lock();
                let lost = shared.state.lose(&e.to_string());
                watched.send(&lost, false);
            }
        }
        if watched.changes.receiver_count() > 0 {
            seen = Instant::now();
        } else if seen.elapsed() > UNSEEN_MAX && hub.end(watched, false) {
            return;
        }
        let pause = || match watched.changes.receiver_count() {
            0 => EVERY_UNSEEN,
            _ => EVERY,
        };
        // A page that opens is not kept waiting for the longer pause.
        while begun.elapsed() < pause() {
            let left = pause().saturating_sub(begun.elapsed());
            thread::sleep(left.min(Duration::from_millis(300)));
        }
    }
}

fn is_over(no: &Refusal) -> bool {
    matches!(no.code.as_str(), "expired" | "wrong-token")
}

fn look(hub: &Hub, watched: &Watched, session: &mut Option<Session>) -> Result<(), AskError> {
    // What a new daemon says is no change of what the last one said.
    let mut anew = session.is_none();
    let session = match session {
        Some(session) => session,
        None => {
            let fresh = hub.acting(&watched.secret)?.0;
            watched.lock().state.restarted();
            session.insert(fresh)
        }
    };
    if watched.lock().state.me.is_empty()
        && let Answer::Status { node, farm, .. } = session.ask(Ask::Status, ANSWER)?
    {
        anew = true;
        let mut shared = watched.lock();
        shared.state.me = node.to_string();
        shared.state.farm = farm;
    }
    let after = watched.lock().state.log_after(now_ms());
    let Answer::Nodes { nodes } = session.ask(Ask::Nodes, ANSWER)? else {
        return Err(unexpected());
    };

    let Answer::Log { entries } = session.ask(log_after(after), ANSWER)? else {
        return Err(unexpected());
    };
    let rows = match session.ask(Ask::Rows, ANSWER)? {
        Answer::Rows {
            rows,
            left_out,
            silent,
        } => Some((rows, left_out, silent)),
        _ => return Err(unexpected()),
    };
    let look = Look {
        nodes,
        rows,
        log: entries,
    };
    let now = now_ms();
    let mut locked = watched.lock();
    let shared = &mut *locked;
    let mut said = shared.state.take(look, now);
    hub.loads().add(now, shared.state.loads());
    if shared.counts.is_due(now) {
        let state = &mut shared.state;
        let point = Point {
            at_ms: now,
            moves: std::mem::take(&mut state.moved),
            pause_us: std::mem::take(&mut state.pause_us),
            forwarded: std::mem::take(&mut state.forwarded),
        };
        shared.counts.add(point);
        said["point"] = json!({
            "t": now, "moves": point.moves, "pause_us": point.pause_us, "forwarded": point.forwarded,
        });
    }
    let said = if anew { shared.state.full() } else { said };
    watched.send(&said, false);
    Ok(())
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
/// The newest decisions after that one.
fn log_after(after: u64) -> Ask {
    Ask::Log {
        after,
        count: LOG_MAX,
        since_ms: 0,
        pid: None,
    }
}
