//! One thing that is looked at, and how well processes can be moved here.

use serde::Serialize;

/// As the daemon gives it to the host of a tree, when it is root's.
pub(super) const GUEST_UID: u32 = 2_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Ok,
    /// It works, but less well or not for everybody.
    Limited,
    Missing,
}

/// What cannot be done without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    Farm,
    Lab,
    /// Nothing; it makes things faster or safer.
    Nothing,
}

/// One thing looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Stable word for scripts.
    pub id: &'static str,
    pub state: State,
    pub need: Need,
    /// What was seen.
    pub found: String,
    /// What to do about it; empty when all is well.
    pub remedy: String,
}

impl Check {
    pub(super) fn new(
        id: &'static str,
        need: Need,
        state: State,
        found: impl Into<String>,
        remedy: &str,
    ) -> Check {
        let remedy = if state == State::Ok { "" } else { remedy };
        Check {
            id,
            state,
            need,
            found: found.into(),
            remedy: remedy.into(),
        }
    }

    /// A probe that works or fails with an error of the kernel.
    pub(super) fn probe(
        id: &'static str,
        need: Need,
        found: &str,
        result: std::io::Result<()>,
        remedy: &str,
    ) -> Check {
        match result {
            Ok(()) => Check::new(id, need, State::Ok, found, ""),
            Err(e) => Check::new(id, need, State::Missing, format!("{found}: {e}"), remedy),
        }
    }
}

/// How bodies can be moved here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Moves with milliseconds of pause.
    Full,
    /// Moves, but stands still while its memory travels.
    StopCopy,
    None,
}

impl Tier {
    pub(super) fn text(self) -> &'static str {
        match self {
            Tier::Full => "full (memory travels while the program runs)",
            Tier::StopCopy => "stop-copy (programs stand still while their memory travels)",
            Tier::None => "none (this kernel is too old)",
        }
    }
}
