//! A frame from a state. Pure: the same state gives the same frame.

use crate::layout::{Areas, LEAST};
use crate::look::Role;
use crate::panel;
use crate::state::State;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

pub fn draw(frame: &mut Frame, state: &State) {
    // The terminal's present size: the event of its change may not have arrived yet.
    let size = frame.area().as_size();
    let buf = frame.buffer_mut();
    match state.areas(size) {
        Some(areas) => paint(buf, state, &areas),
        None => too_small(buf, state),
    }
}

/// Draws all panels.
pub fn paint(buf: &mut Buffer, state: &State, areas: &Areas) {
    panel::header(buf, areas.header, state);
    if let Some(area) = areas.nodes {
        panel::nodes(buf, area, state);
    }
    if let Some(area) = areas.procs {
        panel::procs(buf, area, state);
    }
    if let Some(area) = areas.moves {
        panel::moves(buf, area, state);
    }
    panel::footer(buf, areas.note, areas.footer, state);
    if let Some(popup) = &state.popup {
        panel::popup(buf, state, popup);
    }
}

fn too_small(buf: &mut Buffer, state: &State) {
    let Rect { width, height, .. } = *buf.area();
    let lines = [
        format!("armento top needs {}x{},", LEAST.width, LEAST.height),
        format!("this terminal is {width}x{height}."),
        "Make it larger, or q quits.".to_owned(),
    ];
    let first = height.saturating_sub(lines.len() as u16) / 2;
    for (y, text) in (first..height).zip(lines) {
        let line = Line::from(state.look.span(text, Role::Plain));
        buf.set_line(0, y, &line, width);
    }
}

/// A frame as text, a line a row, without trailing blanks.
pub fn text(buf: &Buffer) -> String {
    let width = usize::from(buf.area().width).max(1);
    let mut text = String::new();
    for row in buf.content().chunks(width) {
        let mut line = String::new();
        let mut hidden = 0;
        for cell in row {
            // The cell after a wide character is part of it.
            if hidden == 0 {
                line.push_str(cell.symbol());
                hidden = Span::raw(cell.symbol()).width().max(1);
            }
            hidden -= 1;
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
