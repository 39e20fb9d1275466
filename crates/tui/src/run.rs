//! The event loop of the screen: receives events, draws, carries out actions.

use crate::ask::{ask, farm};
use crate::look::Look;
use crate::state::{Action, Event, State};
use crate::terminal::{Screen, die_by, listen, terminal_size};
use crate::watch::Watch;
use armento_client::{AskError, Session};
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Events in the queue; senders wait when it is full.
const EVENTS_MAX: usize = 64;
/// Ages on the screen are in seconds.
const TICK: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct Options {
    /// Interval between two snapshots of the farm.
    pub every: Duration,
    /// Processes of all homes.
    pub all: bool,
    /// Processes below their parents.
    pub tree: bool,
    /// Clicks and the wheel come to the screen.
    pub mouse: bool,
}

/// Why there is no screen, or it ended.
#[derive(Debug)]
pub enum Failed {
    /// The daemon did not answer; the terminal was not touched.
    Ask(AskError),
    /// The terminal cannot be used any more. It was restored as far as possible.
    Terminal(io::Error),
}

impl From<io::Error> for Failed {
    fn from(e: io::Error) -> Failed {
        Failed::Terminal(e)
    }
}

/// Shows the farm until the user quits. A daemon must answer at the beginning; later it may go away and come back.
pub fn run(options: &Options, look: Look) -> Result<(), Failed> {
    let begun = Instant::now();
    let farm = Session::connect()
        .and_then(|mut s| farm(&mut s))
        .map_err(Failed::Ask)?;
    let mut state = State::new(look, terminal_size()?, options.every, options.all);
    state.tree = options.tree;
    if let Some(farm) = farm {
        state.update(begun.elapsed(), farm);
    }
    let (events, happens) = sync_channel(EVENTS_MAX);
    let mut screen = Screen::open(options.mouse)?;
    listen(&events)?;
    let watch = Watch::start(options.every, options.all, &events);
    let ended = loop {
        screen.draw(&state)?;
        let first = happens.recv_timeout(TICK).unwrap_or(Event::Tick);
        // One frame for all pending events.
        let rest = happens.try_iter().take(EVENTS_MAX);
        let mut actions = std::iter::once(first)
            .chain(rest)
            .filter_map(|event| state.update(begun.elapsed(), event));
        let end =
            actions.find_map(|action| carry_out(action, &mut screen, &events, &watch).transpose());
        if let Some(end) = end {
            break end?;
        }
    };
    drop(screen);
    match ended {
        End::Quit => Ok(()),
        End::Signal(number) => Ok(die_by(number)?),
        End::Terminal(why) => Err(Failed::Terminal(io::Error::other(why))),
    }
}

enum End {
    Quit,
    Signal(i32),
    Terminal(String),
}

/// `Some` when the action ends the screen.
fn carry_out(
    action: Action,
    screen: &mut Screen,
    events: &SyncSender<Event>,
    watch: &Watch,
) -> io::Result<Option<End>> {
    match action {
        Action::Quit => return Ok(Some(End::Quit)),
        Action::Die(number) => return Ok(Some(End::Signal(number))),
        Action::Fail(why) => return Ok(Some(End::Terminal(why))),
        Action::Suspend => screen.suspend()?,
        Action::Redraw => screen.again()?,
        Action::Look => watch.now(),
        Action::All(all) => watch.all(all),
        Action::Ask(question) => ask(question, events),
    }
    Ok(None)
}
