//! The hosts with which this keeper has a link, and what it makes links with.
//!
//! From: `keeper/src/hosts/connect.rs` makes them. Next: `keeper/src/deputy/host_link.rs`.

use crate::deputy::HostLink;
use crate::sync::lock;
use armento_link::Identity;
use armento_model::NodeName;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

#[derive(Default)]
pub struct Hosts {
    links: Mutex<HashMap<NodeName, Arc<HostLink>>>,
    /// Nodes to which nothing of ours goes (`send_to`); processes there may come home.
    closed: Mutex<HashSet<NodeName>>,
    /// By node, held while a link is made: a host serves one stream of calls.
    connecting: Mutex<HashMap<NodeName, Arc<Mutex<()>>>>,
    /// The identity that this keeper shows at doors, and when it was issued.
    pub identity: Mutex<Option<(Identity, Instant)>>,
}

impl Hosts {
    /// To be held while a link to `node` is made.
    pub fn connecting(&self, node: &NodeName) -> Arc<Mutex<()>> {
        lock(&self.connecting)
            .entry(node.clone())
            .or_default()
            .clone()
    }

    pub fn get(&self, node: &NodeName) -> Option<Arc<HostLink>> {
        lock(&self.links).get(node).cloned()
    }

    pub fn all(&self) -> Vec<Arc<HostLink>> {
        lock(&self.links).values().cloned().collect()
    }

    pub fn insert(&self, link: &Arc<HostLink>) {
        lock(&self.links).insert(link.node.clone(), link.clone());
    }

    pub fn remove(&self, node: &NodeName) {
        lock(&self.links).remove(node);
    }

    pub fn is_closed(&self, node: &NodeName) -> bool {
        lock(&self.closed).contains(node)
    }

    /// Nothing goes to these nodes from now on; all others are open.
    pub fn close(&self, nodes: impl IntoIterator<Item = NodeName>) {
        *lock(&self.closed) = nodes.into_iter().collect();
    }

    pub fn set_identity(&self, identity: Identity) {
        *lock(&self.identity) = Some((identity, Instant::now()));
    }

    /// The next identity tells doors that a node was removed.
    pub fn forget_identity(&self) {
        *lock(&self.identity) = None;
    }
}
