//! Packs a call of a body for its deputy, and unpacks the result.
//!
//! Bad pointers are not rejected here: they are replaced by an address that faults everywhere, so that home's kernel
//! returns EFAULT at the same point as it would natively: after the checks that come before and before the side effects
//! that come after.

mod exec;
mod iov;
mod msg;
mod pack;
mod packer;
mod unpack;

pub use pack::pack;
pub use unpack::unpack;

use crate::Packed;

/// A packed call, and where its outputs belong in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Must remain as it was sent: [`unpack`] compares with it, to write only what changed.
    pub packed: Packed,
    /// One for each of `packed.outs`, in the same order.
    pub dests: Vec<Dest>,
}

/// The destination of one output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dest {
    /// Address in the body.
    pub addr: u64,
    /// A fault here is not an error, because the kernel ignores it (timeouts of select).
    pub quiet: bool,
    pub upto: Option<Upto>,
}

/// Another output holds the number of valid bytes of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upto {
    /// Index of the output that starts with a u32 length.
    pub out: u32,
    /// The part of that length that belongs to the bytes before this output.
    pub skip: u32,
}

/// Why a call was not packed; the body and the home are unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuse {
    /// The call fails at once with this error.
    Errno(i32),
    /// The process must come home and make the call there.
    ComeHome(&'static str),
}
