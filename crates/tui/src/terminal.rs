//! The terminal in raw mode, and its restoration: at the end, after a panic or a signal, and while this process is
//! stopped.

use crate::draw::draw;
use crate::state::{Event, State};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture, MouseEventKind};
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use ratatui::crossterm::{event, execute};
use ratatui::layout::Size;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::io::{self, Stdout, stdout};
use std::sync::mpsc::SyncSender;
use std::{panic, process, thread};

/// Armento itself failed.
const FAILED: i32 = 125;

/// The terminal is restored on drop.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    mouse: bool,
}

impl Screen {
    /// `mouse`: its clicks are events, and no longer select text.
    pub fn open(mouse: bool) -> io::Result<Screen> {
        restore_on_panic();
        take(mouse)?;
        Ok(Screen {
            terminal: fresh()?,
            mouse,
        })
    }

    pub fn draw(&mut self, state: &State) -> io::Result<()> {
        self.terminal.draw(|frame| draw(frame, state))?;
        Ok(())
    }

    /// Draws everything again: another program wrote to the terminal, or changed its mode.
    pub fn again(&mut self) -> io::Result<()> {
        // Not Terminal::clear: it asks for the cursor's position, and the input thread would read the answer.
        disable_raw_mode()?;
        take(self.mouse)?;
        self.terminal = fresh()?;
        Ok(())
    }

    /// Stops this process as its shell expects. After: it was continued.
    pub fn suspend(&mut self) -> io::Result<()> {
        restore();
        emulate_default_handler(SIGTSTP)?;
        self.again()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn fresh() -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    Terminal::new(CrosstermBackend::new(stdout()))
}

fn take(mouse: bool) -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All))?;
    if mouse {
        execute!(stdout(), EnableMouseCapture)?;
    }
    Ok(())
}

/// As far as possible: the terminal may be gone.
fn restore() {
    let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// A panic in any thread ends the process: its message must be visible.
fn restore_on_panic() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        restore();
        before(info);
        process::exit(FAILED);
    }));
}

/// Columns and rows of the terminal that is standard output.
pub fn terminal_size() -> io::Result<Size> {
    let (width, height) = size()?;
    Ok(Size { width, height })
}

/// Reads keys and catches signals, each in a thread. The threads end with the process.
pub fn listen(to: &SyncSender<Event>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT])?;
    let heard = to.clone();
    thread::spawn(move || {
        for signal in signals.forever() {
            if heard.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    });
    let read = to.clone();
    thread::spawn(move || {
        loop {
            let told = match event::read() {
                Ok(event::Event::Key(key)) => Event::Key(key),
                Ok(event::Event::Mouse(mouse)) if is_used(mouse.kind) => Event::Mouse(mouse),
                Ok(event::Event::Resize(width, height)) => Event::Size(Size { width, height }),
                Ok(_) => continue,
                Err(e) => Event::Gone(e.to_string()),
            };
            let gone = matches!(told, Event::Gone(_));
            if read.send(told).is_err() || gone {
                return;
            }
        }
    });
    Ok(())
}

/// Others would only fill the queue: each step of the mouse is an event.
fn is_used(kind: MouseEventKind) -> bool {
    !matches!(kind, MouseEventKind::Moved | MouseEventKind::Drag(_))
}

/// Ends by a signal as if it had not been caught. Before: the terminal was restored.
pub fn die_by(signal: i32) -> io::Result<()> {
    emulate_default_handler(signal)
}
