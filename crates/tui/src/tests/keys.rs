//! Effects of keys on the state, and the requests they make.

use super::*;
use crate::layout::Pane;
use crate::procs::ProcId;
use crate::state::Question;
use crate::trouble::Trouble;
use crate::update::PENDING_MAX;
use armento_client::api::{Answer, Dest};

fn id(pid: i32) -> ProcId {
    ProcId {
        home: name("n1"),
        pid,
        tree: TreeId(1),
    }
}

fn order(shown: &Shown) -> Vec<i32> {
    let procs = &shown.state.procs;
    shown
        .state
        .proc_lines
        .iter()
        .map(|i| procs[*i].id.pid)
        .collect()
}

fn farm() -> Shown {
    Shown::farm(FULL, 80, 24)
}

#[test]
fn arrows_select_and_the_selection_stays_with_the_process() {
    let mut shown = farm();
    assert_eq!(order(&shown), [4717, 4716, 4715, 4714, 4713, 4712, 4711]);
    shown.press(KeyCode::Down);
    shown.keys("j");
    assert_eq!(shown.state.proc_list.chosen, Some(id(4716)));
    shown.keys("r");
    assert_eq!(order(&shown)[0], 4711);
    assert_eq!(shown.state.proc_list.chosen, Some(id(4716)));
    shown.keys("k");
    assert_eq!(shown.state.proc_list.chosen, Some(id(4715)));
    shown.press(KeyCode::End);
    assert_eq!(shown.state.proc_list.chosen, Some(id(4717)));
    shown.press(KeyCode::Home);
    assert_eq!(shown.state.proc_list.chosen, Some(id(4711)));
    shown.press(KeyCode::PageDown);
    assert_ne!(shown.state.proc_list.chosen, Some(id(4711)));
    shown.press(KeyCode::PageUp);
    assert_eq!(shown.state.proc_list.chosen, Some(id(4711)));
    // The process ends: no other one becomes selected in its place.
    shown.snapshot(nodes(), procs(2).split_off(1));
    assert_eq!(shown.state.proc_list.chosen, None);
    assert_eq!(shown.state.note(), Some("4711 has ended"));
    assert_eq!(shown.keys("m"), None);
    assert!(shown.state.popup.is_none());
    assert!(
        shown
            .state
            .note()
            .is_some_and(|n| n.contains("choose a process first"))
    );
}

#[test]
fn sort_keys_cycle_through_shown_columns() {
    let mut shown = farm();
    let head = |s: &Shown| crate::procs::COLUMNS[s.state.proc_list.sort].head;
    let mut seen = vec![head(&shown)];
    for _ in 0..20 {
        shown.keys("s");
        seen.push(head(&shown));
    }
    assert!(seen.contains(&"PID") && seen.contains(&"COMMAND"));
    let first = shown.text();
    let heads = first.lines().find(|l| l.contains("PID")).expect("heads");
    assert!(seen.iter().all(|h| heads.contains(h)), "{seen:?}: {heads}");
    let before = head(&shown);
    shown.keys(">");
    shown.keys("<");
    assert_eq!(head(&shown), before);
    // Nodes have an order of their own.
    shown.keys("\t\tss");
    assert_eq!(shown.state.pane, Pane::Nodes);
    assert_eq!(
        crate::nodes::COLUMNS[shown.state.node_list.sort].head,
        "LOAD"
    );
    assert_eq!(shown.state.node_keys()[0], name("n2"));
    assert_eq!(head(&shown), before);
}

#[test]
fn filters_can_be_typed_kept_and_cleared() {
    let mut shown = farm();
    shown.keys("/sqlq");
    assert!(shown.state.typing && shown.state.proc_lines.is_empty());
    shown.press(KeyCode::Backspace);
    assert_eq!(order(&shown), [4716]);
    // Keys are letters while a filter is typed.
    assert_eq!(shown.keys("\n"), None);
    assert!(!shown.state.typing);
    shown.keys("j");
    assert_eq!(shown.state.proc_list.chosen, Some(id(4716)));
    shown.keys("\x1b");
    assert_eq!(order(&shown).len(), 7);
    assert_eq!(shown.state.proc_list.chosen, Some(id(4716)));
    shown.keys("\x1b");
    assert_eq!(shown.state.proc_list.chosen, None);
    shown.keys("/x\x1b");
    assert!(!shown.state.typing && shown.state.proc_list.filter.is_empty());
    shown.keys("/");
    for _ in 0..1000 {
        shown.keys("x");
    }
    assert_eq!(shown.state.proc_list.filter.len(), 64);
}

#[test]
fn enter_on_a_node_shows_its_processes() {
    let mut shown = farm();
    shown.keys("\t\t");
    assert_eq!(shown.keys("\n"), None);
    assert!(
        shown
            .state
            .note()
            .is_some_and(|n| n.contains("choose a node"))
    );
    shown.keys("jjj\n");
    assert_eq!(shown.state.pane, Pane::Procs);
    assert_eq!(shown.state.proc_list.filter, "@n3");
    assert_eq!(order(&shown), [4712, 4711]);
}

