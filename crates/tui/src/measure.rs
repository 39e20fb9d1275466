//! How long a redraw takes on a farm of any size: for the bench.

use crate::draw::draw;
use crate::look::Look;
use crate::state::{Event, State};
use armento_client::api::{NodeInfo, ProcInfo};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Size;
use std::time::{Duration, Instant};

/// Times of one round.
#[derive(Clone, Copy, Debug)]
pub struct Redraw {
    /// From new data of all nodes and processes to the frame.
    pub data: Duration,
    /// From a key that selects the next line to the frame.
    pub key: Duration,
}

/// A round for each snapshot, on a terminal of 200 columns and 60 lines that no one looks at.
pub fn redraws(
    look: Look,
    tree: bool,
    snapshots: impl Iterator<Item = (Vec<NodeInfo>, Vec<ProcInfo>)>,
) -> Vec<Redraw> {
    let (width, height) = (200, 60);
    let every = Duration::from_secs(1);
    let mut state = State::new(look, Size { width, height }, every, true);
    state.tree = tree;
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let mut rounds = Vec::new();
    for (n, (nodes, procs)) in (1u32..).zip(snapshots) {
        let now = every * n;
        let begun = Instant::now();
        state.update(now, Event::Nodes(nodes));
        state.update(now, Event::Procs(procs));
        let Ok(_) = terminal.draw(|frame| draw(frame, &state));
        let data = begun.elapsed();
        let begun = Instant::now();
        let down = KeyEvent::new(KeyCode::Down, KeyModifiers::NONE);
        state.update(now, Event::Key(down));
        let Ok(_) = terminal.draw(|frame| draw(frame, &state));
        let key = begun.elapsed();
        rounds.push(Redraw { data, key });
    }
    rounds
}
