//! The life of one connection that goes directly: from the hosts' meeting until home has its bytes again.
//!
//! From: `offer.rs`. Next: `host/src/calls/sockets.rs` at both hosts.
//!
//! Home's two sockets stay connected, and idle. Copies of both are held here, so they stay open when a process ends: the other end gets what
//! the process had written, and then the end.

use super::merge::{Remains, unread_bytes};
use super::pair::{self, EndAt};
use super::{quiet, sys};
use crate::deputy::HostLink;
use crate::state::{DirectConnection, Keep, SocketEvents};
use armento_model::HomePid;
use armento_wire::sockets::{EndId, Meeting, Recall, SocketNews, SocketOrder};
use armento_wire::talk::ToHost;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// How long the hosts may take to meet, and to hold their calls.
const MEET_MAX: Duration = Duration::from_secs(7);
const HOLD_MAX: Duration = Duration::from_secs(3);
/// A host that is not lost gives its bytes within this time.
const END_MAX: Duration = Duration::from_secs(30);
/// How often a direct connection's links are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Bytes between home's own sockets are there within this time, if there is room for them.
const ARRIVAL_MAX: Duration = Duration::from_millis(20);
const ARRIVAL_LOOK: Duration = Duration::from_micros(50);
/// How often it is looked whether a lost process's peer has taken bytes that did not fit at once.
const FEED_LOOK_MS: i32 = 200;

/// How the direct phase ended, or why it did not begin.
pub enum Over {
    /// As [`Recall`]; and how long it was direct.
    Recalled(Recall, Duration),
    /// It did not come to it.
    Not(&'static str),
}

pub struct Life<'a> {
    pub keep: &'a Arc<Keep>,
    pub known: &'a DirectConnection,
    pub ends: [EndAt; 2],
    pub events: SocketEvents,
}

