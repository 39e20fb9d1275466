//! `armento top`.

use crate::out::{Failure, has_colour, say};
use armento_tui::{Failed, Look, Options, Theme, once, run as show, terminal_size};
use std::io::{self, IsTerminal};
use std::time::Duration;

const HELP: &str = "Examples:
  armento top
  armento top --all                processes of the whole farm, not only of this home
  armento top --delay 0.2          watch moves closely
  armento top --tree --theme light
  armento top --once > frame.txt   one frame as text

Keys: ? shows them all. Up and Down choose a process, m moves it, p holds it at home, w says why it
is where it is, / filters, s sorts, t shows the tree, Tab goes to the next pane, q quits.";

/// Below this the screen itself would be a load.
const DELAY_MIN: f64 = 0.1;
const DELAY_MAX: f64 = 3600.0;
/// Columns of a frame without a terminal.
const WIDTH: u16 = 100;
const WIDTHS: std::ops::RangeInclusive<u16> = 40..=500;

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Processes of all homes (key a)
    #[arg(long, short)]
    all: bool,
    /// Seconds between two updates
    #[arg(long, short, value_name = "SECONDS", default_value = "1", value_parser = delay)]
    delay: Duration,
    /// Print one frame as text, as tall as necessary, and end; as wide as COLUMNS or the terminal, else 100
    #[arg(long)]
    once: bool,
    /// Processes below their parents (key t)
    #[arg(long, short)]
    tree: bool,
    /// Colours: dark, light, mono or contrast (key T); mono if NO_COLOR is set
    #[arg(long, value_name = "THEME", default_value = "dark", value_parser = str::parse::<Theme>)]
    theme: Theme,
    /// Leave the mouse to the terminal, for selecting text
    #[arg(long)]
    no_mouse: bool,
}

fn delay(word: &str) -> Result<Duration, String> {
    let seconds = word
        .parse()
        .ok()
        .filter(|s| (DELAY_MIN..=DELAY_MAX).contains(s));
    let bad = || format!("seconds from {DELAY_MIN} to {DELAY_MAX}");
    seconds.map(Duration::from_secs_f64).ok_or_else(bad)
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let options = Options {
        every: args.delay,
        all: args.all,
        tree: args.tree,
        mouse: !args.no_mouse,
    };
    if args.once {
        let look = Look {
            theme: Theme::Mono,
            unicode: is_utf8(),
        };
        say(&once(&options, look, width()).map_err(Failure::from)?);
        return Ok(0);
    }
    let dumb = std::env::var_os("TERM").is_none_or(|t| t.is_empty() || t == "dumb");
    if !io::stdout().is_terminal() || dumb {
        let message = match dumb {
            true => "this terminal cannot show a screen (TERM)",
            false => "standard output is no terminal",
        };
        return Err(Failure {
            message: message.into(),
            hint: "`armento top --once` prints one frame; scripts read `armento nodes --json` and `armento ps --json`".into(),
        }
        .into());
    }
    let look = Look {
        theme: match has_colour() {
            true => args.theme,
            false => Theme::Mono,
        },
        unicode: is_utf8(),
    };
    show(&options, look).map_err(failure)?;
    Ok(0)
}

fn failure(e: Failed) -> Failure {
    match e {
        Failed::Ask(e) => e.into(),
        Failed::Terminal(e) => Failure {
            message: format!("the terminal cannot be used: {e}"),
            hint: "`armento top --once` needs none".into(),
        },
    }
}

/// The value of COLUMNS, else the width of the terminal, if standard output is one.
fn width() -> u16 {
    let said = std::env::var("COLUMNS").ok();
    let terminal = || {
        let size = io::stdout().is_terminal().then(terminal_size);
        Some(size?.ok()?.width)
    };
    said.and_then(|c| c.parse().ok())
        .or_else(terminal)
        .unwrap_or(WIDTH)
        .clamp(*WIDTHS.start(), *WIDTHS.end())
}

/// locale(7): the first of these that is set and not empty counts.
fn is_utf8() -> bool {
    let set = |name: &&str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set);
    let locale = locale.unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_seconds() {
        let check = |word: &str, ms: Option<u64>| {
            assert_eq!(delay(word).ok(), ms.map(Duration::from_millis), "{word}");
        };
        check("1", Some(1000));
        check("0.25", Some(250));
        check("3600", Some(3_600_000));
        for bad in ["0", "-1", "NaN", "inf", "1e9", "soon", ""] {
            check(bad, None);
        }
    }
}
