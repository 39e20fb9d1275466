//! Tags of ClusterNFS: several files under one name, one for each client. Pure. Start at [`lookup`].
//!
//! Source of the order: tags(7) of unfs3, and the README of ClusterNFS. unfs3's code tries `HOST=n1*` before `HOST=n1`,
//! against its own manual; this follows the manual.

mod resolve;
mod tag;
mod walk;

pub use resolve::{Chosen, Considered, Rule, create, list, lookup};
pub use tag::{Client, Tag, split};
pub use walk::{Seen, ViewError, walk};
