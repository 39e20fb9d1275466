//! mosmon: nodes as bars, once a second, with keys.

use super::out::say;
use crate::failed::Failed;
use crate::farm::{Farm, Member};
use crate::parse::{Bars, Monitor, Numbering};
use crate::show::{Bar, Frame, frame};
use crate::sys::{Keys, terminal_size};
use armento_client::Session;
use std::io::{self, IsTerminal};
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(1);
const HELP: &str = "s speed  m memory  l load  L log load  w v V a numbering  d/D dead nodes  t count  Left/Right  q quit";
const LEFT: &[u8] = b"\x1b[D";
const RIGHT: &[u8] = b"\x1b[C";

pub fn run(mut m: Monitor) -> Result<i32, Failed> {
    let mut session = Session::connect()?;
    let farm = Farm::ask(&mut session)?;
    let mut first = match &m.first {
        None => 0,
        Some(word) => {
            let id = farm.find(word)?.id;
            shown(&farm, m.dead)
                .iter()
                .take_while(|o| o.id < id)
                .count()
        }
    };
    let keys = match io::stdin().is_terminal() && io::stdout().is_terminal() {
        true => Keys::begin().ok(),
        false => None,
    };
    let Some(keys) = keys else {
        return say(&picture(&farm, &m, first, 24, 80, "")).map(|()| 0);
    };
    let mut help = false;
    let mut farm = farm;
    loop {
        let (rows, columns) = terminal_size().unwrap_or((24, 80));
        let text = picture(
            &farm,
            &m,
            first,
            rows,
            columns,
            if help { HELP } else { "" },
        );
        // Home, then each line to its end, then the rest: no flicker.
        say(&format!("\x1b[H{}\x1b[J", text.replace('\n', "\x1b[K\n")))?;
        let failed =
            |e: io::Error| Failed::new(format!("the terminal cannot be read: {e}"), "try again");
        match keys.read(EVERY).map_err(failed)? {
            None => return Ok(0),
            Some(pressed) if pressed.contains(&b'q') => return say("\n").map(|()| 0),
            Some(pressed) if pressed == LEFT => first = first.saturating_sub(1),
            Some(pressed) if pressed == RIGHT => {
                first = (first + 1).min(farm.members.len().saturating_sub(1));
            }
            Some(pressed) => {
                for key in pressed {
                    help = press(&mut m, key, help);
                }
            }
        }
        farm = Farm::ask(&mut session)?;
    }
}

/// What a key changes; returns whether the keys are shown.
fn press(m: &mut Monitor, key: u8, help: bool) -> bool {
    match key {
        b's' => m.bars = Bars::Speed,
        b'm' | b'r' => m.bars = Bars::Memory,
        b'l' => m.bars = Bars::Load,
        b'L' => m.bars = Bars::LogLoad,
        b'w' => m.numbering = Numbering::Wide,
        b'v' => m.numbering = Numbering::Downwards,
        b'V' => m.numbering = Numbering::Close,
        b'a' => m.numbering = Numbering::AsFits,
        b'd' => m.dead = true,
        b'D' => m.dead = false,
        b't' => m.count = !m.count,
        b'h' | b'?' => return !help,
        _ => {}
    }
    help
}

fn shown(farm: &Farm, dead: bool) -> Vec<&Member> {
    farm.members.iter().filter(|m| dead || m.is_up()).collect()
}

fn picture(
    farm: &Farm,
    m: &Monitor,
    first: usize,
    rows: usize,
    columns: usize,
    help: &str,
) -> String {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let bar = |n: &&Member| {
        let (value, free) = match m.bars {
            Bars::Load | Bars::LogLoad => (n.info.load, 0.0),
            Bars::Speed => (f64::from(n.info.speed) / 10_000.0, 0.0),
            Bars::Memory => {
                let free = gib(n.mem_free_bytes());
                ((gib(n.mem_total_bytes()) - free).max(0.0), free)
            }
        };
        Bar {
            id: n.id,
            value: n.is_up().then_some(value),
            free: if n.is_up() { free } else { 0.0 },
        }
    };
    let bars: Vec<Bar> = shown(farm, m.dead).iter().map(bar).collect();
    let up = farm.members.iter().filter(|n| n.is_up()).count();
    let count = match m.count {
        true => format!("{up} of {} nodes are up\n", farm.members.len()),
        false => String::new(),
    };
    let help = if help.is_empty() {
        String::new()
    } else {
        format!("{help}\n")
    };
    let foot = count + &help;
    let (wide, downwards) = match m.numbering {
        Numbering::Wide => (3, false),
        Numbering::Downwards => (2, true),
        Numbering::Close => (1, true),
        Numbering::AsFits => (0, false),
    };
    let f = Frame {
        title: match m.bars {
            Bars::Load => "load",
            Bars::LogLoad => "log load",
            Bars::Speed => "speed",
            Bars::Memory => "GiB",
        },
        log: m.bars == Bars::LogLoad,
        wide,
        downwards,
        first,
        rows: rows.saturating_sub(1 + foot.lines().count()),
        columns,
        foot,
    };
    frame(&f, &bars)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::farm::tests::node;
    use armento_client::api::NodeInfo;

    #[test]
    fn keys_are_the_options() {
        let mut m = Monitor {
            bars: Bars::Load,
            numbering: Numbering::AsFits,
            dead: false,
            count: false,
            first: None,
        };
        for key in b"mVdt" {
            press(&mut m, *key, false);
        }
        let down = NodeInfo {
            state: "down".into(),
            ..node("n2", "10.0.0.2:1")
        };
        let farm = Farm::of(vec![node("n1", "10.0.0.1:1"), down]);
        let text = picture(&farm, &m, 0, 12, 40, HELP);
        assert!(text.starts_with("     GiB\n"), "{text}");
        assert!(text.contains("|+") && text.contains("|#x\n"), "{text}");
        assert!(text.contains("1 of 2 nodes are up\ns speed"), "{text}");
        press(&mut m, b'D', false);
        assert!(!picture(&farm, &m, 0, 12, 40, "").contains('x'));
        assert!(press(&mut m, b'h', false));
    }
}
