//! What links need of their mount.

use crate::client::keep::Change;
use crate::farm::Farm;
use crate::protocol::Reply;
use std::sync::Arc;
use std::time::Duration;

/// The mount to which a link belongs.
pub trait Owner: Send + Sync + 'static {
    fn farm(&self) -> &dyn Farm;
    /// For how long a call waits for a node that does not answer.
    fn deadline(&self) -> Duration;
    fn cache(&self) -> bool;
    /// The mount point.
    fn point(&self) -> Vec<u8>;
    /// What the kernel keeps of a node is not so any more.
    fn changed(&self, node: usize, c: Change);
}

/// What is done with an answer. `Err`: an errno.
pub type Done<C> = Box<dyn FnOnce(&Arc<C>, Result<(Reply, &[u8]), i32>) + Send>;
/// What is done once the link is up.
pub type Job<C> = Box<dyn FnOnce(&Arc<C>, Result<(), i32>) + Send>;

/// A session's name.
pub fn random() -> [u8; 16] {
    use std::hash::{BuildHasher, Hasher};
    let mut b = [0; 16];
    if std::fs::File::open("/dev/urandom")
        .and_then(|mut f| std::io::Read::read_exact(&mut f, &mut b))
        .is_err()
    {
        let n = std::collections::hash_map::RandomState::new()
            .build_hasher()
            .finish();
        b[..8].copy_from_slice(&n.to_le_bytes());
    }
    b
}
