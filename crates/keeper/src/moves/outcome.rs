//! How a move ended, and the news by which home learns of it.

use crate::state::MoveEvent;
use armento_migrate::{MigrateError, Result};
use armento_model::{CpuTime, Stay};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// How long the other node may take from the freeze to Ready. Bodies of a dead node are not waited for.
pub const READY_MAX: Duration = Duration::from_secs(20);

/// What a move cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct MoveCost {
    pub pause: Duration,
    pub total: Duration,
    pub bytes: u64,
}

/// Waits for Ready or Failed: the bytes that came, and the CPU time used away before.
pub fn await_ready(news: &Receiver<MoveEvent>, limit: Duration) -> Result<(u64, CpuTime)> {
    news.recv_timeout(limit)
        .map_or_else(|_| Err(not_finished()), ready)
}

pub fn not_finished() -> MigrateError {
    MigrateError::Stays(Stay::LinkLost, "the other node did not finish".into())
}

/// The first news of a move, as its result.
pub fn ready(news: MoveEvent) -> Result<(u64, CpuTime)> {
    match news {
        MoveEvent::Ready { bytes, away } => Ok((bytes, away)),
        MoveEvent::Failed { stay, detail } => Err(MigrateError::Declined(stay, detail)),
        MoveEvent::Thawed | MoveEvent::Warmed => Err(MigrateError::Stays(
            Stay::TargetFailed,
            "thawed too early".into(),
        )),
    }
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
