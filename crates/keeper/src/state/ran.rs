//! How much CPU time the programs of the tree have used, until the daemon is told.

use crate::sync::lock;
use armento_client::api::Ran;
use std::sync::Mutex;

/// Ends that wait; of more than so many between two messages the others say nothing new.
const RAN_MAX: usize = 256;

#[derive(Default)]
pub struct RanPrograms(Mutex<Vec<Ran>>);

impl RanPrograms {
    pub fn push(&self, ran: Ran) {
        let mut all = lock(&self.0);
        if all.len() < RAN_MAX {
            all.push(ran);
        }
    }

    pub fn take(&self) -> Vec<Ran> {
        std::mem::take(&mut lock(&self.0))
    }
}
