//! A poll or select of connections that go directly to another host, and of others.

use armento_wire::sockets::EndId;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Where the results go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollForm {
    /// An array of struct pollfd.
    Array(u64),
    /// So many descriptors, and the addresses of the three sets of a select.
    Sets(u64, [u64; 3]),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Polled {
    /// Number of the guest's call.
    pub nr: i32,
    /// Descriptors with the events that are asked for.
    pub set: Vec<(i32, i16)>,
    pub form: PollForm,
    pub limit: Option<Duration>,
    /// Where what is left of the limit is written, and the unit of its second word in nanoseconds.
    pub rest_at: Option<(u64, u64)>,
}

/// Such a call while it waits.
pub struct PollWatch {
    pub polled: Polled,
    /// Of each descriptor of the set its direct connection; the others are home's.
    pub ends: Vec<Option<EndId>>,
    pub begun: Instant,
    /// It has ended, or will without our doing.
    pub over: AtomicBool,
}

impl PollWatch {
    pub fn new(polled: Polled, ends: Vec<Option<EndId>>) -> PollWatch {
        PollWatch {
            polled,
            ends,
            begun: Instant::now(),
            over: AtomicBool::new(false),
        }
    }

    /// What home polls.
    pub fn others(&self) -> impl Iterator<Item = (i32, i16)> {
        let pairs = self.polled.set.iter().zip(&self.ends);
        pairs
            .filter(|((fd, _), end)| *fd >= 0 && end.is_none())
            .map(|(one, _)| *one)
    }
}
