//! Moves as they happen, the latest first.

use crate::layout::Pane;
use crate::list::top;
use crate::look::Role;
use crate::moves::Move;
use crate::panel::table::{MARGIN, Title, choose};
use crate::state::State;
use armento_model::span;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

pub fn moves(buf: &mut Buffer, area: Rect, state: &State) {
    let look = state.look;
    let history = state.moves.history();
    let height = usize::from(area.height.saturating_sub(1));
    let chosen = state.move_list.place(&state.move_keys());
    let first = top(history.len(), chosen, height);
    let last = (first + height).min(history.len());
    let title = Title {
        name: "Moves".into(),
        count: history.len().to_string(),
        more: vec![format!(
            "{} in the last minute",
            state.moves.in_last_minute(state.now)
        )],
        part: (last - first < history.len()).then_some((first + 1, last, history.len())),
        focus: state.pane == Pane::Moves,
        look: &look,
    };
    title.draw(buf, area);
    let room = area.width.saturating_sub(MARGIN);
    if history.is_empty() && height > 0 {
        let nothing = Line::from(look.span("none since this screen began", Role::Dim));
        buf.set_line(area.x + MARGIN, area.y + 1, &nothing, room);
    }
    for (y, at) in (area.y + 1..area.bottom()).zip(first..last) {
        buf.set_line(area.x + MARGIN, y, &line(state, &history[at], room), room);
        if chosen == Some(at) {
            choose(buf, area, y, look);
        }
    }
}

fn line(state: &State, m: &Move, width: u16) -> Line<'static> {
    let look = state.look;
    let ago = span(state.now.saturating_sub(m.at).as_secs() * 1000);
    let ago = if ago == "0 ms" {
        "now".into()
    } else {
        ago.replace(".0", "")
    };
    let how = match (m.started, m.times) {
        (true, _) => " (started there)".to_owned(),
        (false, 1) => String::new(),
        (false, times) => format!(" ({times} moves)"),
    };
    let before = format!("{ago:>6} {:>7} ", m.id.pid);
    let way = format!("{} {} {}{how} ", m.from, look.arrow(), m.to);
    let way = look.fit(
        &format!("{way:18}"),
        width.saturating_sub(before.len() as u16),
    );
    let used = before.len() + Span::raw(&way).width();
    let command = look.command(&m.command, width.saturating_sub(used as u16));
    Line::from(vec![
        look.span(before, Role::Plain),
        look.span(way, Role::Away),
        look.span(command, Role::Plain),
    ])
}
