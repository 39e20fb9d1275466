//! Checkpoints of whole trees whose home is another node, kept in case that home is lost, and their recovery.
//!
//! ```text
//! home: keeper ─► daemon (`away.rs`) ══ peer questions ══► daemon (`receive.rs`) ─► kept/ID.ckpt
//! home is lost; on the other node: `armento farm recover` ─► daemon (`recover.rs`): the lease is over, the tree is taken
//! ```
//! Each question that the keeping node answers is a lease of the home (RFD 75). It never decides that a home is lost, and starts
//! no program: a person asks, and the command starts it with the user's own rights.

mod away;
mod receive;
mod recover;

pub use away::{keep_away, keeper_gone};
pub use receive::{Owner, step};
pub use recover::{kept_here, list, recover};