#[test]
fn move_key_sends_request_and_shows_answer() {
    let mut shown = farm();
    shown.press(KeyCode::End);
    shown.keys("m");
    // The list changes while the user chooses: the request concerns the same process.
    shown.snapshot(nodes(), procs(2));
    let asked = Question::Migrate(id(4711), Dest::Node(name("n3")));
    assert_eq!(shown.keys("j\n"), Some(Action::Ask(asked.clone())));
    assert!(shown.state.popup.is_none());
    let moved = Answer::Moved {
        pid: 4711,
        node: name("n3"),
        pause_us: 3_200,
        total_us: 90_000,
        bytes: 1_000_000,
    };
    let action = shown.send(Event::Answer(asked, Ok(Box::new(moved))));
    assert_eq!(action, Some(Action::Look));
    assert!(shown.state.pending.is_empty());
    assert!(
        shown
            .text()
            .contains("4711 is on n3 (stood still for 3.2 ms")
    );
}

#[test]
fn pin_key_holds_and_releases() {
    let check = |pid: i32, keys: &str, dest: Dest| {
        let mut shown = farm();
        shown.keys(&format!("/{pid}\nj"));
        let asked = Action::Ask(Question::Migrate(id(pid), dest));
        assert_eq!(shown.keys(keys), Some(asked), "{pid} {keys:?}");
    };
    check(4711, "p\n", Dest::Hold);
    check(4711, "pj\n", Dest::Balance);
    // It is locked: the opposite is proposed.
    check(4715, "p\n", Dest::Balance);
    check(4711, "m\n", Dest::Home);
    // It is at home, which is not proposed.
    check(4714, "m\n", Dest::Node(name("n3")));
}

#[test]
fn pending_requests_are_bounded() {
    let mut shown = farm();
    shown.press(KeyCode::Down);
    for _ in 0..PENDING_MAX {
        assert!(matches!(shown.keys("m\n"), Some(Action::Ask(_))));
    }
    assert_eq!(shown.keys("m\n"), None);
    assert_eq!(shown.state.pending.len(), PENDING_MAX);
    assert_eq!(shown.keys("w"), None);
    assert!(shown.state.popup.is_none());
}

#[test]
fn processes_of_other_homes_are_explained_but_not_moved() {
    let mut shown = farm();
    assert_eq!(shown.keys("a"), Some(Action::All(true)));
    let foreign = ProcInfo {
        stay: Some(Stay::Traced),
        ..proc(4711, "n3", "n3")
    };
    shown.snapshot(nodes(), vec![foreign]);
    shown.press(KeyCode::Down);
    for key in ["m", "p"] {
        assert_eq!(shown.keys(key), None);
        assert!(shown.state.popup.is_none());
        assert!(shown.state.note().is_some_and(|n| n.contains("n3")));
    }
    assert_eq!(shown.keys("w"), None);
    let text = shown.text();
    assert!(
        text.contains(Stay::Traced.explain()) && text.contains("on n3, its home"),
        "{text}"
    );
    assert_eq!(shown.keys("\x1ba"), Some(Action::All(false)));
}

#[test]
fn refusal_during_other_input_is_a_note() {
    let mut shown = farm();
    shown.press(KeyCode::Down);
    let Some(Action::Ask(question)) = shown.keys("m\n") else {
        panic!("nothing is asked");
    };
    shown.keys("/");
    let no = Trouble {
        message: "it stays".into(),
        hint: "wait".into(),
    };
    shown.send(Event::Answer(question, Err(no)));
    assert!(shown.state.popup.is_none());
    assert_eq!(shown.state.note(), Some("it stays"));
}

#[test]
fn keys_on_a_move_act_on_its_process() {
    let mut shown = farm();
    shown.keys("\t");
    assert_eq!(shown.state.pane, Pane::Moves);
    shown.press(KeyCode::Down);
    let asked = Action::Ask(Question::Why(id(4713)));
    assert_eq!(shown.keys("w"), Some(asked));
}

#[test]
fn quit_and_interrupt_keys_end_the_screen() {
    let mut shown = farm();
    assert_eq!(shown.keys("?q"), None);
    assert_eq!(shown.keys("q"), Some(Action::Quit));
    assert_eq!(shown.keys(" "), Some(Action::Look));
    for keys in ["?", "/"] {
        shown.keys(keys);
        assert_eq!(shown.control('c'), Some(Action::Quit));
    }
    assert_eq!(shown.control('z'), Some(Action::Suspend));
    assert_eq!(shown.control('l'), Some(Action::Redraw));
    let signal = |shown: &mut Shown, n| shown.send(Event::Signal(n));
    assert_eq!(signal(&mut shown, 15), Some(Action::Die(15)));
    assert_eq!(signal(&mut shown, 18), Some(Action::Redraw));
    assert_eq!(signal(&mut shown, 20), Some(Action::Suspend));
    let gone = shown.send(Event::Gone("EIO".into()));
    assert_eq!(gone, Some(Action::Fail("EIO".into())));
}
