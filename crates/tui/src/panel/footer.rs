//! The last lines: notes, pending requests, keys.

use crate::keys::KEYS;
use crate::look::{Look, Role};
use crate::popup::Popup;
use crate::state::{Question, Source, State};
use armento_client::api::Dest;
use armento_model::clean;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

/// Without a line for notes they replace the keys.
pub fn footer(buf: &mut Buffer, note: Option<Rect>, area: Rect, state: &State) {
    let note_text = note_text(state);
    let (row, keys) = match (note, note_text.is_some()) {
        (Some(row), _) => (row, true),
        (None, note_text) => (area, !note_text),
    };
    if let Some((text, role)) = note_text {
        let text = state.look.fit(&text, row.width.saturating_sub(2));
        let line = Line::from(state.look.span(text, role));
        buf.set_line(row.x + 1, row.y, &line, row.width.saturating_sub(2));
    }
    if keys {
        buf.set_line(
            area.x + 1,
            area.y,
            &keys_of(state, area.width),
            area.width - 1,
        );
    }
}

/// The text of the line for notes, the most urgent one.
fn note_text(state: &State) -> Option<(String, Role)> {
    if let Some(note) = state.note() {
        return Some((clean(note), Role::Head));
    }
    if let Some((question, since)) = state.pending.last() {
        let s = state.now.saturating_sub(*since).as_secs();
        let others = match state.pending.len() - 1 {
            0 => String::new(),
            n => format!(", and {n} more"),
        };
        return Some((format!("{}: {s} s{others}", doing(question)), Role::Plain));
    }
    let silent = [Source::Nodes, Source::Procs].map(|s| state.silence(s));
    let trouble = silent
        .into_iter()
        .flatten()
        .find_map(|(_, trouble)| trouble)?;
    Some((format!("hint: {}", clean(&trouble.hint)), Role::Plain))
}

fn doing(question: &Question) -> String {
    match question {
        Question::Why(id) => format!("asking why {} is where it is", id.pid),
        Question::Migrate(id, to) => match to {
            Dest::Node(n) => format!("moving {} to {n}", id.pid),
            Dest::Home | Dest::Hold => format!("bringing {} home", id.pid),
            Dest::Balance => format!("letting {} go", id.pid),
        },
    }
}

fn keys_of(state: &State, width: u16) -> Line<'static> {
    let look = state.look;
    if state.typing {
        return pairs(
            look,
            width,
            [("Enter", "keeps the filter"), ("Esc", "drops it")].into_iter(),
        );
    }
    match &state.popup {
        Some(popup) => pairs(look, width, Popup::keys(popup).iter().copied()),
        None => {
            let named = KEYS.iter().filter(|b| !b.short.is_empty());
            pairs(look, width, named.map(|b| (b.shown, b.short)))
        }
    }
}

/// Keys and what they do, as many as fit.
fn pairs(
    look: Look,
    width: u16,
    keys: impl Iterator<Item = (&'static str, &'static str)>,
) -> Line<'static> {
    let mut spans = Vec::new();
    let mut used = 1;
    for (key, what) in keys {
        used += key.len() + what.len() + 3;
        if used > usize::from(width) + 2 {
            break;
        }
        spans.extend([look.span(key, Role::Focus), Span::raw(format!(" {what}  "))]);
    }
    Line::from(spans)
}
