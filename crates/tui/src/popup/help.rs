//! The help page: all keys, all columns.

use super::facts::fact;
use crate::columns::Column;
use crate::keys::KEYS;
use crate::look::{Look, Role};
use crate::{nodes, procs};
use ratatui::text::Line;

pub fn help(look: Look, width: u16) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for bind in KEYS {
        lines.extend(fact(look, bind.shown, bind.about, width));
    }
    lines.extend(heads(look, "Nodes", nodes::COLUMNS, width));
    lines.extend(heads(look, "Processes", procs::COLUMNS, width));
    lines
}

fn heads<R>(look: Look, title: &str, columns: &[Column<R>], width: u16) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default(), Line::from(look.span(title, Role::Focus))];
    lines.extend(
        columns
            .iter()
            .flat_map(|c| fact(look, c.head, c.about, width)),
    );
    lines
}
