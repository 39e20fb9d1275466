//! ONC RPC over TCP (RFC 5531): records, calls, replies. Start at [`Records`].
//!
//! This room knows no program. XDR is `nfs3_types`' work; only byte strings are cut out here, because that library
//! allocates what a length says before it looks whether so much is there.

mod args;
mod call;
mod record;
mod reply;

pub use args::{Args, Garbage};
pub use call::{Call, Opening, User, open};
pub use record::{Next, Records};
pub use reply::{Accept, Body, Reply};
