//! One host in the table.

use super::record::Record;
use crate::line_sender::LineSender;
use armento_client::api::{Build, GuestInfo};
use std::time::Instant;

/// How far a host is.
pub enum Stage {
    /// It is being started; wait for `Node::hosts_changed`.
    Starting {
        guest_uid: u32,
    },
    Up(Record),
}

/// What is known of one host.
pub struct Entry {
    pub stage: Stage,
    pub session: Option<(u64, LineSender)>,
    /// Since when it has no session.
    pub silent: Instant,
    /// When it last reported which guests it has.
    pub reported_at: Option<Instant>,
    pub guests: Vec<GuestInfo>,
    /// An earlier daemon started it.
    pub recovered: bool,
    /// As it said.
    pub build: Build,
    /// … which may have ordered it to send its guests away, and has not told it since that they may come.
    pub may_be_shut: bool,
    /// It was ordered to send its guests away: when first, and when last.
    pub expelled: Option<(Instant, Instant)>,
}

impl Entry {
    pub fn record(&self) -> Option<&Record> {
        match &self.stage {
            Stage::Up(r) => Some(r),
            Stage::Starting { .. } => None,
        }
    }

    pub fn pid(&self) -> Option<i32> {
        match &self.stage {
            Stage::Up(r) => Some(r.pid),
            Stage::Starting { .. } => None,
        }
    }

    pub fn guest_uid(&self) -> u32 {
        match &self.stage {
            Stage::Up(r) => r.guest_uid,
            Stage::Starting { guest_uid } => *guest_uid,
        }
    }
}
