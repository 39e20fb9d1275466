//! Updates of the state by keys.

use super::{FILTER_MAX, PENDING_MAX};
use crate::keys::{Do, find, is_ctrl};
use crate::layout::Pane;
use crate::panel;
use crate::popup::{self, Body, Popup};
use crate::procs::ProcId;
use crate::state::{Action, Question, State};
use crate::{nodes, procs};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind};

impl State {
    pub(super) fn key(&mut self, key: &KeyEvent) -> Option<Action> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if self.typing && !is_ctrl(key) {
            self.type_letter(key.code);
            return None;
        }
        let does = find(key)?;
        match does {
            Do::Interrupt => return Some(Action::Quit),
            Do::Suspend => return Some(Action::Suspend),
            Do::Redraw => return Some(Action::Redraw),
            _ => {}
        }
        match self.popup {
            Some(_) => self.popup_key(does, key.code),
            None => self.pane_key(does),
        }
    }

    fn type_letter(&mut self, code: KeyCode) {
        let filter = match self.pane {
            Pane::Nodes => &mut self.node_list.filter,
            _ => &mut self.proc_list.filter,
        };
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                filter.clear();
                self.typing = false;
            }
            KeyCode::Backspace => drop(filter.pop()),
            KeyCode::Char(c) if filter.chars().count() < FILTER_MAX => filter.push(c),
            _ => {}
        }
        self.rearrange();
    }

    fn popup_key(&mut self, does: Do, code: KeyCode) -> Option<Action> {
        let page = usize::from(self.size.height / 2);
        let (look, width) = (self.look, panel::popup_width(self.size));
        let rows = panel::popup_rows(self.size);
        let popup = self.popup.as_mut()?;
        let last = popup.last(look, width, rows);
        match does {
            Do::Up => popup.at = popup.at.saturating_sub(1),
            Do::Down => popup.at = (popup.at + 1).min(last),
            Do::PageUp => popup.at = popup.at.saturating_sub(page),
            Do::PageDown => popup.at = (popup.at + page).min(last),
            Do::First => popup.at = 0,
            Do::Last => popup.at = last,
            _ if code == KeyCode::Enter => return self.accept(),
            Do::Back | Do::Quit => self.popup = None,
            Do::Help | Do::Why if !popup.chooses() => self.popup = None,
            _ => {}
        }
        None
    }

    /// Enter in a popup.
    fn accept(&mut self) -> Option<Action> {
        let popup = self.popup.take()?;
        let (id, choices) = match popup.body {
            Body::Choice(id, choices) => (id, choices),
            Body::Sort(columns) => {
                let (column, _, _) = columns.into_iter().nth(popup.at)?;
                self.sort_by(column);
                return None;
            }
            _ => return None,
        };
        let dest = choices.into_iter().nth(popup.at)?.dest;
        self.ask(Question::Migrate(id, dest))
    }

    fn ask(&mut self, question: Question) -> Option<Action> {
        if self.pending.len() >= PENDING_MAX {
            self.show_note(format!(
                "{PENDING_MAX} answers are awaited already; wait for one"
            ));
            return None;
        }
        self.pending.push((question.clone(), self.now));
        Some(Action::Ask(question))
    }

    fn pane_key(&mut self, does: Do) -> Option<Action> {
        let page = self.areas(self.size).and_then(|a| a.of(self.pane));
        let page = page.map_or(1, |a| isize::from(a.height.saturating_sub(3).max(1) as i16));
        match does {
            Do::Up => self.step(-1),
            Do::Down => self.step(1),
            Do::PageUp => self.step(-page),
            Do::PageDown => self.step(page),
            Do::First => self.step(-isize::MAX),
            Do::Last => self.step(isize::MAX),
            Do::NextPane => self.pane = turn(self.pane, 1),
            Do::PaneBefore => self.pane = turn(self.pane, 2),
            Do::SortNext => self.sort(1),
            Do::SortBefore => self.sort(-1),
            Do::Reverse => {
                match self.pane {
                    Pane::Nodes => self.node_list.falls ^= true,
                    _ => self.proc_list.falls ^= true,
                }
                self.rearrange();
            }
            Do::Filter => self.typing = true,
            Do::SortMenu => self.sort_menu(),
            Do::Tree => {
                self.tree ^= true;
                self.rearrange();
            }
            Do::Theme => {
                self.look.theme = self.look.theme.next();
                self.show_note(format!("colours: {}", self.look.theme.name()));
            }
            Do::Help => self.popup = Some(Popup::help()),
            Do::Back => self.back(),
            Do::All => {
                self.all ^= true;
                return Some(Action::All(self.all));
            }
            Do::Why if self.pane == Pane::Nodes => self.processes_of_node(),
            Do::Why => return self.why(),
            Do::Migrate | Do::Pin => self.choose(does),
            Do::Look => return Some(Action::Look),
            Do::Quit => return Some(Action::Quit),
            Do::Interrupt | Do::Suspend | Do::Redraw => {}
        }
        None
    }

    pub(super) fn step(&mut self, by: isize) {
        match self.pane {
            Pane::Nodes => {
                let keys = self.node_keys();
                self.node_list.step(&keys, by);
            }
            Pane::Procs => {
                let keys = self.proc_keys();
                self.proc_list.step(&keys, by);
            }
            Pane::Moves => {
                let keys = self.move_keys();
                self.move_list.step(&keys, by);
            }
        }
    }

    /// Sorts by the next or the previous column that is shown.
    fn sort(&mut self, by: isize) {
        let next = |shown: Vec<usize>, sort: usize| {
            let at = shown.iter().position(|i| *i == sort);
            let to = at.map_or(0, |at| {
                (at as isize + by).rem_euclid(shown.len() as isize) as usize
            });
            shown.get(to).copied().unwrap_or(sort)
        };
        if self.pane == Pane::Nodes {
            let sort = next(panel::node_columns(self), self.node_list.sort);
            (self.node_list.sort, self.node_list.falls) = (sort, nodes::COLUMNS[sort].falls);
        } else {
            let sort = next(panel::proc_columns(self), self.proc_list.sort);
            (self.proc_list.sort, self.proc_list.falls) = (sort, procs::COLUMNS[sort].falls);
        }
        self.rearrange();
    }

    /// The columns that are shown, to choose one.
    fn sort_menu(&mut self) {
        let (columns, sort) = match self.pane {
            Pane::Nodes => {
                let all = panel::node_columns(self).into_iter();
                let named = all.map(|i| (i, nodes::COLUMNS[i].head, nodes::COLUMNS[i].about));
                (named.collect(), self.node_list.sort)
            }
            _ => {
                let all = panel::proc_columns(self).into_iter();
                let named = all.map(|i| (i, procs::COLUMNS[i].head, procs::COLUMNS[i].about));
                (named.collect(), self.proc_list.sort)
            }
        };
        self.popup = Some(Popup::sort(columns, sort));
    }

    fn sort_by(&mut self, column: usize) {
        match self.pane {
            Pane::Nodes => self.node_list.sort_by(column, nodes::COLUMNS[column].falls),
            _ => self.proc_list.sort_by(column, procs::COLUMNS[column].falls),
        }
        self.rearrange();
    }

    /// One thing a time: the filter, then the selection.
    fn back(&mut self) {
        self.note = None;
        let filter = match self.pane {
            Pane::Nodes => &mut self.node_list.filter,
            _ => &mut self.proc_list.filter,
        };
        if !filter.is_empty() {
            filter.clear();
            return self.rearrange();
        }
        match self.pane {
            Pane::Nodes => self.node_list.chosen = None,
            Pane::Procs => self.proc_list.chosen = None,
            Pane::Moves => self.move_list.chosen = None,
        }
    }

    fn processes_of_node(&mut self) {
        let Some(node) = &self.node_list.chosen else {
            return self.show_note("choose a node first: Up, Down".into());
        };
        self.proc_list.filter = format!("@{node}");
        self.pane = Pane::Procs;
        self.rearrange();
    }

    fn nothing_chosen(&mut self) {
        let how = match self.pane {
            Pane::Nodes => "choose a process first: Tab, then Up, Down",
            Pane::Procs => "choose a process first: Up, Down",
            Pane::Moves => "choose the move of a process that still runs: Up, Down",
        };
        self.show_note(how.into());
    }

    fn why(&mut self) -> Option<Action> {
        let Some(proc) = self.chosen() else {
            self.nothing_chosen();
            return None;
        };
        let mut popup = Popup::why(proc);
        let id = proc.id.clone();
        if self.node.as_ref() != Some(&id.home) {
            popup.body = Body::Why(id, popup::known(proc));
            self.popup = Some(popup);
            return None;
        }
        let action = self.ask(Question::Why(id));
        if action.is_some() {
            self.popup = Some(popup);
        }
        action
    }

    fn choose(&mut self, does: Do) {
        let Some(proc) = self.chosen() else {
            return self.nothing_chosen();
        };
        let ProcId { home, pid, .. } = &proc.id;
        if self.node.as_ref() != Some(home) {
            let note = format!("the home of {pid} is {home}: its processes are moved from there");
            return self.show_note(note);
        }
        let popup = match does {
            Do::Pin => Popup::pin(proc),
            _ => Popup::migrate(proc, &self.nodes),
        };
        self.popup = Some(popup);
    }
}

fn turn(pane: Pane, by: usize) -> Pane {
    const PANES: [Pane; 3] = [Pane::Nodes, Pane::Procs, Pane::Moves];
    PANES[(pane as usize + by) % PANES.len()]
}
