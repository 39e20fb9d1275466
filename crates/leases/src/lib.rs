//! Read leases on files, by which what was read of a file may be relied on until another process wants to write it.
//!
//! ```text
//! own.rs      leases that this process takes by itself: on files of its user, or with CAP_LEASE
//! client.rs   leases that a lease holder takes for it: on whatever it may read
//! holder.rs   the lease holder: one process a user, with CAP_LEASE and no other right
//! leased.rs   a file with a lease of either kind
//! ```
//! A lease holder ends a lease the moment a writer waits, whatever its client does: a client that is stopped keeps no writer
//! waiting. Before that it counts the break in a page that the client reads ahead of each message that it sends.
//!
//! KERNEL: fcntl(2), F_SETLEASE: the process that opens the file for writing waits until the lease is given back.

mod client;
mod holder;
mod leased;
mod own;
mod protocol;
pub mod socket;
mod sys;

pub use client::{Holder, breaks, find_by, settle};
pub use holder::serve;
pub use leased::Leased;
pub use own::{hear, take, wanted};
