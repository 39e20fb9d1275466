//! What keys ask of the daemon, a thread and a session each: a move takes as long as it takes.

use crate::state::{Event, Question};
use crate::trouble::Trouble;
use armento_client::api::{Answer, Ask};
use armento_client::{ANSWER, AskError, MOVE, Session};
use std::sync::mpsc::SyncSender;
use std::thread;

/// Before: fewer than `PENDING_MAX` are under way; the state sees to that.
pub fn ask(question: Question, events: &SyncSender<Event>) {
    let events = events.clone();
    thread::spawn(move || {
        let answer = put(&question).map(Box::new);
        let answer = answer.map_err(|e| Trouble::from(&e));
        // Nobody listens: the screen has ended.
        let _ = events.send(Event::Answer(question, answer));
    });
}

fn put(question: &Question) -> Result<Answer, AskError> {
    let mut session = Session::connect()?;
    match question.clone() {
        Question::Why(who) => session.ask(Ask::Why { pid: who.pid }, ANSWER),
        Question::Migrate(who, to) => session.ask(Ask::Migrate { pid: who.pid, to }, MOVE),
    }
}

/// Who the daemon is; `None` if it does not say.
pub fn farm(session: &mut Session) -> Result<Option<Event>, AskError> {
    Ok(match session.ask(Ask::Status, ANSWER)? {
        Answer::Status { node, farm, .. } => Some(Event::Farm { farm, node }),
        _ => None,
    })
}

pub fn trouble_of(message: &str) -> Trouble {
    let hint = "is it of the same version? see `armento --version` and the daemon's log";
    Trouble {
        message: message.into(),
        hint: hint.into(),
    }
}
