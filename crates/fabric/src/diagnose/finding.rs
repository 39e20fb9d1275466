//! A fault with its place and its proof.

use super::code::Code;
use serde::Serialize;

/// A fault that is proved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub code: &'static str,
    pub node: String,
    /// The link that it is on; empty: the whole node.
    pub link: String,
    /// The node at the other end, if it is about a pair.
    pub peer: Option<String>,
    /// What was seen.
    pub what: String,
    /// A command for the node that shows the same again.
    pub evidence: String,
    pub remedy: String,
}

/// Where a fault is.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) node: &'a str,
    pub(super) link: &'a str,
    pub(super) peer: Option<&'a str>,
}

impl<'a> At<'a> {
    pub(super) fn link(node: &'a str, link: &'a str) -> At<'a> {
        At {
            node,
            link,
            peer: None,
        }
    }
}

/// Takes a fault: code, place, what was seen, a command that shows it.
pub(super) type Add<'a> = &'a mut dyn FnMut(Code, At, String, String);
