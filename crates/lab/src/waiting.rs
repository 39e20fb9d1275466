//! A line on standard error while something takes longer than two seconds: what is waited for, how far it is, and how long
//! it has taken. On a terminal only; nothing is left of it.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Shorter waits show nothing.
const SILENT: Duration = Duration::from_secs(2);
const EVERY: Duration = Duration::from_millis(500);
/// A longer line would wrap on most terminals, and could not be taken back then.
const WIDTH: usize = 79;

/// Dropped, it takes its line back.
#[derive(Debug, Default)]
pub struct Waiting {
    shows: Option<Shows>,
}

#[derive(Debug)]
struct Shows {
    text: Arc<Mutex<String>>,
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl Waiting {
    /// `text`: what is waited for, as `n2 joins`.
    pub fn new(text: impl Into<String>) -> Waiting {
        if !io::stderr().is_terminal() {
            return Waiting::default();
        }
        let text = Arc::new(Mutex::new(text.into()));
        let (end, ends) = channel::<()>();
        let shown = text.clone();
        let begun = Instant::now();
        let thread = thread::spawn(move || {
            let mut wait = SILENT;
            let mut drawn = false;
            while ends.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let text = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
                draw(&format!("\r{}\x1b[K", line(&text, begun.elapsed())));
                (wait, drawn) = (EVERY, true);
            }
            if drawn {
                draw("\r\x1b[K");
            }
        });
        Waiting {
            shows: Some(Shows { text, end, thread }),
        }
    }

    /// Whether the line is shown, now or after two seconds: standard error is a terminal.
    pub fn is_shown(&self) -> bool {
        self.shows.is_some()
    }

    /// How far it is now.
    pub fn say(&self, text: impl Into<String>) {
        if let Some(s) = &self.shows {
            *s.text.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(s) = self.shows.take() {
            drop(s.end);
            // It cannot panic, and waits for nothing.
            let _ = s.thread.join();
        }
    }
}

fn draw(text: &str) {
    let mut out = io::stderr().lock();
    // A terminal that is gone shows nothing.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn line(text: &str, taken: Duration) -> String {
    let time = match taken.as_secs() {
        s @ 0..120 => format!("{s} s"),
        s => format!("{} min {} s", s / 60, s % 60),
    };
    let room = WIDTH.saturating_sub(time.len() + 3);
    let text: String = armento_model::clean(text).chars().take(room).collect();
    format!("{text} ({time})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_a_terminal_and_holds_no_escape_sequence() {
        assert_eq!(line("n2 joins", Duration::from_secs(3)), "n2 joins (3 s)");
        let long = line(&"\x1b[2J".repeat(99), Duration::from_secs(200));
        assert!(
            long.ends_with(" (3 min 20 s)") && long.chars().count() == WIDTH,
            "{long}"
        );
        assert!(!long.contains('\x1b'));
    }

    #[test]
    fn without_a_terminal_nothing_is_started() {
        let waiting = Waiting::default();
        waiting.say("nothing");
        assert!(waiting.shows.is_none());
    }
}
