//! A box over the panes.

use crate::list::top;
use crate::look::Role;
use crate::panel::table::choose;
use crate::popup::Popup;
use crate::state::State;
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use ratatui::widgets::{Block, Clear, Widget};

/// Longer lines are hard to read.
const WIDTH_MAX: u16 = 76;
/// The border and a blank, on both sides.
const SIDES: u16 = 4;

/// Cells for the text of a popup.
pub fn width(size: Size) -> u16 {
    size.width.min(WIDTH_MAX).saturating_sub(SIDES)
}

/// Number of its lines that fit.
pub fn rows(size: Size) -> usize {
    size.height.saturating_sub(4).into()
}

pub fn popup(buf: &mut Buffer, state: &State, popup: &Popup) {
    let look = state.look;
    let all = *buf.area();
    let inner = width(all.as_size());
    let lines = popup.lines(look, inner);
    let room = rows(all.as_size()).min(lines.len());
    let height = room as u16 + 2;
    let area = Rect {
        x: (all.width - (inner + SIDES).min(all.width)) / 2,
        y: (all.height - height) / 2,
        width: (inner + SIDES).min(all.width),
        height,
    };
    Clear.render(area, buf);
    let title = look.fit(&format!(" {} ", popup.title), area.width.saturating_sub(2));
    let block = Block::bordered()
        .border_set(look.border())
        .title(look.span(title, Role::Focus));
    block.render(area, buf);
    let chooses = popup.chooses();
    let first = match chooses {
        true => top(lines.len(), Some(popup.at), room),
        false => popup.at.min(lines.len().saturating_sub(room)),
    };
    let below = lines.len() > first + room;
    for (y, (at, line)) in (area.y + 1..).zip(lines.iter().enumerate().skip(first).take(room)) {
        buf.set_line(area.x + SIDES / 2, y, line, inner);
        if chooses && at == popup.at {
            let row = Rect {
                x: area.x + 1,
                width: area.width.saturating_sub(2),
                ..area
            };
            choose(buf, row, y, look);
        }
    }
    if below || first > 0 {
        let part = format!(
            " {}-{} of {} ",
            first + 1,
            (first + room).min(lines.len()),
            lines.len()
        );
        let x = area.right().saturating_sub(part.len() as u16 + 2);
        buf.set_span(
            x,
            area.bottom() - 1,
            &look.span(part, Role::Plain),
            area.width,
        );
    }
}
