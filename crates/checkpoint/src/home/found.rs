//! What a descriptor leads to, or why that is not carried.

use super::kinds::Kind;
use std::io;

/// A description, or why it is not carried.
#[derive(Clone, Debug)]
pub enum Found {
    Inside(Box<Kind>),
    /// It leads outside; fine for standard streams of the root. In words.
    Outside(String),
    /// In words, and what to do.
    Not(String, Option<&'static str>),
    /// Closed meanwhile, by a process that runs: it is left out.
    Closed,
}

impl Found {
    pub fn no(what: impl Into<String>) -> Found {
        Found::Not(what.into(), None)
    }

    /// Of an error when something was looked at.
    pub fn failed(what: &str, e: io::Error) -> Found {
        match e.raw_os_error() {
            Some(libc::EBADF | libc::ESRCH) => Found::Closed,
            _ => Found::no(format!("{what} that cannot be read: {e}")),
        }
    }
}
