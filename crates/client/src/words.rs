//! Texts that commands and screens share.

use crate::api::{Answer, ProcInfo};
use armento_model::span;
use std::borrow::Cow;

impl ProcInfo {
    /// Why it stays where it is, in a word: STAY of `armento ps`.
    pub fn stay_word(&self) -> Cow<'static, str> {
        match (self.lost_ms, self.stay) {
            (Some(_), _) if self.frozen => "frozen".into(),
            (Some(ms), _) => format!("lost {} s", ms / 1000).into(),
            (None, Some(stay)) => stay.code().into(),
            (None, None) if self.locked => "locked".into(),
            (None, None) => "-".into(),
        }
    }
}

impl Answer {
    /// The result of a move, if this is one.
    pub fn move_words(&self) -> Option<String> {
        let Answer::Moved {
            pid,
            node,
            pause_us,
            total_us,
            bytes,
        } = self
        else {
            return None;
        };
        Some(format!(
            "{pid} is on {node} (stood still for {:.1} ms, took {}, {:.1} MB)",
            *pause_us as f64 / 1000.0,
            span(total_us / 1000),
            *bytes as f64 / 1e6
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_have_figures() {
        let moved = Answer::Moved {
            pid: 4711,
            node: "n3".parse().expect("name"),
            pause_us: 3_240,
            total_us: 180_000,
            bytes: 64_000_000,
        };
        let words = "4711 is on n3 (stood still for 3.2 ms, took 180 ms, 64.0 MB)";
        assert_eq!(moved.move_words().as_deref(), Some(words));
        assert_eq!(Answer::Done.move_words(), None);
    }
}
