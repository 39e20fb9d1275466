//! Why a process is where it is.

use armento_model::{Pid, Stay};

/// Longest detail that is kept and told; names of files are longer.
const DETAIL_MAX: usize = 200;

/// Why a process is where it is, for `armento why` and `ps`.
#[derive(Clone, Debug)]
pub struct StayReason {
    pub stay: Stay,
    pub detail: String,
    pub partner: Option<Pid>,
}

impl StayReason {
    pub fn new(stay: Stay, detail: &str) -> StayReason {
        StayReason {
            stay,
            detail: detail.chars().take(DETAIL_MAX).collect(),
            partner: None,
        }
    }

    pub fn with(self, partner: Option<Pid>) -> StayReason {
        StayReason { partner, ..self }
    }
}
