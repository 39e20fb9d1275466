//! How a move ended, and the news by which home learns of it.

use crate::state::MoveEvent;
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

/// A target that fails closes its connection and gives the reason on the calls stream.
pub fn reason_of_target(e: MigrateError, news: &Receiver<MoveEvent>) -> MigrateError {
    match (
        &e,
        news.recv_timeout(Duration::from_millis(
            if matches!(e, MigrateError::Link(_)) {
                300
            } else {
                0
            },
        )),
    ) {
        (MigrateError::Link(_), Ok(MoveEvent::Failed { stay, detail })) => {
            MigrateError::Declined(stay, detail)
        }
        _ => e,
    }
}
