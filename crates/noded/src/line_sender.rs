//! The sending end of a control session.

use armento_client::api::{Body, Line};
use armento_client::version;
use tokio::sync::mpsc;

/// Lines waiting for one session; what a slower reader misses is lost to it.
pub const LINES_MAX: usize = 1024;

/// Lines to one control session.
#[derive(Clone)]
pub struct LineSender(pub mpsc::Sender<Line>);

impl LineSender {
    /// False when the session is gone or does not read.
    pub fn send(&self, id: u64, body: Body) -> bool {
        let v = version::spoken();
        self.0.try_send(Line { v, id, body }).is_ok()
    }
}
