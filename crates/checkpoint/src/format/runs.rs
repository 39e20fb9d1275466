//! Where the pages of a process are: runs of pages that follow each other.

use serde::{Deserialize, Serialize};

pub const PAGE: usize = 4096;
/// Runs of one frame: each takes at most 26 bytes (postcard), so they fit.
pub const RUNS: usize = 4096;
/// KERNEL: user addresses of x86-64 end below 2^56 with five levels of page tables.
const END: u64 = 1 << 56;

/// A page that is read.
#[derive(Debug, PartialEq, Eq)]
pub enum Page<'a> {
    /// So many zero pages from here on.
    Zeros(u64),
    Bytes(&'a [u8; PAGE]),
}

/// What the pages of a run hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Held {
    Zeros,
    /// The distinct pages from this number on.
    From(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub at: u64,
    pub pages: u32,
    pub held: Held,
}

impl Run {
    pub fn bytes(&self) -> u64 {
        u64::from(self.pages) * PAGE as u64
    }

    /// Takes in a run that goes on where this one ends.
    pub fn extend(&mut self, by: &Run) -> bool {
        let follows = match (self.held, by.held) {
            (Held::Zeros, Held::Zeros) => true,
            (Held::From(n), Held::From(m)) => n + u64::from(self.pages) == m,
            _ => false,
        };
        let sum = self.pages.checked_add(by.pages);
        match sum.filter(|_| follows && self.at + self.bytes() == by.at) {
            Some(sum) => {
                self.pages = sum;
                true
            }
            None => false,
        }
    }

    /// Whether it lies in a process's memory, and holds pages that exist.
    pub fn sound(&self, distinct: u64) -> bool {
        let placed = self.at.is_multiple_of(PAGE as u64)
            && self.pages > 0
            && self.at < END
            && self.bytes() <= END - self.at;
        let held = match self.held {
            Held::Zeros => true,
            Held::From(n) => n <= distinct && u64::from(self.pages) <= distinct - n,
        };
        placed && held
    }
}
