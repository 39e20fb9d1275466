//! Output that is repeated: drawn again in place on a terminal, one after the other elsewhere.

use crate::out::say;
use jiff::Zoned;
use std::io::{self, IsTerminal};
use std::thread::sleep;
use std::time::Duration;

/// Shorter intervals would only keep the daemon busy.
const LEAST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_secs(86_400);
/// Lines of a terminal that does not tell its size.
const LINES: u16 = 24;

/// `2`, `0.5`.
pub fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse()
        .ok()
        .and_then(|s| Duration::try_from_secs_f64(s).ok());
    let seconds = seconds.filter(|s| (LEAST..=MOST).contains(s));
    seconds.ok_or_else(|| format!("`{text}`: seconds between 0.1 and 86400"))
}

/// Shows what `text` returns every `every`, until this process is ended. The first failure ends it; a later one is shown,
/// and it goes on: daemons are started again.
pub fn repeat(
    every: Duration,
    mut text: impl FnMut() -> anyhow::Result<String>,
) -> anyhow::Result<i32> {
    let terminal = io::stdout().is_terminal();
    let mut shown = text()?;
    loop {
        match terminal {
            true => {
                let size = armento_tui::terminal_size();
                let (wide, high) = size.map_or((u16::MAX, LINES), |s| (s.width, s.height));
                say(&in_place(&shown, wide.into(), high.into()));
            }
            false => say(&format!("{}\n{shown}\n", Zoned::now().strftime("%H:%M:%S"))),
        }
        sleep(every);
        shown = text().unwrap_or_else(|e| format!("armento: {e:#}\n"));
    }
}

/// The lines that fit, each cleared to its end: nothing flickers.
fn in_place(text: &str, wide: usize, high: usize) -> String {
    let all = text.lines().count();
    // The cursor stands on the last line.
    let room = high.saturating_sub(1).max(1);
    let fits = if all > room {
        room.saturating_sub(1)
    } else {
        all
    };
    let mut frame = String::from("\x1b[H");
    for line in text.lines().take(fits) {
        let line: String = line.chars().take(wide).collect();
        frame += &format!("{line}\x1b[K\n");
    }
    if all > fits {
        frame += &format!("... {} more lines\x1b[K\n", all - fits);
    }
    frame + "\x1b[J"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_fit_the_terminal() {
        assert_eq!(
            in_place("abc\nd\n", 2, 9),
            "\x1b[Hab\x1b[K\nd\x1b[K\n\x1b[J"
        );
        let long = in_place("1\n2\n3\n4\n5\n", 80, 4);
        assert_eq!(
            long,
            "\x1b[H1\x1b[K\n2\x1b[K\n... 3 more lines\x1b[K\n\x1b[J"
        );
        assert!(in_place("1\n2\n", 1, 0).contains("... 2 more lines"));
    }

    #[test]
    fn intervals_are_seconds() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "x", "1e9", "NaN", "inf"] {
            assert!(interval(bad).is_err(), "{bad}");
        }
    }
}
