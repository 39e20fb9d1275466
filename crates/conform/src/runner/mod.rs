//! The part inside a node: starts a guest as an ordinary user in a fresh directory, and reports its outcome.
//!
//! Start at [`serve`], which reads tasks as JSON lines and answers each.

mod launch;
mod leftovers;
mod moves;
mod pty;
mod serve;

pub(crate) use serve::serve;
