//! The table of processes, as mtop has it, with place and reason.

use crate::layout::Pane;
use crate::panel::table::{Longest, Table, columns};
use crate::procs::COLUMNS;
use crate::state::State;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

pub fn procs(buf: &mut Buffer, area: Rect, state: &State) {
    let list = &state.proc_list;
    let of = match (&state.node, state.all) {
        (Some(node), false) => format!("Processes of {node}"),
        (None, false) => "Processes".to_owned(),
        (_, true) => "Processes of the farm".to_owned(),
    };
    let nothing = match (state.procs.is_empty(), state.all) {
        (false, _) => "none of them passes the filter; Esc clears it",
        (true, false) => "none of yours under `armento run`; a shows those of the whole farm",
        (true, true) => "none of yours under `armento run`",
    };
    let table = Table {
        look: &state.look,
        columns: COLUMNS,
        rows: &state.procs,
        lines: &state.proc_lines,
        sort: list.sort,
        falls: list.falls,
        chosen: list.place(&state.proc_keys()),
        focus: state.pane == Pane::Procs,
        longest: longest(state),
        full: 0.0,
        name: of,
        more: None,
        filter: &list.filter,
        typing: state.typing && state.pane != Pane::Nodes,
        nothing: nothing.into(),
    };
    table.draw(buf, area);
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
    let pids = state.procs.iter().map(|p| p.id.pid);
    Longest {
        name: names.max().unwrap_or(0),
        pid: pids.max().unwrap_or(0).to_string().len() as u16,
    }
}
