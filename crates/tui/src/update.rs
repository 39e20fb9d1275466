//! Updates of the state by events.

mod keys;
mod mouse;

use crate::popup::{self, Body, Popup};
use crate::procs::{ProcId, follow};
use crate::state::{Action, Event, Question, Source, State, Voice};
use crate::trouble::Trouble;
use armento_client::api::{Answer, Dest, NodeInfo, ProcInfo};
use signal_hook::consts::{SIGCONT, SIGTSTP};
use std::time::Duration;

/// Requests without an answer yet; a move may take two minutes.
pub const PENDING_MAX: usize = 8;
/// Letters of a filter.
const FILTER_MAX: usize = 64;

impl State {
    /// Processes an event at `now`; returns the action that it requires.
    pub fn update(&mut self, now: Duration, event: Event) -> Option<Action> {
        self.now = now;
        match event {
            Event::Key(key) => return self.key(&key),
            Event::Mouse(mouse) => return self.mouse(&mouse),
            Event::Size(size) => self.size = size,
            Event::Farm { farm, node } => (self.farm, self.node) = (farm, Some(node)),
            Event::Nodes(nodes) => self.set_nodes(nodes),
            Event::Procs(procs) => self.set_procs(procs),
            Event::Silent(source, trouble) => self.voice(source).trouble = Some(trouble),
            Event::Answer(question, answer) => {
                self.answered(&question, answer);
                return matches!(question, Question::Migrate(..)).then_some(Action::Look);
            }
            Event::Signal(SIGCONT) => return Some(Action::Redraw),
            Event::Signal(SIGTSTP) => return Some(Action::Suspend),
            Event::Signal(number) => return Some(Action::Die(number)),
            Event::Gone(why) => return Some(Action::Fail(why)),
            Event::Tick => {}
        }
        None
    }

    fn set_answered(&mut self, source: Source) {
        *self.voice(source) = Voice {
            heard: Some(self.now),
            trouble: None,
        };
    }

    fn set_nodes(&mut self, nodes: Vec<NodeInfo>) {
        self.set_answered(Source::Nodes);
        self.nodes = nodes;
        self.rearrange();
    }

    fn set_procs(&mut self, reported: Vec<ProcInfo>) {
        self.set_answered(Source::Procs);
        let procs = follow(&self.procs, reported);
        self.moves.compare(&self.procs, &procs, self.now);
        self.procs = procs;
        self.rearrange();
    }

    /// Orders the lines; a selected line that has gone is no longer selected.
    fn rearrange(&mut self) {
        self.arrange();
        let keys = self.node_keys();
        self.node_list.settle(&keys);
        let keys = self.move_keys();
        self.move_list.settle(&keys);
        let keys = self.proc_keys();
        let was = self.proc_list.chosen.clone();
        if !self.proc_list.settle(&keys)
            && let Some(ProcId { pid, .. }) = &was
        {
            let there = self.procs.iter().any(|p| Some(&p.id) == was.as_ref());
            let how = if there {
                "is not among these lines"
            } else {
                "has ended"
            };
            self.show_note(format!("{pid} {how}"));
        }
    }

    pub fn show_note(&mut self, note: String) {
        self.note = Some((self.now, note));
    }

    fn answered(&mut self, question: &Question, answer: Result<Box<Answer>, Trouble>) {
        if let Some(at) = self.pending.iter().position(|(q, _)| q == question) {
            self.pending.remove(at);
        }
        match question {
            Question::Why(id) => {
                let facts = match &answer {
                    Ok(answer) => popup::explained(answer, &self.procs, self.node.as_ref()),
                    Err(t) => Some(vec![
                        ("unknown", t.message.clone()),
                        ("hint", t.hint.clone()),
                    ]),
                };
                let explained = facts.unwrap_or_else(|| {
                    vec![("unknown", "the daemon's answer was not understood".into())]
                });
                if let Some(Popup {
                    body: Body::Why(asked, facts),
                    ..
                }) = &mut self.popup
                    && asked == id
                {
                    *facts = explained;
                }
            }
            Question::Migrate(id, to) => self.moved(id, to, answer),
        }
    }

    fn moved(&mut self, id: &ProcId, to: &Dest, answer: Result<Box<Answer>, Trouble>) {
        let pid = id.pid;
        match answer {
            Ok(answer) => {
                let words = answer.move_words();
                let note = match to {
                    Dest::Hold => format!("{pid} is held at home until it is let go (p)"),
                    Dest::Balance => format!("{pid} is placed by the farm"),
                    _ => words.unwrap_or_else(|| format!("{pid} is moved")),
                };
                self.show_note(note);
            }
            // A popup would cover what the user is doing.
            Err(t) if self.popup.is_some() || self.typing => self.show_note(t.message),
            Err(t) => self.popup = Some(Popup::trouble(format!("{pid} goes on as before"), t)),
        }
    }
}
