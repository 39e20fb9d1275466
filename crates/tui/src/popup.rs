//! Boxes over the panes: a question with its choices, an explanation, a refusal, help.

mod facts;
mod help;

pub use facts::{Fact, explained, known};

use crate::look::{Look, Role};
use crate::nodes::{is_up, natural};
use crate::procs::{Proc, ProcId};
use crate::trouble::Trouble;
use armento_client::api::{Dest, NodeInfo};
use armento_model::{NodeName, size};
use facts::{LABEL, fact};
use help::help;
use ratatui::text::{Line, Span};

#[derive(Debug)]
pub struct Popup {
    pub title: String,
    pub body: Body,
    /// The first line that is shown, or the selected choice.
    pub at: usize,
}

#[derive(Debug)]
pub enum Body {
    Help,
    /// The reason for this process; empty until the daemon has answered.
    Why(ProcId, Vec<Fact>),
    Choice(ProcId, Vec<Choice>),
    /// Columns to sort by: number, head, meaning.
    Sort(Vec<(usize, &'static str, &'static str)>),
    Trouble(Trouble),
}

#[derive(Debug)]
pub struct Choice {
    pub dest: Dest,
    pub text: String,
    /// More about it.
    pub about: String,
}

/// Cells of a choice.
const CHOICE: usize = LABEL + 4;

impl Popup {
    pub fn help() -> Popup {
        Popup {
            title: "armento top: keys and columns".into(),
            body: Body::Help,
            at: 0,
        }
    }

    pub fn trouble(title: String, trouble: Trouble) -> Popup {
        Popup {
            title,
            body: Body::Trouble(trouble),
            at: 0,
        }
    }

    pub fn why(proc: &Proc) -> Popup {
        let title = format!("why {}: {}", proc.id.pid, proc.command);
        Popup {
            title,
            body: Body::Why(proc.id.clone(), Vec::new()),
            at: 0,
        }
    }

    /// `columns`: number, head, meaning; sorted by `sort` now.
    pub fn sort(columns: Vec<(usize, &'static str, &'static str)>, sort: usize) -> Popup {
        let at = columns.iter().position(|(i, _, _)| *i == sort);
        Popup {
            title: "sort by (the same again: the other way round)".into(),
            body: Body::Sort(columns),
            at: at.unwrap_or(0),
        }
    }

    /// Whether one of its lines is selected.
    pub fn chooses(&self) -> bool {
        matches!(self.body, Body::Choice(..) | Body::Sort(_))
    }

    /// Nodes that it can be moved to, those with the least load first.
    pub fn migrate(proc: &Proc, nodes: &[NodeInfo]) -> Popup {
        let ProcId { home, pid, .. } = &proc.id;
        let here = |n: &NodeName| {
            if *n == proc.info.place {
                "; it is there"
            } else {
                ""
            }
        };
        let about = |n: &NodeInfo| {
            let free = size(n.mem_free_kib);
            format!(
                "load {:.2}, {} cores, {free} free{}",
                n.load,
                n.cores,
                here(&n.name)
            )
        };
        let mut others: Vec<&NodeInfo> = nodes
            .iter()
            .filter(|n| n.name != *home && is_up(n))
            .collect();
        others.sort_by(|a, b| {
            a.load
                .total_cmp(&b.load)
                .then_with(|| natural(a.name.as_str(), b.name.as_str()))
        });
        let own = nodes.iter().find(|n| n.name == *home);
        let first = Choice {
            dest: Dest::Home,
            text: "home".into(),
            about: own.map_or_else(String::new, |n| format!("{}: {}", n.name, about(n))),
        };
        let other = |n: &NodeInfo| Choice {
            dest: Dest::Node(n.name.clone()),
            text: n.name.to_string(),
            about: about(n),
        };
        let choices: Vec<Choice> = std::iter::once(first)
            .chain(others.into_iter().map(other))
            .collect();
        // Where it already is is not proposed.
        let is_there = |c: &Choice| match &c.dest {
            Dest::Node(n) => *n == proc.info.place,
            _ => !proc.is_away(),
        };
        let elsewhere = choices.iter().position(|c| !is_there(c));
        let title = format!("move {pid} to: {}", proc.command);
        Popup {
            title,
            body: Body::Choice(proc.id.clone(), choices),
            at: elsewhere.unwrap_or(0),
        }
    }

