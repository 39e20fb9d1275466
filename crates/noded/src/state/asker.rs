//! The user and the session of a request that takes time.

use super::node::Node;
use std::sync::Arc;

/// Where a request that takes time comes from.
#[derive(Clone)]
pub struct Asker {
    pub node: Arc<Node>,
    pub session: u64,
    pub uid: u32,
}

/// Whether `uid` may command what is `owner`'s.
pub fn may(uid: u32, owner: u32) -> bool {
    uid == 0 || uid == owner
}
