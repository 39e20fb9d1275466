//! The farm in two lines, or in one where there is no room for two.

use crate::look::Role;
use crate::nodes::sums;
use crate::state::{Source, State};
use armento_model::{clean, size, span};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

/// Cells of the bar of load.
const BAR: u16 = 16;
/// Digits of a farm's name that are shown: it is a hash.
const FARM: usize = 8;
const GAP: &str = "   ";

pub fn header(buf: &mut Buffer, area: Rect, state: &State) {
    let trouble = trouble(state, area.width);
    let lines = match (area.height, trouble) {
        (0, _) => return,
        (1, Some(trouble)) => vec![trouble],
        (1, None) => vec![counts(state, area.width)],
        (_, Some(trouble)) => vec![counts(state, area.width), trouble],
        (_, None) => vec![counts(state, area.width), load(state)],
    };
    for (y, line) in (area.y..area.bottom()).zip(lines) {
        buf.set_line(area.x + 1, y, &line, area.width.saturating_sub(2));
    }
}

/// The parts that fit; the first always.
fn counts(state: &State, width: u16) -> Line<'static> {
    let look = state.look;
    let sums = sums(&state.nodes);
    let away = state.procs.iter().filter(|p| p.is_away()).count();
    let down = match sums.up < sums.known {
        true => Role::Warn,
        false => Role::Plain,
    };
    let moves = state.moves.in_last_minute(state.now);
    let pieces = [
        (format!("{}/{} nodes up", sums.up, sums.known), down),
        (
            format!("{} processes, {away} away", state.procs.len()),
            Role::Plain,
        ),
        (format!("{moves} moves/min"), Role::Plain),
    ];
    let mut spans = vec![look.span(place(state), Role::Head)];
    let mut used = spans[0].width();
    for (text, role) in pieces {
        let piece = look.span(text, role);
        used += GAP.len() + piece.width();
        if used <= usize::from(width.saturating_sub(2)) {
            spans.extend([Span::raw(GAP), piece]);
        }
    }
    Line::from(spans)
}

/// The node that this screen asks.
fn place(state: &State) -> String {
    let farm: String = clean(&state.farm).chars().take(FARM).collect();
    match &state.node {
        Some(node) => format!("{node} of farm {farm}"),
        None => "armento top".to_owned(),
    }
}

/// Work and memory of all nodes that are up.
fn load(state: &State) -> Line<'static> {
    let look = state.look;
    let sums = sums(&state.nodes);
    let mut spans = vec![look.span("load ", Role::Head)];
    spans.extend(look.bar(sums.load, sums.power, sums.power.max(sums.load), BAR));
    let short = |v: f64| match v {
        ..100.0 => format!("{v:.2}"),
        _ => format!("{v:.0}"),
    };
    let work = format!(" {} of {} power   ", short(sums.load), short(sums.power));
    spans.push(look.span(work, Role::Plain));
    spans.push(look.span("memory ", Role::Head));
    let (used, all) = (sums.used_kib as f64, sums.total_kib as f64);
    spans.extend(look.bar(used, all, all, BAR / 2));
    let memory = format!(" {} of {}", size(sums.used_kib), size(sums.total_kib));
    spans.push(look.span(memory, Role::Plain));
    Line::from(spans)
}

/// The message while the daemon does not answer.
fn trouble(state: &State, width: u16) -> Option<Line<'static>> {
    let nodes = state.silence(Source::Nodes);
    let (what, (since, trouble)) = match nodes {
        Some(silence) => ("no daemon", silence),
        None => ("no answer about processes", state.silence(Source::Procs)?),
    };
    let cause = trouble.map_or("it does not answer", |t| &t.message);
    let since = span(since.as_secs() * 1000).replace(".0", "");
    let text = format!("{what} since {since}: {}", clean(cause));
    let text = state.look.fit(&text, width.saturating_sub(2));
    Some(Line::from(state.look.span(text, Role::Bad)))
}
