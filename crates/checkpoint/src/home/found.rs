//! What a descriptor leads to, or why that is not carried.

use super::kinds::Kind;

/// A description, or why it is not carried.
#[derive(Clone, Debug)]
pub enum Found {
    Inside(Box<Kind>),
    /// It leads outside; fine for standard streams of the root. In words.
    Outside(String),
    /// In words, and what to do.
    Not(String, Option<&'static str>),
}

impl Found {
    pub fn no(what: impl Into<String>) -> Found {
        Found::Not(what.into(), None)
    }
}
