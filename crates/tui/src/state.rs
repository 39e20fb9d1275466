//! The state of the screen, its events and its actions. No clock, no I/O: events bring both.

use crate::forest::forest;
use crate::layout::{self, Areas, Pane};
use crate::list::List;
use crate::look::Look;
use crate::moves::Moves;
use crate::popup::Popup;
use crate::procs::{Proc, ProcId};
use crate::trouble::Trouble;
use crate::{nodes, procs};
use armento_client::api::{Answer, Dest, NodeInfo, ProcInfo};
use armento_model::NodeName;
use ratatui::crossterm::event::{KeyEvent, MouseEvent};
use ratatui::layout::Size;
use std::cmp::Ordering;
use std::time::Duration;

/// Data that the daemon has not repeated for this long, beside the interval between two requests, is shown as old.
const SILENT: Duration = Duration::from_secs(4);
/// A note disappears after this long.
const NOTE: Duration = Duration::from_secs(10);

/// What happened.
#[derive(Debug)]
pub enum Event {
    Key(KeyEvent),
    Mouse(MouseEvent),
    /// Columns and rows of the terminal.
    Size(Size),
    /// The daemon's farm and node.
    Farm {
        farm: String,
        node: NodeName,
    },
    Nodes(Vec<NodeInfo>),
    Procs(Vec<ProcInfo>),
    /// The daemon did not answer this request.
    Silent(Source, Trouble),
    Answer(Question, Result<Box<Answer>, Trouble>),
    /// The number of a signal that was caught.
    Signal(i32),
    /// Keys cannot be read any more, for that reason.
    Gone(String),
    /// Only the time has changed.
    Tick,
}

/// Requests that are repeated at intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Nodes,
    Procs,
}

/// Requests that keys make.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    Why(ProcId),
    Migrate(ProcId, Dest),
}

/// Actions that the event loop carries out.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Quit,
    /// End as the signal of that number would end the process.
    Die(i32),
    /// The terminal cannot be used.
    Fail(String),
    /// Ctrl-Z.
    Suspend,
    /// Another program wrote to the terminal.
    Redraw,
    /// Ask the daemon now: something was changed.
    Look,
    /// Watch processes of the whole farm, or of this home only.
    All(bool),
    /// Never more than `update::PENDING_MAX` at once.
    Ask(Question),
}

/// When one of the sources last answered.
#[derive(Debug, Default)]
pub struct Voice {
    pub heard: Option<Duration>,
    /// The error since the last answer.
    pub trouble: Option<Trouble>,
}

pub struct State {
    pub look: Look,
    pub size: Size,
    /// On the screen's own clock.
    pub now: Duration,
    every: Duration,
    pub farm: String,
    pub node: Option<NodeName>,
    /// Whether processes of the whole farm are shown.
    pub all: bool,
    /// Processes stand below their parents.
    pub tree: bool,
    /// The process on which the mouse button was pressed.
    pub dragged: Option<ProcId>,
    pub nodes: Vec<NodeInfo>,
    pub procs: Vec<Proc>,
    pub moves: Moves,
    /// Those that are shown, in their order.
    pub node_lines: Vec<usize>,
    pub proc_lines: Vec<usize>,
    pub node_list: List<NodeName>,
    pub proc_list: List<ProcId>,
    pub move_list: List<u64>,
    pub pane: Pane,
    /// Whether keys go to the filter.
    pub typing: bool,
    pub popup: Option<Popup>,
    pub note: Option<(Duration, String)>,
    pub pending: Vec<(Question, Duration)>,
    voices: [Voice; 2],
}

impl State {
    /// `every`: interval between two snapshots of the farm.
    pub fn new(look: Look, size: Size, every: Duration, all: bool) -> State {
        let by_cpu = procs::COLUMNS
            .iter()
            .position(|c| c.head == "CPU%")
            .unwrap_or(0);
        State {
            look,
            size,
            now: Duration::ZERO,
            every,
            farm: String::new(),
            node: None,
            all,
            tree: false,
            dragged: None,
            nodes: Vec::new(),
            procs: Vec::new(),
            moves: Moves::default(),
            node_lines: Vec::new(),
            proc_lines: Vec::new(),
            node_list: List::new(0, false),
            proc_list: List::new(by_cpu, true),
            move_list: List::new(0, false),
            pane: Pane::Procs,
            typing: false,
            popup: None,
            note: None,
            pending: Vec::new(),
            voices: Default::default(),
        }
    }

