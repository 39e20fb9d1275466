//! Packs a call of a body for its deputy, and unpacks the answer.
//!
//! Bad pointers are not judged here: they are replaced by an address that faults
//! everywhere, so that home's kernel says EFAULT at the moment it would, after the
//! checks that come before and before the side effects that come after.

mod exec;
mod iov;
mod msg;
mod pack;
mod packer;
mod unpack;

pub use pack::pack;
pub use unpack::unpack;

use crate::Packed;

/// A packed call, and where its outputs go in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Must stay as it was sent: [`unpack`] compares with it, to write only what changed.
    pub packed: Packed,
    /// One for each of `packed.outs`, in the same order.
    pub dests: Vec<Dest>,
}

/// Where one output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dest {
    /// Address in the body.
    pub addr: u64,
    /// A fault here is not an error, as the kernel ignores it (timeouts of select).
    pub quiet: bool,
    pub upto: Option<Upto>,
}

/// Only so many bytes of an output are valid as another output says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upto {
    /// Index of the output that starts with a u32 length.
    pub out: u32,
    /// How much of that length falls before this output.
    pub skip: u32,
}

/// Why a call was not packed; the body and the home are as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuse {
    /// The call fails at once with this error.
    Errno(i32),
    /// The process must come home and make the call there.
    ComeHome(&'static str),
}
