//! Recorded frames. `ARMENTO_RECORD=1 cargo test -p armento-tui` records them again: check the difference.

use super::*;
use crate::once::page;
use crate::state::{Question, Source};
use crate::trouble::Trouble;
use armento_client::api::Answer;
use ratatui::style::{Color, Modifier};
use std::path::Path;

pub(super) fn same(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("frames/{name}.txt"));
    if std::env::var_os("ARMENTO_RECORD").is_some() {
        std::fs::write(&path, text).expect("recorded");
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        recorded == text,
        "{name} is drawn otherwise than recorded; it was\n{recorded}\nand is\n{text}"
    );
}

#[test]
fn standard_terminal() {
    same("80x24", &Shown::farm(FULL, 80, 24).text());
}

#[test]
fn large_terminal_shows_more() {
    same("120x40", &Shown::farm(FULL, 120, 40).text());
}

#[test]
fn smallest_terminal_shows_one_pane() {
    let mut shown = Shown::farm(FULL, 40, 10);
    same("40x10", &shown.text());
    shown.keys("\t");
    same("40x10-moves", &shown.text());
    shown.keys("\t");
    same("40x10-nodes", &shown.text());
}

#[test]
fn too_small_terminal_shows_a_message() {
    same("30x8", &Shown::farm(FULL, 30, 8).text());
    // No size of the terminal causes a panic.
    for (width, height) in [(1, 1), (5, 2), (200, 3), (3, 200), (40, 14)] {
        let mut shown = Shown::farm(FULL, width, height);
        for keys in ["", "?", "\x1b", "jm", "\x1b/x", "\x1b\t", "\t"] {
            shown.keys(keys);
            shown.text();
        }
    }
}

#[test]
fn ascii_without_colour() {
    let shown = Shown::farm(BARE, 80, 24);
    same("80x24-ascii", &shown.text());
    assert!(shown.text().is_ascii());
    let plain = |c: &ratatui::buffer::Cell| (c.fg, c.bg) == (Color::Reset, Color::Reset);
    assert!(shown.buffer().content().iter().all(plain));
    let colourful = Shown::farm(FULL, 80, 24).buffer();
    assert!(!colourful.content().iter().all(plain));
}

#[test]
fn selection_and_focus_have_glyph_and_style() {
    let mut shown = Shown::farm(BARE, 80, 24);
    shown.press(KeyCode::Down);
    let (buf, text) = (shown.buffer(), shown.text());
    let row = |what: &str| text.lines().position(|l| l.starts_with(what));
    let modifier = |x, what| buf[(x, row(what).expect(what) as u16)].modifier;
    assert!(modifier(0, ">  4717").contains(Modifier::REVERSED));
    assert!(modifier(79, ">  4717").contains(Modifier::REVERSED));
    // Only the rule of a title is dim.
    assert_eq!(modifier(2, "> Processes"), Modifier::BOLD);
    assert_eq!(modifier(79, "> Processes"), Modifier::DIM);
}

#[test]
fn frame_before_the_first_answer() {
    let mut shown = Shown::new(FULL, 80, 24);
    shown.snapshot(Vec::new(), Vec::new());
    same("80x24-nothing", &shown.text());
}

#[test]
fn lost_daemon_is_shown_until_it_is_back() {
    let mut shown = Shown::farm(FULL, 80, 24);
    shown.wait(3);
    let gone = || Trouble {
        message: "this node's daemon does not answer at /run/armento/control.sock: refused".into(),
        hint: "start it: `systemctl start armento`, or `armento node`".into(),
    };
    shown.send(Event::Silent(Source::Nodes, gone()));
    shown.send(Event::Silent(Source::Procs, gone()));
    same("80x24-no-daemon", &shown.text());
    shown.snapshot(nodes(), procs(5));
    assert!(!shown.text().contains("no daemon"));
    // It runs, but does not answer.
    shown.wait(3);
    assert!(!shown.text().contains("no daemon"));
    shown.wait(6);
    let text = shown.text();
    assert!(
        text.contains("no daemon since 9 s: it does not answer"),
        "{text}"
    );
    shown.send(Event::Nodes(nodes()));
    assert!(shown.text().contains("no answer about processes since 9 s"));
}

