//! Where the move of a process to its home and home's connection for it meet, whichever comes first.

use crate::sync::lock;
use armento_model::MoveId;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Both halves of a connection.
pub type Pair = (armento_link::Reader, armento_link::Writer);

#[derive(Default)]
pub struct Meetings(Mutex<HashMap<MoveId, Sender<Pair>>>);

impl Meetings {
    /// A move waits for home's connection.
    pub fn wait_for(&self, mv: MoveId) -> Receiver<Pair> {
        let (tx, rx) = channel();
        lock(&self.0).insert(mv, tx);
        rx
    }

    /// Home has connected: the move that waits, if it does already.
    pub fn take(&self, mv: MoveId) -> Option<Sender<Pair>> {
        lock(&self.0).remove(&mv)
    }
}
