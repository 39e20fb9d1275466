//! Requests to the daemon that keys make. Each has a thread and a session of its own: a move may take long.

use crate::state::{Event, Question};
use crate::trouble::Trouble;
use armento_client::api::{Answer, Ask};
use armento_client::{ANSWER, AskError, MOVE, Session};
use std::sync::mpsc::SyncSender;
use std::thread;

/// Before: fewer than `PENDING_MAX` requests are pending; the state guarantees that.
pub fn ask(question: Question, events: &SyncSender<Event>) {
    let events = events.clone();
    thread::spawn(move || {
        let answer = send_request(&question).map(Box::new);
        let answer = answer.map_err(|e| Trouble::from(&e));
        // The receiver is gone: the screen has ended.
        let _ = events.send(Event::Answer(question, answer));
    });
}

fn send_request(question: &Question) -> Result<Answer, AskError> {
    let mut session = Session::connect()?;
    match question.clone() {
        Question::Why(id) => session.ask(Ask::Why { pid: id.pid }, ANSWER),
        Question::Migrate(id, to) => session.ask(Ask::Migrate { pid: id.pid, to }, MOVE),
    }
}

/// The daemon's farm and node; `None` if it does not send them.
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