    pub fn pin(proc: &Proc) -> Popup {
        let choice = |dest, text: &str, about: &str| Choice {
            dest,
            text: text.into(),
            about: about.into(),
        };
        let choices = vec![
            choice(
                Dest::Hold,
                "hold",
                "home, and there it stays, untraced, for a debugger",
            ),
            choice(
                Dest::Balance,
                "let go",
                "the farm chooses again where it runs",
            ),
        ];
        let held = if proc.info.locked {
            " (it is held or locked)"
        } else {
            ""
        };
        let title = format!("pin {}{held}: {}", proc.id.pid, proc.command);
        // The state that it is not in.
        let at = usize::from(proc.info.locked);
        Popup {
            title,
            body: Body::Choice(proc.id.clone(), choices),
            at,
        }
    }

    /// The last line that can be selected, or be first, in a window of `rows`.
    pub fn last(&self, look: Look, width: u16, rows: usize) -> usize {
        match &self.body {
            Body::Choice(_, choices) => choices.len().saturating_sub(1),
            Body::Sort(columns) => columns.len().saturating_sub(1),
            _ => self.lines(look, width).len().saturating_sub(rows),
        }
    }

    pub fn lines(&self, look: Look, width: u16) -> Vec<Line<'static>> {
        match &self.body {
            Body::Help => help(look, width),
            Body::Why(_, facts) if facts.is_empty() => vec![Line::from("asking the daemon")],
            Body::Why(_, facts) => facts
                .iter()
                .flat_map(|f| fact(look, f.0, &f.1, width))
                .collect(),
            Body::Choice(_, choices) => choices
                .iter()
                .map(|c| choice(look, (&c.text, &c.about), width))
                .collect(),
            Body::Sort(columns) => columns
                .iter()
                .map(|(_, head, about)| choice(look, (head, about), width))
                .collect(),
            Body::Trouble(t) => {
                let mut lines = fact(look, "", &t.message, width);
                lines.extend(fact(look, "hint", &t.hint, width));
                lines
            }
        }
    }

    /// Its keys, for the footer.
    pub fn keys(&self) -> &'static [(&'static str, &'static str)] {
        match self.body {
            Body::Choice(..) | Body::Sort(_) => &[
                ("Enter", "does it"),
                ("Esc", "leaves it"),
                ("Up Down", "choose"),
            ],
            _ => &[("Esc", "closes"), ("Up Down", "scroll")],
        }
    }
}

fn choice(look: Look, (text, about): (&str, &str), width: u16) -> Line<'static> {
    let name = look.fit(text, width);
    let pad = " ".repeat(CHOICE.saturating_sub(Span::raw(&name).width()).max(1));
    let about = look.fit(about, width.saturating_sub((name.len() + pad.len()) as u16));
    Line::from(vec![
        look.span(name, Role::Head),
        Span::raw(pad),
        Span::raw(about),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procs::follow;
    use crate::tests::{node, proc};

    #[test]
    fn choices_are_home_then_nodes_by_load() {
        let procs = follow(&[], vec![proc(7, "n1", "n3")]);
        let mut nodes = [
            node("n1", 0.1),
            node("n10", 0.5),
            node("n2", 0.5),
            node("n3", 0.2),
            node("n4", 0.0),
        ];
        nodes[4].state = "down".into();
        let popup = Popup::migrate(&procs[0], &nodes);
        let Body::Choice(id, choices) = popup.body else {
            panic!("a choice")
        };
        assert_eq!(id, procs[0].id);
        let shown: Vec<&str> = choices.iter().map(|c| c.text.as_str()).collect();
        assert_eq!(shown, ["home", "n3", "n2", "n10"]);
        assert!(
            choices[1].about.ends_with("it is there"),
            "{}",
            choices[1].about
        );
    }
}
