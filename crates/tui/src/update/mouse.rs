//! Updates of the state by the mouse: a click on a head sorts, one on a line selects it, the wheel scrolls, and a process
//! that is dragged to a node is moved there once that is confirmed.

use crate::layout::Pane;
use crate::list::top;
use crate::panel;
use crate::popup::{Body, Popup};
use crate::procs::ProcId;
use crate::state::{Action, State};
use crate::{nodes, procs};
use armento_client::api::Dest;
use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

/// Lines of one step of the wheel.
const WHEEL: isize = 3;

/// What lies under the mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spot {
    Title,
    /// The head of that column.
    Head(usize),
    /// That one of the shown lines.
    Line(usize),
    Nothing,
}

impl State {
    pub(super) fn mouse(&mut self, event: &MouseEvent) -> Option<Action> {
        let at = Position {
            x: event.column,
            y: event.row,
        };
        if self.popup.is_some() {
            self.popup_mouse(event.kind);
            return None;
        }
        let (pane, area) = self.pane_at(at)?;
        match event.kind {
            MouseEventKind::ScrollUp => {
                self.pane = pane;
                self.step(-WHEEL);
            }
            MouseEventKind::ScrollDown => {
                self.pane = pane;
                self.step(WHEEL);
            }
            MouseEventKind::Down(MouseButton::Left) => {
                self.dragged = None;
                self.pane = pane;
                self.press(pane, self.spot(pane, area, at));
            }
            MouseEventKind::Up(MouseButton::Left) => {
                let dragged = self.dragged.take();
                if pane == Pane::Nodes
                    && let (Some(id), Spot::Line(n)) = (dragged, self.spot(pane, area, at))
                {
                    self.dropped(&id, n);
                }
            }
            _ => {}
        }
        None
    }

    /// A popup is moved by the wheel; a click outside of its keys does nothing, so that no move begins by accident.
    fn popup_mouse(&mut self, kind: MouseEventKind) {
        let by = match kind {
            MouseEventKind::ScrollUp => -1,
            MouseEventKind::ScrollDown => 1,
            _ => return,
        };
        let (look, width) = (self.look, panel::popup_width(self.size));
        let rows = panel::popup_rows(self.size);
        if let Some(popup) = &mut self.popup {
            let last = popup.last(look, width, rows);
            popup.at = popup.at.saturating_add_signed(by).min(last);
        }
    }

    fn pane_at(&self, at: Position) -> Option<(Pane, Rect)> {
        let areas = self.areas(self.size)?;
        let panes = [Pane::Nodes, Pane::Procs, Pane::Moves];
        let mut drawn = panes.into_iter().filter_map(|p| Some((p, areas.of(p)?)));
        drawn.find(|(_, area)| area.contains(at))
    }

    fn spot(&self, pane: Pane, area: Rect, at: Position) -> Spot {
        let (count, chosen, heads) = match pane {
            Pane::Nodes => {
                let keys = self.node_keys();
                (keys.len(), self.node_list.place(&keys), 1)
            }
            Pane::Procs => {
                let keys = self.proc_keys();
                (keys.len(), self.proc_list.place(&keys), 1)
            }
            Pane::Moves => {
                let keys = self.move_keys();
                (keys.len(), self.move_list.place(&keys), 0)
            }
        };
        let y = at.y.saturating_sub(area.y);
        if y == 0 {
            return Spot::Title;
        }
        if y <= heads {
            let columns = match pane {
                Pane::Nodes => panel::node_widths(self),
                _ => panel::proc_widths(self),
            };
            let column = panel::column_at(&columns, at.x.saturating_sub(area.x));
            return column.map_or(Spot::Nothing, Spot::Head);
        }
        let height = usize::from(area.height.saturating_sub(1 + heads));
        let line = top(count, chosen, height) + usize::from(y - 1 - heads);
        if line < count {
            Spot::Line(line)
        } else {
            Spot::Nothing
        }
    }

    fn press(&mut self, pane: Pane, spot: Spot) {
        match (pane, spot) {
            (Pane::Nodes, Spot::Head(column)) => {
                let falls = nodes::COLUMNS[column].falls;
                self.node_list.sort_by(column, falls);
                self.rearrange();
            }
            (Pane::Procs, Spot::Head(column)) => {
                let falls = procs::COLUMNS[column].falls;
                self.proc_list.sort_by(column, falls);
                self.rearrange();
            }
            (Pane::Nodes, Spot::Line(n)) => {
                self.node_list.chosen = self.node_keys().into_iter().nth(n);
            }
            (Pane::Procs, Spot::Line(n)) => {
                self.proc_list.chosen = self.proc_keys().into_iter().nth(n);
                self.dragged = self.proc_list.chosen.clone();
            }
            (Pane::Moves, Spot::Line(n)) => {
                self.move_list.chosen = self.move_keys().into_iter().nth(n);
            }
            _ => {}
        }
    }

    /// A process was dragged to the node on that line: the box of `m` opens with that node chosen.
    fn dropped(&mut self, id: &ProcId, line: usize) {
        let Some(node) = self.node_keys().into_iter().nth(line) else {
            return;
        };
        let Some(proc) = self.procs.iter().find(|p| p.id == *id) else {
            return self.show_note(format!("{} has ended", id.pid));
        };
        if self.node.as_ref() != Some(&id.home) {
            let (home, pid) = (&id.home, id.pid);
            let note = format!("the home of {pid} is {home}: its processes are moved from there");
            return self.show_note(note);
        }
        let mut popup = Popup::migrate(proc, &self.nodes);
        let Body::Choice(_, choices) = &popup.body else {
            return;
        };
        let is_it = |dest: &Dest| match dest {
            Dest::Node(n) => *n == node,
            _ => node == id.home,
        };
        match choices.iter().position(|c| is_it(&c.dest)) {
            Some(at) => {
                popup.at = at;
                self.popup = Some(popup);
            }
            None => self.show_note(format!("{node} takes no process: it is not up")),
        }
    }
}
