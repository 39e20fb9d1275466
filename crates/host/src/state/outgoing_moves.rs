//! Moves out of this host: at most one of each process at a time, and how one ends that home gave up.
//!
//! From: `host/src/moves/depart.rs`, `host/src/home/messages.rs`. A source notices late that its target is gone, and home
//! may try again meanwhile. Two moves that track the same memory would take each other's marks, and the one that failed
//! would let run what the other has frozen.

use crate::sync::lock;
use armento_migrate::{MigrateError, Result};
use armento_model::{HomePid, MoveId, Stay};
use std::collections::{HashMap, VecDeque};
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// How long a move waits for the one before, whose connection is cut: as long as for its own.
pub const PREVIOUS_MAX: Duration = Duration::from_secs(10);
/// Far more than there are moves under way at a host.
const ABORTED_MAX: usize = 64;

#[derive(Default)]
pub struct OutgoingMoves {
    table: Mutex<Table>,
    less: Condvar,
}

#[derive(Default)]
struct Table {
    under_way: HashMap<HomePid, (MoveId, Option<TcpStream>)>,
    /// Moves that home has ordered, until they have failed or everything is sent.
    ordered: HashMap<HomePid, MoveId>,
    /// Moves that home gave up, the latest last.
    aborted: VecDeque<MoveId>,
}

/// The one move of a process that is under way.
pub struct OutgoingMove<'a>(&'a OutgoingMoves, HomePid);

impl OutgoingMoves {
    /// Home has ordered a move of `pid`; it begins in a thread of its own.
    pub fn order(&self, mv: MoveId, pid: HomePid) {
        lock(&self.table).ordered.insert(pid, mv);
    }

    /// The move has failed, or everything is sent.
    pub fn over(&self, mv: MoveId, pid: HomePid) {
        let mut table = lock(&self.table);
        if table.ordered.get(&pid) == Some(&mv) {
            table.ordered.remove(&pid);
        }
    }

    pub fn is_ordered(&self, pid: HomePid) -> bool {
        lock(&self.table).ordered.contains_key(&pid)
    }

    /// Waits until no other move of `pid` is under way. `closer`: what breaks the connection over which it goes.
    pub fn begin(
        &self,
        mv: MoveId,
        pid: HomePid,
        closer: Option<TcpStream>,
        max: Duration,
    ) -> Result<OutgoingMove<'_>> {
        let busy = |b: &mut Table| b.under_way.contains_key(&pid);
        let waited = self.less.wait_timeout_while(lock(&self.table), max, busy);
        let (mut table, late) = waited.unwrap_or_else(|e| e.into_inner());
        if late.timed_out() {
            let why = "an earlier move of it does not end".into();
            return Err(MigrateError::Stays(Stay::Busy, why));
        }
        if table.aborted.contains(&mv) {
            return Err(MigrateError::Ended);
        }
        table.under_way.insert(pid, (mv, closer));
        Ok(OutgoingMove(self, pid))
    }

    /// Home gave this move up: what it waits for comes no more. Its freeze may still be to come.
    pub fn abort(&self, mv: MoveId) {
        let mut table = lock(&self.table);
        table.aborted.push_back(mv);
        if table.aborted.len() > ABORTED_MAX {
            table.aborted.pop_front();
        }
        let its = table.under_way.values().filter(|(m, _)| *m == mv);
        its.for_each(|(_, closer)| end(closer.as_ref()));
    }

    pub fn aborted(&self, mv: MoveId) -> bool {
        lock(&self.table).aborted.contains(&mv)
    }
}

impl OutgoingMove<'_> {
    /// Ends the connection: with a handle of ours it would stay open, and the other side would wait.
    pub fn cut(&self) {
        let table = lock(&self.0.table);
        end(table.under_way.get(&self.1).and_then(|(_, c)| c.as_ref()));
    }
}

fn end(connection: Option<&TcpStream>) {
    if let Some(c) = connection {
        // One that is broken already needs no end.
        let _ = c.shutdown(Shutdown::Both);
    }
}

impl Drop for OutgoingMove<'_> {
    fn drop(&mut self) {
        lock(&self.0.table).under_way.remove(&self.1);
        self.0.less.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    const SEVEN: HomePid = HomePid::of_home(7);
    const EIGHT: HomePid = HomePid::of_home(8);
    const SOON: Duration = Duration::from_millis(20);

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let ours =
            TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        (ours, listener.accept().expect("a connection").0)
    }

    #[test]
    fn a_move_waits_for_the_one_before() {
        let all = OutgoingMoves::default();
        let first = all.begin(1, SEVEN, None, SOON).expect("the first");
        assert!(all.begin(2, EIGHT, None, SOON).is_ok());
        assert!(all.begin(2, SEVEN, None, SOON).is_err());
        std::thread::scope(|s| {
            let next = s.spawn(|| all.begin(3, SEVEN, None, PREVIOUS_MAX).is_ok());
            drop(first);
            assert!(next.join().expect("the next"));
        });
    }

    #[test]
    fn a_move_that_was_given_up_is_cut_and_does_not_begin() {
        let all = OutgoingMoves::default();
        let (ours, mut theirs) = connected();
        let closer = ours.try_clone().expect("a second handle");
        let _one = all.begin(1, SEVEN, Some(closer), SOON).expect("a move");
        all.abort(2);
        all.abort(1);
        assert_eq!(theirs.read(&mut [0]).expect("an end"), 0);
        assert!(all.aborted(1));
        assert!(matches!(
            all.begin(2, EIGHT, None, SOON),
            Err(MigrateError::Ended)
        ));
    }

    #[test]
    fn a_failed_move_ends_its_connection() {
        let all = OutgoingMoves::default();
        let (ours, mut theirs) = connected();
        let one = all
            .begin(1, SEVEN, ours.try_clone().ok(), SOON)
            .expect("a move");
        drop(ours);
        one.cut();
        assert_eq!(theirs.read(&mut [0]).expect("an end"), 0);
    }

    #[test]
    fn an_order_stands_until_its_own_move_is_over() {
        let all = OutgoingMoves::default();
        all.order(1, SEVEN);
        all.order(2, SEVEN);
        all.over(1, SEVEN);
        assert!(all.is_ordered(SEVEN) && !all.is_ordered(EIGHT));
        all.over(2, SEVEN);
        assert!(!all.is_ordered(SEVEN));
    }

    #[test]
    fn the_list_of_given_up_moves_is_bounded() {
        let all = OutgoingMoves::default();
        (0..=ABORTED_MAX as MoveId).for_each(|mv| all.abort(mv));
        assert!(!all.aborted(0) && all.aborted(1) && all.aborted(ABORTED_MAX as MoveId));
    }
}