impl Life<'_> {
    fn id(&self, side: usize) -> EndId {
        EndId::new(self.known.number, side)
    }

    fn order(&self, side: usize, order: SocketOrder) {
        self.ends[side].link.send(&ToHost::Socket(order));
    }

    /// Calls go on at home. Our copies of the sockets are closed before: a close there must be the last.
    fn both_home(self) {
        let number = self.known.number;
        let links = self.ends.map(|e| e.link);
        for (side, link) in links.iter().enumerate() {
            let end = EndId::new(number, side);
            link.send(&ToHost::Socket(SocketOrder::Home { end }));
        }
    }

    fn lost(&self, side: usize) -> bool {
        self.ends[side].link.broken.load(Ordering::Acquire)
    }

    pub fn live(self) -> Over {
        let window = match self.begin() {
            Ok(window) => window,
            Err(over) => {
                self.both_home();
                return over;
            }
        };
        let since = Instant::now();
        let ends = self.ends.each_ref().map(EndAt::end);
        self.keep.busy_sockets.direct(ends, since);
        let why = self.await_recall();
        self.give_back(window);
        Over::Recalled(why, since.elapsed())
    }

    /// Everything up to the switch. After an error nothing of home's sockets was changed.
    fn begin(&self) -> Result<usize, Over> {
        let [a, b] = &self.ends;
        for (side, meeting) in self.meetings(&a.link, &b.link)?.into_iter().enumerate() {
            let EndAt { pid, fd, .. } = self.ends[side];
            let pid = HomePid::of_home(pid);
            let end = self.id(side);
            self.order(
                side,
                SocketOrder::Meet {
                    end,
                    pid,
                    fd,
                    meeting,
                },
            );
        }
        self.await_both(MEET_MAX, |news| match news {
            SocketNews::Met { failed: None, .. } => Ok(true),
            SocketNews::Met { .. } => Err(Over::Not("the hosts did not meet")),
            _ => Ok(false),
        })?;
        for side in [0, 1] {
            self.order(side, SocketOrder::Hold { end: self.id(side) });
        }
        self.await_both(HOLD_MAX, |news| Ok(matches!(news, SocketNews::Held { .. })))?;
        for end in &self.ends {
            quiet::end_calls(self.keep, end.pid, end.fd).map_err(Over::Not)?;
        }
        if !pair::still(self.keep, &self.ends) {
            return Err(Over::Not("another descriptor has it, too"));
        }
        let window = pair::window(&self.ends).map_err(Over::Not)?;
        let [first, second] = take_received(&self.ends, window).map_err(Over::Not)?;
        let (one, two) = (first.len() as u32, second.len() as u32);
        for (side, (first, theirs)) in [(first, two), (second, one)].into_iter().enumerate() {
            self.order(
                side,
                SocketOrder::Go {
                    end: self.id(side),
                    window: window as u32,
                    first,
                    theirs,
                    nonblocking: self.ends[side].nonblocking,
                },
            );
        }
        Ok(window)
    }

    fn meetings(&self, a: &Arc<HostLink>, b: &Arc<HostLink>) -> Result<[Meeting; 2], Over> {
        if Arc::ptr_eq(a, b) {
            return Ok([Meeting::Here, Meeting::Here]);
        }
        let expect = serde_json::to_string(&b.pass.expect)
            .map_err(|_| Over::Not("its host has no badge"))?;
        let addr = b.way().addr;
        Ok([Meeting::Dial { addr, expect }, Meeting::Await])
    }

    /// Waits for one piece of news of each end.
    fn await_both(
        &self,
        max: Duration,
        wanted: impl Fn(&SocketNews) -> Result<bool, Over>,
    ) -> Result<(), Over> {
        let until = Instant::now() + max;
        let mut came = [false, false];
        while came != [true, true] {
            let left = until.saturating_duration_since(Instant::now());
            let news = self.events.recv_timeout(left);
            let news = news.map_err(|_| Over::Not("a host did not answer"))?;
            if let SocketNews::Recall { why, .. } = news {
                return Err(Over::Recalled(why, Duration::ZERO));
            }
            if wanted(&news)? {
                came[news.end().side()] = true;
            }
        }
        Ok(())
    }

    fn await_recall(&self) -> Recall {
        loop {
            match self.events.recv_timeout(LOOK) {
                Ok(SocketNews::Recall { why, .. }) => return why,
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return Recall::Link,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.lost(0) || self.lost(1) {
                return Recall::Link;
            }
        }
    }

    /// What no program has read goes into home's sockets; then calls go on there.
    fn give_back(self, window: usize) {
        let remains = self.await_ended();
        let mut rests: [Vec<u8>; 2] = Default::default();
        let mut torn = false;
        for reader in [0, 1] {
            let (r, w) = (remains[reader].as_ref(), remains[1 - reader].as_ref());
            match unread_bytes(r, w, window) {
                Ok(bytes) => rests[reader] = feed(&self.ends[1 - reader], bytes),
                Err(_) => torn = true,
            }
        }
        let waits: Vec<usize> = (0..2).filter(|s| !rests[*s].is_empty()).collect();
        if torn || waits.len() == 2 {
            let EndAt { pid, fd, .. } = &self.ends[0];
            eprintln!(
                "process {pid}: its connection on descriptor {fd} came back damaged, and is shut down"
            );
            self.ends.iter().for_each(|e| sys::shut_down(&e.socket));
        } else if let [reader] = waits[..] {
            // Its reader makes room; the writer waits.
            self.order(
                reader,
                SocketOrder::Home {
                    end: self.id(reader),
                },
            );
            let writer = &self.ends[1 - reader];
            let mut rest = std::mem::take(&mut rests[reader]);
            while !rest.is_empty() && !self.lost(reader) {
                let ready = sys::events(&writer.socket, libc::POLLOUT, FEED_LOOK_MS);
                if ready.map_or(true, |e| e & (libc::POLLERR | libc::POLLHUP) != 0) {
                    break;
                }
                rest = feed(writer, rest);
            }
        }
        self.both_home();
    }

    /// What each end has; `None`: its host is lost, or does not say.
    fn await_ended(&self) -> [Option<Remains>; 2] {
        for side in [0, 1] {
            self.order(side, SocketOrder::End { end: self.id(side) });
        }
        let until = Instant::now() + END_MAX;
        let mut ended: [Option<Remains>; 2] = Default::default();
        while (0..2).any(|s| ended[s].is_none() && !self.lost(s)) && Instant::now() < until {
            if let Ok(SocketNews::Ended {
                end,
                sent,
                tail,
                received,
                unread,
            }) = self.events.recv_timeout(LOOK)
            {
                ended[end.side()] = Some(Remains {
                    sent,
                    tail,
                    received,
                    unread,
                });
            }
        }
        ended
    }
}