#[test]
fn large_farm_is_scrolled() {
    let nodes: Vec<_> = (1..=200)
        .map(|i| node(&format!("n{i}"), i as f64 / 50.0))
        .collect();
    let procs = |looks: u64| -> Vec<ProcInfo> {
        let one = |pid: i32| ProcInfo {
            age_ms: 1000 * (looks + 1),
            cpu_ms: looks * (pid as u64 % 1000),
            ..proc(pid, "n1", &format!("n{}", pid % 200 + 1))
        };
        (1..=5000).map(one).collect()
    };
    let mut shown = Shown::new(FULL, 80, 24);
    shown.snapshot(nodes.clone(), procs(0));
    shown.snapshot(nodes, procs(1));
    same("large", &shown.text());
    shown.press(KeyCode::Down);
    for _ in 0..300 {
        shown.press(KeyCode::PageDown);
    }
    same("large-middle", &shown.text());
    shown.press(KeyCode::End);
    shown.keys("\t\t");
    shown.press(KeyCode::End);
    same("large-end", &shown.text());
}

#[test]
fn control_characters_in_names_are_replaced() {
    let long = "a-node-whose-name-is-as-long-as-names-of-nodes-may-be-0123456789";
    let long = &long[..63];
    let names = [
        "evil\x1b[2J\x07\rbell",
        "日本語のとても長いコマンド --with 引数",
        "e\u{301}a\u{308} combining \u{200b}zero\u{200d}width",
        "txt.\u{202e}exe right to left",
        "\u{1f469}\u{200d}\u{1f4bb} emoji",
        "",
        "tabs\tand\nlines",
    ];
    let proc = |(i, command): (usize, &&str)| ProcInfo {
        command: (*command).into(),
        pid: i32::MAX - i as i32,
        rss_kib: u64::MAX,
        age_ms: u64::MAX / 2,
        cpu_ms: u64::MAX / 2,
        forwarded: u64::MAX,
        ..proc(1, "n1", long)
    };
    let mut shown = Shown::new(FULL, 80, 24);
    let mut odd = node(long, f64::NAN);
    odd.state = "al\x1bive".into();
    odd.mem_free_kib = u64::MAX;
    let mut huge = node("n2", 1e300);
    (huge.speed, huge.cores, huge.age_ms) = (u32::MAX, u32::MAX, u64::MAX);
    for _ in 0..2 {
        let all = names.iter().enumerate().map(proc).collect();
        shown.snapshot(vec![node("n1", 0.5), odd.clone(), huge.clone()], all);
    }
    let text = shown.text();
    same("odd", &text);
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
}

#[test]
fn popups_are_drawn() {
    let mut shown = Shown::farm(FULL, 80, 24);
    shown.press(KeyCode::Down);
    shown.keys("m");
    same("migrate", &shown.text());
    shown.keys("\x1bp");
    same("pin", &shown.text());
    let Some(Action::Ask(question)) = shown.keys("\x1bw") else {
        panic!("nothing is asked");
    };
    shown.wait(1);
    assert!(shown.text().contains("asking the daemon"));
    let answer = Answer::Why {
        pid: 4711,
        place: Some(name("n3")),
        stay: Some(Stay::SharedMemory),
        explanation: Stay::SharedMemory.explain().into(),
        remedy: Stay::SharedMemory.remedy().into(),
        detail: "it maps /dev/shm/\x1bpool, as 4712 does".into(),
        partner: Some(4712),
        away: None,
        safe: None,
        connections: None,
    };
    shown.send(Event::Answer(question, Ok(Box::new(answer))));
    same("why", &shown.text());
    shown.keys("\x1b?");
    same("help", &shown.text());
    shown.press(KeyCode::End);
    same("help-end", &shown.text());
    shown.keys("\x1b/lame 471");
    same("filter", &shown.text());
}

#[test]
fn refused_move_is_explained() {
    let mut shown = Shown::farm(FULL, 80, 24);
    shown.press(KeyCode::Down);
    let Some(Action::Ask(question)) = shown.keys("mj\n") else {
        panic!("nothing is asked");
    };
    shown.wait(2);
    assert!(shown.text().contains("moving 4717 to n1: 2 s") || shown.text().contains(": 2 s"));
    let no = Trouble {
        message: "process 4717 stays: its home does not send to that node".into(),
        hint: "`armento farm trust` on that node and at home shows accept_from and send_to".into(),
    };
    assert!(matches!(question, Question::Migrate(..)));
    shown.send(Event::Answer(question, Err(no)));
    same("refused", &shown.text());
}

#[test]
fn once_prints_all_lines() {
    let mut shown = Shown::farm(BARE, 100, 0);
    shown.state.size.width = 100;
    same("once", &page(&shown.state));
}
