//! The screen while it runs: takes what happens, draws, carries out what keys ask for.

use crate::ask::{ask, farm};
use crate::look::Look;
use crate::state::{Action, Event, State};
use crate::terminal::{Screen, die_by, listen, terminal_size};
use crate::watch::Watch;
use armento_client::{AskError, Session};
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// What happened and was not seen yet; who has more to say waits.
const EVENTS_MAX: usize = 64;
/// Ages on the screen are of seconds.
const TICK: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct Options {
    /// Between two looks at the farm.
    pub every: Duration,
    /// Processes of all homes.
    pub all: bool,
}

/// Why there is no screen, or no more.
#[derive(Debug)]
pub enum Failed {
    /// The daemon said nothing; the terminal was not touched.
    Ask(AskError),
    /// The terminal cannot be used any more. It was given back as far as that is possible.
    Terminal(io::Error),
}

impl From<io::Error> for Failed {
    fn from(e: io::Error) -> Failed {
        Failed::Terminal(e)
    }
}

/// Shows the farm until somebody quits. A daemon must answer at the beginning; it may go away and come back then.
pub fn run(options: &Options, look: Look) -> Result<(), Failed> {
    let begun = Instant::now();
    let farm = Session::connect()
        .and_then(|mut s| farm(&mut s))
        .map_err(Failed::Ask)?;
    let mut state = State::new(look, terminal_size()?, options.every, options.all);
    if let Some(farm) = farm {
        state.update(begun.elapsed(), farm);
    }
    let (events, happens) = sync_channel(EVENTS_MAX);
    let mut screen = Screen::open()?;
    listen(&events)?;
    let watch = Watch::start(options.every, options.all, &events);
    let ended = loop {
        screen.draw(&state)?;
        let first = happens.recv_timeout(TICK).unwrap_or(Event::Tick);
        // A frame for all that has happened meanwhile.
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

/// `Some` when it was the last.
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
