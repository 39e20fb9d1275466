//! One frame as plain text, as tall as its contents: for scripts, logs and pipes.

use crate::ask::farm;
use crate::draw::{paint, text};
use crate::layout::Areas;
use crate::look::Look;
use crate::run::Options;
use crate::state::{Event, State};
use armento_client::api::{Answer, Ask};
use armento_client::{ANSWER, AskError, Session};
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use std::thread;
use std::time::Instant;

/// Maximum lines of a frame that cannot be scrolled.
const LINES_MAX: usize = 20_000;

/// Takes two snapshots, a delay apart: CPU% and CALL/s are differences.
pub fn once(options: &Options, look: Look, width: u16) -> Result<String, AskError> {
    let mut session = Session::connect()?;
    let begun = Instant::now();
    let size = Size { width, height: 0 };
    let mut state = State::new(look, size, options.every, options.all);
    state.tree = options.tree;
    if let Some(farm) = farm(&mut session)? {
        state.update(begun.elapsed(), farm);
    }
    for last in [false, true] {
        if let Answer::Nodes { nodes } = session.ask(Ask::Nodes, ANSWER)? {
            state.update(begun.elapsed(), Event::Nodes(nodes));
        }
        if let Answer::Ps { procs } = session.ask(Ask::Ps { all: options.all }, ANSWER)? {
            state.update(begun.elapsed(), Event::Procs(procs));
        }
        if !last {
            thread::sleep(options.every);
        }
    }
    Ok(page(&state))
}

/// Header, all nodes, all processes, all moves.
pub fn page(state: &State) -> String {
    let width = state.size.width;
    let rows = |n: usize| n.clamp(1, LINES_MAX) as u16;
    let parts = [
        2,
        2 + rows(state.nodes.len()),
        2 + rows(state.procs.len()),
        1 + rows(state.moves.history().len()),
    ];
    let mut y = 0;
    let [header, nodes, procs, moves] = parts.map(|height| {
        let area = Rect {
            x: 0,
            y,
            width,
            height,
        };
        y += height;
        area
    });
    let areas = Areas {
        header,
        nodes: Some(nodes),
        procs: Some(procs),
        moves: Some(moves),
        note: None,
        footer: Rect::ZERO,
    };
    let mut buf = Buffer::empty(Rect {
        x: 0,
        y: 0,
        width,
        height: y,
    });
    paint(&mut buf, state, &areas);
    text(&buf)
}
