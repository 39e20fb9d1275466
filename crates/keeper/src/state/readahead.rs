//! Descriptors that hosts read ahead.

use crate::deputy::HostLink;
use armento_model::Pid;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

pub type ReadAheads = HashMap<(Pid, i32), ReadAhead>;

/// A descriptor that is read ahead. `file`: our own description, with the lease; `None` while we look, and when a process
/// wants to write.
pub struct ReadAhead {
    pub seq: u32,
    pub link: Arc<HostLink>,
    pub file: Option<Arc<File>>,
}
