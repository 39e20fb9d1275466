//! Names and attributes that the kernel keeps: what servers say of changes is passed on.
//!
//! A thread for each node, because the kernel lets it wait for calls in the directory. Each change is passed on once
//! more a little later: a lookup whose answer was just given may have been entered after the first time.

use crate::fuse::Device;
use crate::sync::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// For how long the kernel keeps what servers tell us of: a limit for the case that a change is not told of (of a mapped
/// file, of a mount over a directory).
pub const KEEP: Duration = Duration::from_secs(60);
/// Time from an answer until the caller has entered it: two orders above a switch of threads.
const SETTLE: Duration = Duration::from_millis(20);
/// Changes of a node that wait to be passed on, at most; then it is all of them.
const CHANGES_MAX: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Name(u64, Vec<u8>),
    Attr(u64),
    All,
    /// All of a file's pages, and then a call is answered that found them void.
    Pages(u64, u64),
}

type Known = Box<dyn Fn(usize) -> Vec<(u64, u64, Vec<u8>)> + Send + Sync>;

pub struct Keep {
    device: Arc<Device>,
    nodes: Mutex<HashMap<usize, Sender<Change>>>,
    known: Arc<Known>,
}

impl Keep {
    /// `known`: all files of a node as number, directory and name.
    pub fn new(device: Arc<Device>, known: Known) -> Keep {
        Keep {
            device,
            nodes: Mutex::default(),
            known: Arc::new(known),
        }
    }

    pub fn send(&self, node: usize, c: Change) {
        let mut nodes = lock(&self.nodes);
        let to = nodes.entry(node).or_insert_with(|| {
            let (tx, rx) = channel();
            let (device, known) = (self.device.clone(), self.known.clone());
            // Without the thread changes are seen when KEEP is over.
            let _ = std::thread::Builder::new()
                .name("mfs-keep".into())
                .spawn(move || run(&device, &known, node, &rx));
            tx
        });
        let _ = to.send(c);
    }

    pub fn close(&self) {
        lock(&self.nodes).clear();
    }
}

fn run(device: &Device, known: &Known, node: usize, changes: &std::sync::mpsc::Receiver<Change>) {
    let mut again: VecDeque<(Instant, Change)> = VecDeque::new();
    loop {
        let next = again.front().map(|(t, _)| *t);
        let got = match next {
            None => changes.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(t) => changes.recv_timeout(t.saturating_duration_since(Instant::now())),
        };
        match got {
            Ok(c) => {
                pass(device, known, node, &c);
                if matches!(c, Change::Pages(..)) {
                    continue;
                }
                if again.len() >= CHANGES_MAX {
                    again.clear();
                    again.push_back((Instant::now() + SETTLE, Change::All));
                } else {
                    again.push_back((Instant::now() + SETTLE, c));
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Some((_, c)) = again.pop_front() {
                    pass(device, known, node, &c);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn pass(device: &Device, known: &Known, node: usize, c: &Change) {
    // A kernel that knows neither file nor name has nothing to drop.
    match c {
        Change::Name(dir, name) => drop(device.invalidate_name(*dir, name)),
        Change::Attr(n) => drop(device.invalidate_file(*n, false)),
        Change::Pages(n, unique) => {
            drop(device.invalidate_file(*n, true));
            device.reply(*unique, 0, &[]);
        }
        Change::All => {
            for (n, dir, name) in known(node) {
                if dir != 0 {
                    drop(device.invalidate_name(dir, &name));
                }
                drop(device.invalidate_file(n, false));
            }
        }
    }
}
