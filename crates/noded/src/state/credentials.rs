//! The keys of this node, and the identities that are signed with them.

use super::revoked::Revoked;
use crate::error::FarmError;
use armento_link::{Badge, Identity, LinkError, Listener, NodeKeys};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Life of the certificates handed to keepers and hosts.
const SHORT_TTL: Duration = Duration::from_secs(24 * 3600);

pub struct Credentials {
    pub keys: NodeKeys,
    /// The daemon's own identity, renewed now and then.
    identity: Mutex<Identity>,
    /// Where other daemons connect, while it is open.
    listener: Mutex<Option<Arc<Listener>>>,
}

impl Credentials {
    pub fn new(keys: NodeKeys, revoked: &Revoked) -> Result<Credentials, FarmError> {
        let identity = keys
            .sign_short(&Badge::daemon(&keys.node), SHORT_TTL)
            .map_err(FarmError::Keys)?
            .with_removed(revoked.crl());
        Ok(Credentials {
            keys,
            identity: Mutex::new(identity),
            listener: Mutex::default(),
        })
    }

    pub fn identity(&self) -> Identity {
        let identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        identity.clone()
    }

    /// A short identity with the list of removed nodes.
    pub fn signed(&self, badge: &Badge, revoked: &Revoked) -> Result<Identity, LinkError> {
        let identity = self.keys.sign_short(badge, SHORT_TTL)?;
        Ok(identity.with_removed(revoked.crl()))
    }

    /// A new identity of our own, for connections to come.
    pub fn renew(&self, revoked: &Revoked) -> Result<(), LinkError> {
        let fresh = self.signed(&Badge::daemon(&self.keys.node), revoked)?;
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = &*listener {
            listener.renew(&fresh)?;
        }
        drop(listener);
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// Other daemons connect there from now on; `None`: nowhere.
    pub fn listen(&self, listener: Option<Arc<Listener>>) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = listener;
    }
}
