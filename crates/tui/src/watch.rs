//! Polls the daemon in two threads: one for nodes, one for processes, because those of a whole farm may take seconds.
//!
//! ```text
//!            ┌───────── every delay, or when nudged ────────┐
//!  connect ──┴─► ask ──► Event::Nodes / Event::Procs ───────┤
//!     ▲           └ no answer: Event::Silent ── session lost? ┐
//!     └───────────────────────────────────────────────────────┘
//! ```

use crate::ask::{farm, trouble_of};
use crate::state::{Event, Source};
use crate::trouble::Trouble;
use armento_client::api::{Answer, Ask};
use armento_client::{ANSWER, Again, AskError, Session};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

const SOURCES: [Source; 2] = [Source::Nodes, Source::Procs];

/// The polling threads. They end when their events have no receiver.
pub struct Watch {
    all: Arc<AtomicBool>,
    nudges: Vec<SyncSender<()>>,
}

impl Watch {
    pub fn start(every: Duration, all: bool, events: &SyncSender<Event>) -> Watch {
        let all = Arc::new(AtomicBool::new(all));
        let watch = |source| {
            let (nudge, nudged) = sync_channel(1);
            let one = One {
                source,
                every,
                all: all.clone(),
                events: events.clone(),
                nudged,
            };
            thread::spawn(move || one.run());
            nudge
        };
        Watch {
            nudges: SOURCES.map(watch).into(),
            all,
        }
    }

    /// Processes of the whole farm from now on, or of this home only.
    pub fn all(&self, all: bool) {
        self.all.store(all, Ordering::Relaxed);
        self.now();
    }

    /// Polls without waiting for the interval to pass.
    pub fn now(&self) {
        for nudge in &self.nudges {
            // Full: a poll is pending already.
            if let Err(TrySendError::Disconnected(())) = nudge.try_send(()) {
                return;
            }
        }
    }
}

struct One {
    source: Source,
    every: Duration,
    all: Arc<AtomicBool>,
    events: SyncSender<Event>,
    nudged: Receiver<()>,
}

impl One {
    fn run(self) {
        let mut session = None;
        let mut again = Again::default();
        loop {
            let (told, pause) = match self.poll(&mut session) {
                Ok(event) => {
                    again.found();
                    (event, self.every)
                }
                Err(e) => {
                    if ends(&e) {
                        session = None;
                    }
                    (Event::Silent(self.source, Trouble::from(&e)), again.pause())
                }
            };
            if self.events.send(told).is_err() {
                return;
            }
            if self.nudged.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    fn poll(&self, session: &mut Option<Session>) -> Result<Event, AskError> {
        let session = match session {
            Some(session) => session,
            None => {
                let mut fresh = Session::connect()?;
                // It may be another daemon than before.
                if self.source == Source::Nodes
                    && let Some(farm) = farm(&mut fresh)?
                {
                    let _ = self.events.send(farm);
                }
                session.insert(fresh)
            }
        };
        let ask = match self.source {
            Source::Nodes => Ask::Nodes,
            Source::Procs => Ask::Ps {
                all: self.all.load(Ordering::Relaxed),
            },
        };
        Ok(match session.ask(ask, ANSWER)? {
            Answer::Nodes { nodes } => Event::Nodes(nodes),
            Answer::Ps { procs } => Event::Procs(procs),
            _ => Event::Silent(
                self.source,
                trouble_of("the daemon's answer was not understood"),
            ),
        })
    }
}

/// Whether the session can no longer be used.
fn ends(e: &AskError) -> bool {
    !matches!(e, AskError::Refused(_) | AskError::Late)
}
