//! One check, and the overall level of support for moves.

use serde::Serialize;

/// The user ID of a tree's host under a daemon of root's.
pub(super) const GUEST_UID: u32 = 2_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Ok,
    /// It works, but with restrictions.
    Limited,
    Missing,
}

/// What is impossible without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    Farm,
    Lab,
    /// Nothing; it makes moves faster or safer.
    Nothing,
}

/// One check and its result.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Stable word for scripts.
    pub id: &'static str,
    pub state: State,
    pub need: Need,
    /// The result.
    pub found: String,
    /// The remedy; empty when all is well.
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

/// The kind of moves that this machine supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Moves with milliseconds of pause.
    Full,
    /// Moves, but the program is stopped while its memory is transferred.
    StopCopy,
    None,
}

impl Tier {
    pub(super) fn text(self) -> &'static str {
        match self {
            Tier::Full => "full (memory is transferred while the program runs)",
            Tier::StopCopy => "stop-copy (programs are stopped while their memory is transferred)",
            Tier::None => "none (this kernel is too old)",
        }
    }
}
