//! Signed-in browsers: each is watched for by one control session, whose changes all of its pages get.
//!
//! Locks: `Hub::watched` before `Watched::shared`; `Hub::loads` alone.

use crate::history::{Counts, Loads};
use crate::state::State;
use armento_client::api::{Answer, Ask, Refusal, WebSession};
use armento_client::{ANSWER, AskError, Session};
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;

/// Browsers at once.
const BROWSERS_MAX: usize = 64;
/// Pages of one browser at once.
const PAGES_MAX: usize = 8;
/// Messages that a page may be behind; then it gets everything anew.
const BEHIND_MAX: usize = 8;

/// A message to the pages of a browser.
#[derive(Clone)]
pub struct News {
    pub text: Arc<str>,
    /// The browser is signed out: nothing comes after it.
    pub last: bool,
}

/// What is known for one browser, and its pages.
pub struct Watched {
    pub secret: String,
    pub shared: Mutex<Shared>,
    /// Messages to its pages; sent under the lock of `shared`, so that a new page misses none.
    pub changes: broadcast::Sender<News>,
}

#[derive(Default)]
pub struct Shared {
    pub state: State,
    pub counts: Counts,
}

impl Watched {
    pub fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything, and the changes from then on.
    pub fn join(&self) -> (Arc<str>, broadcast::Receiver<News>) {
        let shared = self.lock();
        let changes = self.changes.subscribe();
        (text(&shared.state.full()), changes)
    }

    /// To all its pages, of which there may be none. Before: `shared` is locked.
    pub fn send(&self, message: &Value, last: bool) {
        let text = text(message);
        let _ = self.changes.send(News { text, last });
    }

    pub fn full(&self) -> Arc<str> {
        text(&self.lock().state.full())
    }
}

fn text(message: &Value) -> Arc<str> {
    message.to_string().into()
}

pub struct Hub {
    socket: PathBuf,
    watched: Mutex<HashMap<String, Arc<Watched>>>,
    pub loads: Mutex<Loads>,
}

/// Why a page gets no stream.
pub enum NoStream {
    Ask(AskError),
    /// Too many browsers, or pages of this one.
    Full,
}

impl Hub {
    pub fn new(socket: PathBuf) -> Arc<Hub> {
        Arc::new(Hub {
            socket,
            watched: Mutex::default(),
            loads: Mutex::default(),
        })
    }

    /// A control session without rights. Blocks.
    pub fn session(&self) -> Result<Session, AskError> {
        Session::connect_to(&self.socket)
    }

    /// A control session that acts for a browser, and whom it acts for. Blocks.
    pub fn acting(&self, secret: &str) -> Result<(Session, WebSession), AskError> {
        let mut session = self.session()?;
        let secret = secret.to_owned();
        match session.ask(Ask::Act { secret }, ANSWER)? {
            Answer::WebSession(who) => Ok((session, who)),
            _ => Err(unexpected()),
        }
    }

    /// Asks for a browser, on a session of its own. Blocks.
    pub fn ask(&self, secret: &str, ask: Ask, limit: Duration) -> Result<Answer, AskError> {
        self.acting(secret)?.0.ask(ask, limit)
    }

    /// A place for a browser; true if it is new, so that its farm is to be watched. Before: the daemon knows the browser.
    pub fn place(&self, secret: &str) -> Result<(Arc<Watched>, bool), NoStream> {
        let mut all = self.all();
        if let Some(known) = all.get(secret) {
            let room = known.changes.receiver_count() < PAGES_MAX;
            return room.then(|| (known.clone(), false)).ok_or(NoStream::Full);
        }
        if all.len() >= BROWSERS_MAX {
            return Err(NoStream::Full);
        }
        let watched = Arc::new(Watched {
            secret: secret.to_owned(),
            shared: Mutex::default(),
            changes: broadcast::Sender::new(BEHIND_MAX),
        });
        all.insert(secret.to_owned(), watched.clone());
        Ok((watched, true))
    }

    /// What is known for a browser, if its farm is watched.
    pub fn known(&self, secret: &str) -> Option<Arc<Watched>> {
        self.all().get(secret).cloned()
    }

    /// The watch has ended, unless a page has come meanwhile and it is not `over`.
    pub fn end(&self, watched: &Watched, over: bool) -> bool {
        let mut all = self.all();
        if !over && watched.changes.receiver_count() > 0 {
            return false;
        }
        all.remove(&watched.secret);
        true
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Watched>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn loads(&self) -> MutexGuard<'_, Loads> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub fn unexpected() -> AskError {
    AskError::Refused(Refusal {
        code: "unknown-answer".into(),
        message: "the daemon's answer was not understood".into(),
        hint: "start the daemon again: it is of another version than this server".into(),
    })
}
