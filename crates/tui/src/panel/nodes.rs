//! The table of nodes, as mosmon has it, with several values at a time.

use crate::layout::Pane;
use crate::nodes::{COLUMNS, full, spread};
use crate::panel::table::{Longest, Table, columns};
use crate::state::State;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// The node that was asked has a star after its name.
const STAR: u16 = 1;
/// Cells that a title with the spread of work needs.
const SPREAD_LEAST: u16 = 100;

pub fn nodes(buf: &mut Buffer, area: Rect, state: &State) {
    let list = &state.node_list;
    let full = full(&state.nodes);
    let table = Table {
        look: &state.look,
        columns: COLUMNS,
        rows: &state.nodes,
        lines: &state.node_lines,
        sort: list.sort,
        falls: list.falls,
        chosen: list.place(&state.node_keys()),
        focus: state.pane == Pane::Nodes,
        longest: longest(state),
        full,
        name: "Nodes".into(),
        more: more(state, area, full),
        filter: &list.filter,
        typing: state.typing && state.pane == Pane::Nodes,
        nothing: if state.nodes.is_empty() {
            "no node has reported yet"
        } else {
            "no node has that in its name, state or address"
        }
        .into(),
    };
    table.draw(buf, area);
}

/// The scale of bars, and what the lines that do not fit would show.
fn more(state: &State, area: Rect, full: f64) -> Option<String> {
    let bar = (full > 1.0).then(|| format!("a full bar is {full:.0}"));
    let rows = usize::from(area.height.saturating_sub(2));
    let hidden = state.node_lines.len() > rows && area.width >= SPREAD_LEAST;
    let counts = hidden.then(|| spread(&state.nodes).to_string());
    match (bar, counts) {
        (Some(bar), Some(counts)) => Some(format!("{bar}, {counts}")),
        (bar, counts) => bar.or(counts),
    }
}

/// Columns that are shown, by number.
pub fn shown(state: &State) -> Vec<usize> {
    widths(state).into_iter().map(|(i, _)| i).collect()
}

/// The same, each with its width.
pub fn widths(state: &State) -> Vec<(usize, u16)> {
    columns(COLUMNS, state.size.width, longest(state))
}

fn longest(state: &State) -> Longest {
    let names = state.nodes.iter().map(|n| n.name.as_str().len() as u16);
    Longest {
        name: names.max().unwrap_or(0) + STAR,
        pid: 0,
    }
}
