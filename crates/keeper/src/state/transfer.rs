//! How far the moves are whose memory home sends or receives.

use crate::sync::lock;
use armento_client::api::Moving;
use armento_model::{NodeName, Pid};
use std::collections::HashMap;
use std::io::{IoSlice, Read, Result, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

struct Transfer {
    to: NodeName,
    bytes: Arc<AtomicU64>,
    since: Instant,
}

/// Transfers under way, by process: one move of a process at a time.
#[derive(Default)]
pub struct Transfers(Mutex<HashMap<Pid, Transfer>>);

impl Transfers {
    /// It is under way until the returned value is dropped.
    pub fn begin(&self, pid: Pid, to: NodeName) -> UnderWay<'_> {
        let bytes: Arc<AtomicU64> = Arc::default();
        let transfer = Transfer {
            to,
            bytes: bytes.clone(),
            since: Instant::now(),
        };
        lock(&self.0).insert(pid, transfer);
        UnderWay {
            all: self,
            pid,
            bytes,
        }
    }

    pub fn of(&self, pid: Pid) -> Option<Moving> {
        let all = lock(&self.0);
        let transfer = all.get(&pid)?;
        Some(Moving {
            to: transfer.to.clone(),
            bytes: transfer.bytes.load(Ordering::Relaxed),
            for_ms: transfer.since.elapsed().as_millis() as u64,
        })
    }
}

/// A transfer, whose bytes are counted as they pass.
pub struct UnderWay<'a> {
    all: &'a Transfers,
    pid: Pid,
    bytes: Arc<AtomicU64>,
}

impl UnderWay<'_> {
    pub fn counted<T>(&self, stream: T) -> Counted<T> {
        Counted {
            stream,
            bytes: self.bytes.clone(),
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        lock(&self.all.0).remove(&self.pid);
    }
}

/// A stream whose bytes are counted.
pub struct Counted<T> {
    stream: T,
    bytes: Arc<AtomicU64>,
}

impl<T> Counted<T> {
    fn count(&self, done: Result<usize>) -> Result<usize> {
        if let Ok(n) = &done {
            self.bytes.fetch_add(*n as u64, Ordering::Relaxed);
        }
        done
    }
}

impl<T: Write> Write for Counted<T> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let done = self.stream.write(bytes);
        self.count(done)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize> {
        let done = self.stream.write_vectored(pieces);
        self.count(done)
    }

    fn flush(&mut self) -> Result<()> {
        self.stream.flush()
    }
}

impl<T: Read> Read for Counted<T> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let done = self.stream.read(bytes);
        self.count(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_is_known_while_it_lasts() {
        let all = Transfers::default();
        let under_way = all.begin(7, "n2".parse().expect("name"));
        let mut to = under_way.counted(Vec::new());
        to.write_all(&[0; 300]).expect("memory");
        let mut from = under_way.counted(&b"0123456789"[..]);
        let _ = from.read(&mut [0; 4]).expect("memory");
        let moving = all.of(7).expect("under way");
        assert_eq!((moving.to.as_str(), moving.bytes), ("n2", 304));
        drop(under_way);
        assert_eq!(all.of(7), None);
    }
}
