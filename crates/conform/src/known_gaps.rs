//! What is known to differ from native, and why: the honest list of what does not work yet.
//!
//! A gap is run like any other guest. While it differs it is shown as `gap` and counted as skipped;
//! once it is equal it passes, and the report says to remove it here. `--strict` forgives no gap.
//! Native is what the others are compared with, so it can have no gap.

use crate::task::Mode;

#[derive(Clone, Copy, Debug)]
pub struct Gap {
    pub guest: &'static str,
    pub mode: Mode,
    /// What differs and what is missing, for a user who meets it.
    pub reason: &'static str,
}

/// One line a guest and mode.
pub const GAPS: &[Gap] = &[
    Gap {
        guest: "copying",
        mode: Mode::Storm,
        reason: "what a process at home writes with process_vm_writev into one that moves or is away is lost: nobody sees that call",
    },
    Gap {
        guest: "timers",
        mode: Mode::Storm,
        reason: "a timer's overrun count is lost when its signal waits at the body",
    },
];

/// Why `guest` may differ in `mode`.
pub fn reason(guest: &str, mode: Mode) -> Option<&'static str> {
    let found = GAPS.iter().find(|g| g.guest == guest && g.mode == mode);
    found.map(|g| g.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_name_guests_that_exist_once_and_say_why() {
        let mut seen = std::collections::BTreeSet::new();
        for gap in GAPS {
            let (guest, mode) = (gap.guest, gap.mode);
            assert!(
                crate::catalog::find(guest).is_some(),
                "there is no guest {guest}"
            );
            assert_ne!(mode, Mode::Native, "{guest}: native is right by definition");
            assert!(seen.insert((guest, mode.word())), "{guest} {mode:?} twice");
            assert!(gap.reason.len() > 20, "{guest} {mode:?} says too little");
        }
        assert_eq!(reason("nobody-of-this-name", Mode::Home), None);
    }
}