    /// `None`: a terminal of that size is too small.
    pub fn areas(&self, size: Size) -> Option<Areas> {
        layout::areas(size, self.pane, self.nodes.len())
    }

    pub fn voice(&mut self, source: Source) -> &mut Voice {
        &mut self.voices[source as usize]
    }

    /// How long the daemon has not answered `source`, when that is too long, and its error.
    pub fn silence(&self, source: Source) -> Option<(Duration, Option<&Trouble>)> {
        let voice = &self.voices[source as usize];
        let since = self.now.saturating_sub(voice.heard.unwrap_or_default());
        let late = since > self.every + SILENT;
        (voice.trouble.is_some() || late).then_some((since, voice.trouble.as_ref()))
    }

    pub fn note(&self) -> Option<&str> {
        let (at, text) = self.note.as_ref()?;
        (self.now.saturating_sub(*at) < NOTE).then_some(text)
    }

    /// Sorts and filters again.
    pub fn arrange(&mut self) {
        let list = &self.node_list;
        let filter = list.filter.to_lowercase();
        let shown = |n: &NodeInfo| {
            let words = [n.name.as_str(), &n.state, &n.addr];
            words.iter().any(|w| w.to_lowercase().contains(&filter))
        };
        let tie = nodes::COLUMNS[0].order;
        let order = (nodes::COLUMNS[list.sort].order, list.falls);
        self.node_lines = lines(&self.nodes, shown, order, tie);

        let list = &self.proc_list;
        let shown = |p: &Proc| p.passes(&list.filter);
        let tie = |a: &Proc, b: &Proc| (&a.id.home, a.id.pid).cmp(&(&b.id.home, b.id.pid));
        let order = (procs::COLUMNS[list.sort].order, list.falls);
        self.proc_lines = lines(&self.procs, shown, order, tie);
        let drawn = self.procs.iter_mut().filter(|p| !p.branch.is_empty());
        drawn.for_each(|p| p.branch.clear());
        if self.tree {
            self.branch_out();
        }
    }

    /// The lines of processes as a forest; siblings keep their order.
    fn branch_out(&mut self) {
        let family = |i: &usize| {
            let p = &self.procs[*i].info;
            ((&p.home, p.pid), (&p.home, p.ppid))
        };
        let families: Vec<_> = self.proc_lines.iter().map(family).collect();
        let order = forest(&families);
        let lines = &self.proc_lines;
        let drawn: Vec<(usize, String)> = order.into_iter().map(|(n, b)| (lines[n], b)).collect();
        self.proc_lines = drawn.iter().map(|(i, _)| *i).collect();
        for (i, branch) in drawn {
            self.procs[i].branch = branch;
        }
    }

    pub fn node_keys(&self) -> Vec<NodeName> {
        self.node_lines
            .iter()
            .map(|i| self.nodes[*i].name.clone())
            .collect()
    }

    pub fn proc_keys(&self) -> Vec<ProcId> {
        self.proc_lines
            .iter()
            .map(|i| self.procs[*i].id.clone())
            .collect()
    }

    pub fn move_keys(&self) -> Vec<u64> {
        self.moves.history().iter().map(|m| m.number).collect()
    }

    /// The process that keys act on: selected itself, or by one of its moves.
    pub fn chosen(&self) -> Option<&Proc> {
        let id = match self.pane {
            Pane::Nodes => return None,
            Pane::Procs => self.proc_list.chosen.as_ref()?,
            Pane::Moves => {
                let number = self.move_list.chosen?;
                &self.moves.history().iter().find(|m| m.number == number)?.id
            }
        };
        self.procs.iter().find(|p| p.id == *id)
    }
}

/// Those of `rows` that are shown, in their order; `true`: the largest first. Equal rows are in the order of `tie`.
fn lines<R>(
    rows: &[R],
    shown: impl Fn(&R) -> bool,
    (order, falls): (fn(&R, &R) -> Ordering, bool),
    tie: impl Fn(&R, &R) -> Ordering,
) -> Vec<usize> {
    let mut lines: Vec<usize> = (0..rows.len()).filter(|i| shown(&rows[*i])).collect();
    lines.sort_by(|a, b| {
        let (a, b) = (&rows[*a], &rows[*b]);
        let first = order(a, b);
        let first = if falls { first.reverse() } else { first };
        first.then_with(|| tie(a, b))
    });
    lines
}
