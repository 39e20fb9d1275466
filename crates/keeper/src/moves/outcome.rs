//! How a move ended, and the news by which home learns of it.

use crate::state::{MoveEvent, told_reason};
use armento_migrate::MigrateError;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// What a move cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct MoveCost {
    pub pause: Duration,
    pub total: Duration,
    pub bytes: u64,
}

/// A target that fails gives its own reason.
pub fn reason_of_target(e: MigrateError, news: &Receiver<MoveEvent>) -> MigrateError {
    match told_reason(&e, news) {
        Some((stay, detail)) => MigrateError::Declined(stay, detail),
        None => e,
    }
}