/// Writes bytes into a socket of home, as far as they fit. Returns the others; none if nothing reads them.
fn feed(writer: &EndAt, mut bytes: Vec<u8>) -> Vec<u8> {
    while !bytes.is_empty() {
        match sys::send(&writer.socket, &bytes) {
            Ok(n) => drop(bytes.drain(..n)),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return bytes,
            // Its reader has ended.
            Err(_) => return Vec::new(),
        }
    }
    bytes
}

/// All that a TCP socket has sent has come to the other. What is not acknowledged yet may have: an acknowledgement waits for 40 ms.
fn await_arrival(writer: &EndAt, reader: &EndAt) -> Result<(), &'static str> {
    let until = Instant::now() + ARRIVAL_MAX;
    loop {
        let sent = sys::transferred(&writer.socket).map_err(|_| "TCP does not tell its counts")?;
        let came = sys::transferred(&reader.socket).map_err(|_| "TCP does not tell its counts")?;
        if sys::unsent(&writer.socket).is_ok_and(|n| n == 0) && sent.0 == came.1 {
            return Ok(());
        }
        if Instant::now() > until {
            return Err("bytes of it are on their way");
        }
        std::thread::sleep(ARRIVAL_LOOK);
    }
}

/// What both home's sockets have received and no program has read. After an error they have it still.
fn take_received(ends: &[EndAt; 2], window: usize) -> Result<[Vec<u8>; 2], &'static str> {
    const NO: &str = "its sockets cannot be read";
    let size = |e: &EndAt| sys::received(&e.socket).map_err(|_| NO);
    let mut sizes = [0, 0];
    for (side, size_of) in sizes.iter_mut().enumerate() {
        let (reader, writer) = (&ends[side], &ends[1 - side]);
        let unix = sys::option(&reader.socket, libc::SOL_SOCKET, libc::SO_DOMAIN)
            .is_ok_and(|f| f == libc::AF_UNIX);
        if !unix {
            await_arrival(writer, reader)?;
        }
        *size_of = size(reader)?;
        if *size_of > window {
            return Err("much of it is not read");
        }
        if *size_of > 0 {
            let mut all = vec![0; *size_of];
            match sys::receive(&reader.socket, &mut all, libc::MSG_PEEK) {
                Ok((n, flags)) if n == *size_of && flags & libc::MSG_CTRUNC == 0 => {}
                _ => return Err("descriptors are on their way over it"),
            }
        }
        let ended = libc::POLLERR | libc::POLLHUP | libc::POLLRDHUP | libc::POLLPRI;
        match sys::events(&reader.socket, libc::POLLRDHUP | libc::POLLPRI, 0) {
            Ok(e) if e & ended == 0 => {}
            _ => return Err("an end was shut down, or has an error"),
        }
    }
    let mut firsts: [Vec<u8>; 2] = Default::default();
    for side in [0, 1] {
        let mut bytes = vec![0; sizes[side]];
        let mut have = 0;
        while have < bytes.len() {
            match sys::receive(&ends[side].socket, &mut bytes[have..], 0) {
                Ok((n @ 1.., _)) => have += n,
                // It was there a moment ago, and nothing else reads it.
                _ => break,
            }
        }
        bytes.truncate(have);
        firsts[side] = bytes;
    }
    Ok(firsts)
}
