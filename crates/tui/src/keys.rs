//! The table of keys and what they do: the footer and the help page are made from it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Do {
    Help,
    Quit,
    Migrate,
    Pin,
    Why,
    Filter,
    SortNext,
    SortBefore,
    SortMenu,
    Reverse,
    Tree,
    Theme,
    NextPane,
    PaneBefore,
    All,
    Look,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    /// Closes a popup, clears the filter, or drops the choice: one at a time.
    Back,
    Suspend,
    Redraw,
    Interrupt,
}

pub struct Bind {
    /// Each key, and whether it is pressed with Ctrl.
    pub keys: &'static [(KeyCode, bool)],
    pub shown: &'static str,
    /// Label in the footer; empty for keys that are not shown there.
    pub short: &'static str,
    pub about: &'static str,
    pub does: Do,
}

const fn ch(c: char) -> (KeyCode, bool) {
    (KeyCode::Char(c), false)
}

const fn ctrl(c: char) -> (KeyCode, bool) {
    (KeyCode::Char(c), true)
}

const fn key(code: KeyCode) -> (KeyCode, bool) {
    (code, false)
}

/// In the order of the footer, where the last ones are dropped first.
pub const KEYS: &[Bind] = &[
    bind(
        &[ch('?'), ch('h'), key(KeyCode::F(1))],
        "?",
        "help",
        "this page",
        Do::Help,
    ),
    bind(
        &[ch('q')],
        "q",
        "quit",
        "ends the screen; or closes what is open",
        Do::Quit,
    ),
    bind(
        &[ch('m')],
        "m",
        "move",
        "moves the chosen process: choose a node, or home",
        Do::Migrate,
    ),
    bind(
        &[ch('p')],
        "p",
        "pin",
        "holds it at home, or lets the farm choose again",
        Do::Pin,
    ),
    bind(
        &[ch('w'), key(KeyCode::Enter)],
        "w",
        "why",
        "why it is where it is (Enter, too); of a node: its processes",
        Do::Why,
    ),
    bind(
        &[ch('/')],
        "/",
        "filter",
        "lines with these words only; @n3: processes that are on n3",
        Do::Filter,
    ),
    bind(
        &[ch('s'), ch('>'), ch('.')],
        "s",
        "sort",
        "by the next column (>), < by the one before",
        Do::SortNext,
    ),
    bind(
        &[ch('<'), ch(',')],
        "<",
        "",
        "sorts by the column before",
        Do::SortBefore,
    ),
    bind(
        &[ch('o')],
        "o",
        "",
        "sorts by a column of a list; a click on its head does it, too",
        Do::SortMenu,
    ),
    bind(
        &[ch('t')],
        "t",
        "tree",
        "processes below their parents, or in one list",
        Do::Tree,
    ),
    bind(
        &[ch('T')],
        "T",
        "",
        "other colours: dark, light, mono, contrast",
        Do::Theme,
    ),
    bind(
        &[ch('r')],
        "r",
        "reverse",
        "the other way round",
        Do::Reverse,
    ),
    bind(
        &[key(KeyCode::Tab)],
        "Tab",
        "pane",
        "keys go to the next pane: nodes, processes, moves",
        Do::NextPane,
    ),
    bind(
        &[key(KeyCode::BackTab)],
        "Shift-Tab",
        "",
        "... to the pane before",
        Do::PaneBefore,
    ),
    bind(
        &[ch('a')],
        "a",
        "all",
        "processes of the whole farm, or of this home only",
        Do::All,
    ),
    bind(&[ch(' ')], "Space", "", "asks the daemon now", Do::Look),
    bind(
        &[key(KeyCode::Up), ch('k')],
        "Up k",
        "",
        "chooses the line above",
        Do::Up,
    ),
    bind(
        &[key(KeyCode::Down), ch('j')],
        "Down j",
        "",
        "chooses the line below",
        Do::Down,
    ),
    bind(
        &[key(KeyCode::PageUp), ctrl('b')],
        "PgUp",
        "",
        "a page up",
        Do::PageUp,
    ),
    bind(
        &[key(KeyCode::PageDown), ctrl('f')],
        "PgDn",
        "",
        "a page down",
        Do::PageDown,
    ),
    bind(
        &[key(KeyCode::Home), ch('g')],
        "Home g",
        "",
        "the first line",
        Do::First,
    ),
    bind(
        &[key(KeyCode::End), ch('G')],
        "End G",
        "",
        "the last line",
        Do::Last,
    ),
    bind(
        &[key(KeyCode::Esc)],
        "Esc",
        "",
        "closes, clears the filter, drops the choice",
        Do::Back,
    ),
    bind(
        &[ctrl('z')],
        "Ctrl-Z",
        "",
        "back to the shell; `fg` comes back",
        Do::Suspend,
    ),
    bind(
        &[ctrl('l')],
        "Ctrl-L",
        "",
        "draws everything again",
        Do::Redraw,
    ),
    bind(&[ctrl('c')], "Ctrl-C", "", "ends the screen", Do::Interrupt),
];

const fn bind(
    keys: &'static [(KeyCode, bool)],
    shown: &'static str,
    short: &'static str,
    about: &'static str,
    does: Do,
) -> Bind {
    Bind {
        keys,
        shown,
        short,
        about,
        does,
    }
}

pub fn is_ctrl(key: &KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL)
}

/// What a key does while no filter is typed.
pub fn find(key: &KeyEvent) -> Option<Do> {
    let foreign = KeyModifiers::ALT | KeyModifiers::META | KeyModifiers::SUPER;
    if key.kind == KeyEventKind::Release || key.modifiers.intersects(foreign) {
        return None;
    }
    let pressed = (key.code, is_ctrl(key));
    let bind = KEYS.iter().find(|b| b.keys.contains(&pressed))?;
    Some(bind.does)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_and_actions_match_one_to_one() {
        let mut keys = HashSet::new();
        for bind in KEYS {
            assert!(!bind.about.is_empty() && !bind.shown.is_empty());
            for key in bind.keys {
                assert!(keys.insert(key), "{key:?} twice");
            }
        }
    }

    #[test]
    fn modifiers_matter() {
        let find = |c, m| find(&KeyEvent::new(KeyCode::Char(c), m));
        assert_eq!(find('c', KeyModifiers::CONTROL), Some(Do::Interrupt));
        assert_eq!(find('c', KeyModifiers::NONE), None);
        assert_eq!(find('G', KeyModifiers::SHIFT), Some(Do::Last));
        assert_eq!(find('q', KeyModifiers::ALT), None);
    }
}
