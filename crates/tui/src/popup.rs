//! What stands before the panes: a question with its choices, an explanation, a refusal, help.

mod facts;
mod help;

pub use facts::{Fact, explained, known};

use crate::look::{Look, Role};
use crate::nodes::{is_up, natural};
use crate::procs::{Proc, Who};
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
    /// The first line that is shown, or the choice.
    pub at: usize,
}

#[derive(Debug)]
pub enum Body {
    Help,
    /// Of this process; empty until the daemon has told.
    Why(Who, Vec<Fact>),
    Choice(Who, Vec<Choice>),
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
        let title = format!("why {}: {}", proc.who.pid, proc.command);
        Popup {
            title,
            body: Body::Why(proc.who.clone(), Vec::new()),
            at: 0,
        }
    }

    /// Nodes that can be asked for it, those with the least load first.
    pub fn migrate(proc: &Proc, nodes: &[NodeInfo]) -> Popup {
        let Who { home, pid, .. } = &proc.who;
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
        // Where it is already is no proposal.
        let is_there = |c: &Choice| match &c.dest {
            Dest::Node(n) => *n == proc.info.place,
            _ => !proc.is_away(),
        };
        let elsewhere = choices.iter().position(|c| !is_there(c));
        let title = format!("move {pid} to: {}", proc.command);
        Popup {
            title,
            body: Body::Choice(proc.who.clone(), choices),
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
        let title = format!("pin {}{held}: {}", proc.who.pid, proc.command);
        // What it is not yet.
        let at = usize::from(proc.info.locked);
        Popup {
            title,
            body: Body::Choice(proc.who.clone(), choices),
            at,
        }
    }

    /// The last line that can be chosen, or that can come first, where there is room for `rows`.
    pub fn last(&self, look: Look, width: u16, rows: usize) -> usize {
        match &self.body {
            Body::Choice(_, choices) => choices.len().saturating_sub(1),
            _ => self.lines(look, width).len().saturating_sub(rows),
        }
    }

    pub fn lines(&self, look: Look, width: u16) -> Vec<Line<'static>> {
        match &self.body {
            Body::Help => help(look, width),
            Body::Why(_, facts) if facts.is_empty() => vec![Line::from("the daemon is asked")],
            Body::Why(_, facts) => facts
                .iter()
                .flat_map(|f| fact(look, f.0, &f.1, width))
                .collect(),
            Body::Choice(_, choices) => choices.iter().map(|c| choice(look, c, width)).collect(),
            Body::Trouble(t) => {
                let mut lines = fact(look, "", &t.message, width);
                lines.extend(fact(look, "hint", &t.hint, width));
                lines
            }
        }
    }

    /// Keys of this one, for the footer.
    pub fn keys(&self) -> &'static [(&'static str, &'static str)] {
        match self.body {
            Body::Choice(..) => &[
                ("Enter", "does it"),
                ("Esc", "leaves it"),
                ("Up Down", "choose"),
            ],
            _ => &[("Esc", "closes"), ("Up Down", "scroll")],
        }
    }
}

fn choice(look: Look, c: &Choice, width: u16) -> Line<'static> {
    let name = look.fit(&c.text, width);
    let pad = " ".repeat(CHOICE.saturating_sub(Span::raw(&name).width()).max(1));
    let about = look.fit(
        &c.about,
        width.saturating_sub((name.len() + pad.len()) as u16),
    );
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
    fn home_comes_first_then_who_has_least_to_do() {
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
        let Body::Choice(who, choices) = popup.body else {
            panic!("a choice")
        };
        assert_eq!(who, procs[0].who);
        let shown: Vec<&str> = choices.iter().map(|c| c.text.as_str()).collect();
        assert_eq!(shown, ["home", "n3", "n2", "n10"]);
        assert!(
            choices[1].about.ends_with("it is there"),
            "{}",
            choices[1].about
        );
    }
}
