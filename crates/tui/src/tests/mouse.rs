//! The mouse, the tree, the sort menu and themes.

use super::*;
use crate::layout::Pane;
use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

fn farm() -> Shown {
    Shown::farm(FULL, 80, 24)
}

fn mouse(shown: &mut Shown, kind: MouseEventKind, (column, row): (u16, u16)) {
    let event = MouseEvent {
        kind,
        column,
        row,
        modifiers: KeyModifiers::NONE,
    };
    assert_eq!(shown.send(Event::Mouse(event)), None);
}

const PRESS: MouseEventKind = MouseEventKind::Down(MouseButton::Left);
const RELEASE: MouseEventKind = MouseEventKind::Up(MouseButton::Left);

/// The cell where `text` begins on the screen.
fn find(shown: &Shown, text: &str) -> (u16, u16) {
    let frame = shown.text();
    let lines = frame.lines().enumerate();
    let mut found = lines.filter_map(|(y, line)| {
        let at = line.find(text)?;
        Some((line[..at].chars().count() as u16, y as u16))
    });
    found.next().unwrap_or_else(|| panic!("{text}: {frame}"))
}

fn chosen(shown: &Shown) -> Option<i32> {
    Some(shown.state.proc_list.chosen.as_ref()?.pid)
}

#[test]
fn a_click_selects_the_line_under_it() {
    let mut shown = farm();
    for pid in [4715, 4711, 4717] {
        let at = find(&shown, &pid.to_string());
        mouse(&mut shown, PRESS, at);
        assert_eq!((shown.state.pane, chosen(&shown)), (Pane::Procs, Some(pid)));
    }
    let at = find(&shown, "n2   alive");
    mouse(&mut shown, PRESS, at);
    assert_eq!(shown.state.pane, Pane::Nodes);
    assert_eq!(shown.state.node_list.chosen, Some(name("n2")));
    // Nothing is there.
    for at in [(0, 0), (79, 23), (500, 500), (3, 2)] {
        mouse(&mut shown, PRESS, at);
        mouse(&mut shown, RELEASE, at);
    }
    assert_eq!(shown.state.node_list.chosen, Some(name("n2")));
}

#[test]
fn a_click_on_a_head_sorts_and_a_second_one_turns_it_round() {
    let mut shown = farm();
    let head = |s: &Shown| {
        let list = &s.state.proc_list;
        (crate::procs::COLUMNS[list.sort].head, list.falls)
    };
    for (text, falls) in [("MEMORY MOVES", true), ("COMMAND", false), ("PID", false)] {
        let column = text.split(' ').next().expect("a word");
        let at = find(&shown, text);
        mouse(&mut shown, PRESS, at);
        assert_eq!(head(&shown), (column, falls));
        mouse(&mut shown, PRESS, at);
        assert_eq!(head(&shown), (column, !falls));
    }
}

#[test]
fn the_wheel_moves_the_selection_of_the_pane_below_it() {
    let mut shown = farm();
    let at = find(&shown, "4714");
    mouse(&mut shown, MouseEventKind::ScrollDown, at);
    assert_eq!(chosen(&shown), Some(4717));
    mouse(&mut shown, MouseEventKind::ScrollDown, at);
    assert_eq!(chosen(&shown), Some(4714));
    mouse(&mut shown, MouseEventKind::ScrollUp, at);
    assert_eq!(chosen(&shown), Some(4717));
}

#[test]
fn a_process_dragged_to_a_node_moves_after_enter() {
    let mut shown = farm();
    let process = find(&shown, "4714");
    mouse(&mut shown, PRESS, process);
    let node = find(&shown, "n2   alive");
    mouse(&mut shown, RELEASE, node);
    let text = shown.text();
    assert!(text.contains("move 4714 to"), "{text}");
    let Some(Action::Ask(question)) = shown.keys("\n") else {
        panic!("nothing is asked");
    };
    let shown_question = format!("{question:?}");
    assert!(
        shown_question.contains("4714") && shown_question.contains("n2"),
        "{shown_question}"
    );
    // To a node that is down, or when it has ended: no box.
    let mut shown = farm();
    mouse(&mut shown, PRESS, process);
    let down = find(&shown, "n4   down");
    mouse(&mut shown, RELEASE, down);
    assert!(shown.state.popup.is_none());
    assert!(shown.state.note().is_some_and(|n| n.contains("n4")));
    mouse(&mut shown, PRESS, process);
    shown.snapshot(nodes(), Vec::new());
    mouse(&mut shown, RELEASE, node);
    assert!(shown.state.popup.is_none());
}

#[test]
fn processes_stand_below_their_parents() {
    let mut shown = farm();
    let mut all = procs(2);
    all[1].ppid = 4711;
    all[3].ppid = 4712;
    all[4].ppid = 4711;
    shown.snapshot(nodes(), all);
    shown.keys("t");
    super::frames::same("tree", &shown.text());
    let at = find(&shown, "4714");
    mouse(&mut shown, PRESS, at);
    assert_eq!(chosen(&shown), Some(4714));
    shown.keys("t");
    assert!(!shown.text().contains("\\_"));
}

#[test]
fn the_sort_menu_lists_the_shown_columns() {
    let mut shown = farm();
    shown.keys("o");
    super::frames::same("sort", &shown.text());
    shown.press(KeyCode::Home);
    shown.keys("\n");
    let list = &shown.state.proc_list;
    assert_eq!(
        (crate::procs::COLUMNS[list.sort].head, list.falls),
        ("PID", false)
    );
    assert!(shown.state.popup.is_none());
}

#[test]
fn themes_change_colours_and_nothing_else() {
    let mut shown = farm();
    let text = shown.text();
    let colours = |s: &Shown| -> std::collections::BTreeSet<String> {
        let buf = s.buffer();
        buf.content()
            .iter()
            .map(|c| format!("{:?}", c.fg))
            .collect()
    };
    let mut seen = vec![colours(&shown)];
    for theme in ["light", "mono", "contrast"] {
        shown.keys("T");
        assert_eq!(shown.state.look.theme.name(), theme);
        shown.wait(11);
        seen.push(colours(&shown));
        if theme == "mono" {
            assert_eq!(colours(&shown).len(), 1);
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4);
    let mut again = farm();
    again.keys("TTTT");
    again.wait(0);
    again.state.note = None;
    assert_eq!(again.text(), text);
}

#[test]
fn a_large_farm_is_summed_up_in_the_title() {
    let mut shown = Shown::new(FULL, 120, 24);
    let mut all: Vec<_> = (1..=1000)
        .map(|i| node(&format!("n{i}"), f64::from(i % 4) / 2.0))
        .collect();
    all[0].state = "down".into();
    shown.snapshot(all, Vec::new());
    let text = shown.text();
    assert!(text.contains("250 idle, 250 full, 1 down"), "{text}");
}
