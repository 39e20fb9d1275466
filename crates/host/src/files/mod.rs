//! Files of home's that guests map, as copies on this node: from home, from another host of the same user, or this node's
//! own where the bytes are the same.
//!
//! It never opens a file for a guest: what is read and written is at home. Start at `table.rs`.

mod cache;
mod incoming;
mod local_copies;
mod table;

pub use cache::{Cache, OTHER_MAX};
pub use incoming::{Incoming, MORE_MAX};
pub use table::FileTable;
