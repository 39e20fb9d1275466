//! What a procedure answers.

use crate::rpc::{Accept, Garbage};
use nfs3_types::xdr_codec::Pack;

pub type Answer = Result<Accept, Garbage>;

/// Results without a file's content.
pub fn done(results: &impl Pack) -> Answer {
    let mut bytes = Vec::with_capacity(results.packed_size());
    // A vector takes everything; results of ours have no lengths beyond 32 bits.
    let _ = results.pack(&mut bytes);
    Ok(Accept::Done(bytes, None))
}
