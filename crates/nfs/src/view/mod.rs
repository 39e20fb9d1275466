//! Which file of a directory a name is, for one node: the tags of ClusterNFS, from a directory as it is now.
//!
//! The rules themselves are [`armento_provision::view`]. Variants are chosen whether or not the user may read them: a
//! client remembers names for all its users. This room sends nothing. Start at [`Dirs`].

mod choose;
mod dirs;

pub use choose::{existing, new, shown};
pub use dirs::{Dirs, Listing};
