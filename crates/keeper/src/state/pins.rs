//! Why the balancer and a storm leave a process where it is.

use serde::{Deserialize, Serialize};

/// What pins a process to its place. Each reason has its own end, and any of them may hold together: a process that
/// `--on` pins can be placed elsewhere by hand, and be held for a debugger after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    /// `--stay` or `--on`; children have it from their parents.
    by_option: bool,
    /// A person put it where it is: it stays there until they give it back, it begins another program, or a call needs
    /// it at home.
    by_hand: bool,
    /// Its user wants it at home and not seized: a debugger is to have it.
    for_debugger: bool,
}

impl Pins {
    pub fn new(by_option: bool) -> Pins {
        Pins {
            by_option,
            by_hand: false,
            for_debugger: false,
        }
    }

    pub fn any(self) -> bool {
        self.by_option || self.by_hand || self.for_debugger
    }

    /// Whether its children are pinned, too.
    pub fn by_option(self) -> bool {
        self.by_option
    }

    pub fn by_hand(self) -> bool {
        self.by_hand
    }

    pub fn for_debugger(self) -> bool {
        self.for_debugger
    }

    pub fn place_by_hand(&mut self) {
        self.by_hand = true;
    }

    pub fn hold_for_debugger(&mut self, yes: bool) {
        self.for_debugger = yes;
    }

    /// It is somewhere else now, or another program.
    pub fn place_changed(&mut self) {
        self.by_hand = false;
    }

    /// Undoes the hold for a debugger; without one, every other pin.
    pub fn undo(&mut self) {
        *self = Pins {
            by_option: self.by_option && self.for_debugger,
            by_hand: self.by_hand && self.for_debugger,
            for_debugger: false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_undone_before_other_pins() {
        let mut p = Pins::new(true);
        p.place_by_hand();
        let before = p;
        p.hold_for_debugger(true);
        p.undo();
        assert_eq!(p, before);
        p.undo();
        assert_eq!(p, Pins::new(false));
        assert!(!p.any());
    }

    #[test]
    fn another_place_ends_only_the_pin_by_hand() {
        let mut p = Pins::new(true);
        p.place_by_hand();
        p.hold_for_debugger(true);
        p.place_changed();
        assert!(p.by_option() && p.for_debugger() && !p.by_hand());
    }
}
