//! Moves of a process that ended, and why it stays where it is.
//!
//! From: `keeper/src/moves/move_process.rs`, `keeper/src/events/housekeeping.rs` (`--on`). Next: `../pins.rs`,
//! `../home_hold.rs`.

use super::{Process, State};
use crate::state::stay_reason::StayReason;
use std::time::Duration;

impl Process {
    /// A move of it ended; `kept`: why it stays.
    pub fn note_move(&mut self, kept: Option<StayReason>) {
        self.moves += u64::from(kept.is_none());
        self.stay_reason = kept;
    }

    pub fn moves(&self) -> u64 {
        self.moves
    }

    pub fn stay_reason(&self) -> Option<&StayReason> {
        self.stay_reason.as_ref()
    }

    /// Whether it is held at home after a call.
    pub fn held_after_call(&self) -> bool {
        self.hold.is_on()
    }

    /// A call brought it home: keep it there a while.
    pub fn hold_home(&mut self, why: StayReason, storm: Option<Duration>) {
        self.stay_reason = Some(why);
        self.hold.begin(storm);
    }

    /// `--on NODE`: whether it is to go there again now, having come home for a call. It is not asked again at once.
    pub fn must_go_back(&mut self) -> bool {
        let free = !self.pins.for_debugger() && !self.pins.by_hand() && self.hold.may_send_back();
        let must = matches!(self.state, State::AtHome) && free && self.moves > 0;
        if must {
            self.hold.sent_back();
        }
        must
    }

    /// Undoes what pins it.
    pub fn unpin(&mut self) {
        self.pins.undo();
        self.stay_reason = None;
    }
}
