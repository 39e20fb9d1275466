//! What can go wrong with the file, and what is left of it.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// Nothing was changed; what was to be written is kept in memory, within bounds, and written later.
    #[error("the history cannot be written: {0}")]
    Full(rusqlite::Error),
    /// The file does not hold what it should. It is put aside, and a new one begun.
    #[error("the history is damaged: {0}")]
    Damaged(rusqlite::Error),
    /// A later Armento has written it. It is not touched.
    #[error("the history {} was written by a later version of Armento (schema {found}, this one knows {known})", path.display())]
    Later {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    /// A question took too long, and was given up.
    #[error("the question took longer than {0} s")]
    Slow(u64),
    #[error("the history: {0}")]
    Other(rusqlite::Error),
    /// The file could not be opened, moved or given its mode.
    #[error("{}: {why}", path.display())]
    File { path: PathBuf, why: std::io::Error },
}

impl HistoryError {
    pub fn is_damaged(&self) -> bool {
        matches!(self, HistoryError::Damaged(_))
    }

    /// What a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            HistoryError::Full(_) => {
                "free some space on the disk of the state directory; jobs that run are counted then"
            }
            HistoryError::Damaged(_) => {
                "the damaged file is kept beside the new one; sqlite3 can recover some of it"
            }
            HistoryError::Later { .. } => {
                "update Armento on this node, or move the file away to begin a new one"
            }
            HistoryError::Slow(_) => "ask for fewer days: --since 7d",
            HistoryError::Other(_) | HistoryError::File { .. } => {
                "see the daemon's log; programs run on without a history"
            }
        }
    }
}

impl From<rusqlite::Error> for HistoryError {
    fn from(e: rusqlite::Error) -> HistoryError {
        use rusqlite::ErrorCode;
        match e.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => HistoryError::Damaged(e),
            Some(
                ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen,
            ) => HistoryError::Full(e),
            // A table or a column that the version promises is not there.
            Some(ErrorCode::Unknown) if e.to_string().contains("no such") => {
                HistoryError::Damaged(e)
            }
            _ => HistoryError::Other(e),
        }
    }
}
