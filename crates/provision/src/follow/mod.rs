//! Boot servers have the same images: each brings from the others what it lacks. A generation is copied from the server on
//! which its root is edited (its lead), and follows the edits there; which generation nodes boot is the latest choice that
//! was made on any server.
//!
//! ```text
//! images/NAME/3/lead         whose root is edited; without this file: ours
//! images/NAME/.copy-3/       a generation that is on its way: what came of it is kept
//! images/NAME/choice         which generation nodes boot, with a number that grows with each choice
//! ```
//! It opens no connection and holds no key: its caller does. A path of another server is used only below a root. Start at
//! [`Follower`], which asks, and [`Source`], which answers.

mod apply;
mod follower;
mod items;
mod progress;
mod source;
mod wire;

pub use follower::Follower;
pub use progress::{Peers, Progress};
pub use source::Source;
pub use wire::{Stream, retold};
