//! Which nodes were removed, as the farm last said.

use crate::revocation::{Revocation, Signed};
use std::sync::{Arc, Mutex, PoisonError};

pub struct Revoked {
    /// The newest list of removed nodes, and the statement that it comes from.
    newest: Mutex<(Arc<Revocation>, Option<Signed>)>,
    /// One statement is applied at a time.
    pub applying: Mutex<()>,
}

impl Revoked {
    pub fn new(list: Revocation, statement: Option<Signed>) -> Revoked {
        Revoked {
            newest: Mutex::new((Arc::new(list), statement)),
            applying: Mutex::new(()),
        }
    }

    pub fn list(&self) -> Arc<Revocation> {
        self.newest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .clone()
    }

    /// The newest statement of the farm, for members that did not receive it.
    pub fn statement(&self) -> Option<Signed> {
        self.newest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1
            .clone()
    }

    /// What handshakes check, as PEM.
    pub fn crl(&self) -> Option<String> {
        self.list().crl_pem.clone()
    }

    /// Before: `applying` is locked.
    pub fn replace(&self, list: Revocation, statement: Signed) {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) =
            (Arc::new(list), Some(statement));
    }
}
