//! A TCP proxy for tests that injects faults: it resets, delays, stalls and repeats connections at random bytes. The
//! same seed affects the n-th connection at the same bytes.
//!
//! ```text
//! keeper or host ──► proxy: "ip:port\n", then the stream ──► the host's port
//! ```
//!
//! Connections to hosts go this way when `ARMENTO_DIAL_VIA=ip:port` is in the environment of the connecting process
//! (`link/src/dial.rs`); `armento lab proxy` runs one inside a node. Only the transport is affected: both ends still
//! authenticate.

use crate::sys;
use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Connections at once; more are closed at once.
const CONNECTIONS_MAX: usize = 256;
/// The first bytes of a stream, kept to repeat it.
const KEPT_MAX: usize = 64 << 10;
/// How long a repeated connection may stay open.
const REPEATED_MAX: Duration = Duration::from_secs(5);
/// Buffer size of a read.
const PIECE: usize = 32 << 10;

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fault {
    /// Both sides see a reset, at once; data in flight is lost.
    Reset,
    /// Both sides see the end of the stream.
    Close,
    /// This direction waits a while.
    Delay,
    /// Nothing passes in either direction for a while, then everything does: an unplugged link.
    Stall,
    /// A second connection sends the first bytes of this one again.
    Repeat,
}

/// When faults happen. The next fault of a direction comes when one of the two limits is reached.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Bytes between two faults of one direction.
    pub bytes: RangeInclusive<u64>,
    /// Time between two faults of one direction, milliseconds.
    pub every_ms: RangeInclusive<u64>,
    /// How long a delay or stall takes, milliseconds.
    pub pause_ms: RangeInclusive<u64>,
    /// Equally likely; a fault that is listed twice is twice as likely.
    pub faults: Vec<Fault>,
}

/// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
struct Rng(u64);

impl Rng {
    fn random(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn within(&mut self, r: &RangeInclusive<u64>) -> u64 {
        let width = r.end().saturating_sub(*r.start()).saturating_add(1);
        r.start() + self.random() % width.max(1)
    }
}

/// The faults of one direction, in order.
struct Course {
    plan: Plan,
    rng: Rng,
    left: u64,
    at: Instant,
}

impl Course {
    fn new(plan: &Plan, connection: u64, direction: u64) -> Course {
        let mut rng = Rng(plan.seed);
        let mixed = rng.random() ^ Rng(connection * 2 + direction).random();
        let mut c = Course {
            plan: plan.clone(),
            rng: Rng(mixed),
            left: 0,
            at: Instant::now(),
        };
        c.next();
        c
    }

    fn next(&mut self) {
        self.left = self.rng.within(&self.plan.bytes).max(1);
        self.at = Instant::now() + Duration::from_millis(self.rng.within(&self.plan.every_ms));
    }

    fn fault(&mut self) -> Option<(Fault, Duration)> {
        self.next();
        let faults = &self.plan.faults;
        let n = self.rng.random() as usize;
        let fault = *faults.get(n % faults.len().max(1))?;
        let pause = Duration::from_millis(self.rng.within(&self.plan.pause_ms));
        Some((fault, pause))
    }
}

/// State shared by the two directions of a connection.
struct Cable {
    number: u64,
    ends: [TcpStream; 2],
    to: SocketAddr,
    /// Nothing passes before this.
    still: Mutex<Instant>,
    /// The first bytes of the stream towards `to`.
    kept: Mutex<Vec<u8>>,
}

fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// Serves for ever. `tell` is called for each fault: connection, direction (0 towards the host), fault. `to`: where
/// connections lead; if it is not given, the first line of each connection is its target.
pub fn serve(
    door: &TcpListener,
    to: Option<SocketAddr>,
    plan: &Plan,
    tell: fn(u64, usize, Fault),
) -> Result<()> {
    let open = Arc::new(AtomicUsize::new(0));
    for number in 0.. {
        let near = match door.accept() {
            Ok((near, _)) => near,
            Err(e) if e.kind() == ErrorKind::ConnectionAborted => continue,
            Err(e) => return Err(e).context("the proxy's door"),
        };
        if open.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let (plan, open) = (plan.clone(), open.clone());
        thread::spawn(move || {
            // A connection without a target is closed, which its client sees.
            if let Ok(cable) = connect(number, near, to) {
                let cable = Arc::new(cable);
                let (c, p) = (cable.clone(), plan.clone());
                let back = thread::spawn(move || carry(&c, 1, &p, tell));
                carry(&cable, 0, &plan, tell);
                let _ = back.join();
            }
            open.fetch_sub(1, Ordering::AcqRel);
        });
    }
    Ok(())
}

fn connect(number: u64, mut near: TcpStream, to: Option<SocketAddr>) -> Result<Cable> {
    near.set_read_timeout(Some(REPEATED_MAX))?;
    let to = match to {
        Some(to) => to,
        None => first_line(&mut near)?.parse()?,
    };
    let far = TcpStream::connect_timeout(&to, REPEATED_MAX)?;
    for s in [&near, &far] {
        s.set_nodelay(true)?;
        s.set_write_timeout(None)?;
    }
    Ok(Cable {
        number,
        ends: [near, far],
        to,
        still: Mutex::new(Instant::now()),
        kept: Mutex::default(),
    })
}

/// Byte by byte: the rest belongs to the stream.
fn first_line(s: &mut TcpStream) -> Result<String> {
    let mut line = Vec::new();
    let mut b = [0];
    while line.len() < 64 {
        s.read_exact(&mut b)?;
        if b[0] == b'\n' {
            return Ok(String::from_utf8(line)?);
        }
        line.push(b[0]);
    }
    bail!("the first line of a connection must be its target")
}

/// Forwards one direction until it ends.
fn carry(cable: &Cable, direction: usize, plan: &Plan, tell: fn(u64, usize, Fault)) {
    let mut course = Course::new(plan, cable.number, direction as u64);
    let (mut from, mut to) = (&cable.ends[direction], &cable.ends[1 - direction]);
    let mut piece = vec![0; PIECE];
    loop {
        let wait = course.at.saturating_duration_since(Instant::now());
        let wait = wait.max(Duration::from_millis(1));
        let room = piece.len().min(course.left as usize);
        let read = from
            .set_read_timeout(Some(wait))
            .and_then(|()| from.read(&mut piece[..room]));
        let n = match read {
            Ok(0) => {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            Ok(n) => n,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
            Err(e) if e.kind() == ErrorKind::Interrupted => 0,
            Err(_) => return cut(cable, Fault::Reset),
        };
        if direction == 0 {
            let mut kept = lock(&cable.kept);
            let more = n.min(KEPT_MAX.saturating_sub(kept.len()));
            kept.extend_from_slice(&piece[..more]);
        }
        let still = *lock(&cable.still);
        thread::sleep(still.saturating_duration_since(Instant::now()));
        if to.write_all(&piece[..n]).is_err() {
            return cut(cable, Fault::Reset);
        }
        course.left -= n as u64;
        if course.left > 0 && Instant::now() < course.at {
            continue;
        }
        let Some((fault, pause)) = course.fault() else {
            continue;
        };
        tell(cable.number, direction, fault);
        match fault {
            Fault::Reset | Fault::Close => return cut(cable, fault),
            Fault::Delay => thread::sleep(pause),
            Fault::Stall => *lock(&cable.still) = Instant::now() + pause,
            Fault::Repeat => repeat(cable.to, lock(&cable.kept).clone()),
        }
    }
}

fn cut(cable: &Cable, how: Fault) {
    for s in &cable.ends {
        if how == Fault::Reset {
            // Without lingering, close sends RST. The other direction may still hold the descriptor, so the socket
            // itself is disconnected.
            let _ = sys::reset(s);
        }
        let _ = s.shutdown(Shutdown::Both);
    }
}

/// Sends the same bytes on a new connection; the host must not admit it.
fn repeat(to: SocketAddr, bytes: Vec<u8>) {
    thread::spawn(move || -> std::io::Result<()> {
        let mut again = TcpStream::connect_timeout(&to, REPEATED_MAX)?;
        again.set_read_timeout(Some(REPEATED_MAX))?;
        again.write_all(&bytes)?;
        let until = Instant::now() + REPEATED_MAX;
        let mut piece = [0; 4096];
        while Instant::now() < until && again.read(&mut piece)? > 0 {}
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(faults: &[Fault], bytes: RangeInclusive<u64>) -> Plan {
        Plan {
            seed: 7,
            bytes,
            every_ms: 60_000..=60_000,
            pause_ms: 1..=3,
            faults: faults.to_vec(),
        }
    }

    /// An echo server, and a proxy before it; returns the proxy's address and the line that leads to the server.
    fn echo_behind(p: Plan) -> (SocketAddr, Vec<u8>) {
        let echo = TcpListener::bind("127.0.0.1:0").expect("bind");
        let to = echo.local_addr().expect("addr");
        thread::spawn(move || {
            for s in echo.incoming().flatten() {
                thread::spawn(move || std::io::copy(&mut &s, &mut &s));
            }
        });
        let door = TcpListener::bind("127.0.0.1:0").expect("bind");
        let at = door.local_addr().expect("addr");
        thread::spawn(move || serve(&door, None, &p, |_, _, _| {}));
        (at, format!("{to}\n").into_bytes())
    }

    fn talk(at: SocketAddr, hello: &[u8], bytes: usize) -> Vec<u8> {
        let mut s = TcpStream::connect(at).expect("connect");
        s.write_all(hello).expect("hello");
        let _ = s.write_all(&vec![5; bytes]);
        let _ = s.shutdown(Shutdown::Write);
        let mut all = Vec::new();
        let _ = s.read_to_end(&mut all);
        all
    }

    #[test]
    fn pauses_lose_nothing_and_cuts_happen_at_the_planned_byte() {
        let check = |p: Plan, want: &dyn Fn(usize) -> bool| {
            let (at, hello) = echo_behind(p);
            let got = talk(at, &hello, 100_000).len();
            assert!(want(got), "{got}");
        };
        let slow = [Fault::Delay, Fault::Stall, Fault::Repeat];
        check(plan(&slow, 5_000..=30_000), &|n| n == 100_000);
        check(plan(&[Fault::Close], 1000..=1000), &|n| n <= 1000);
        check(plan(&[Fault::Reset], 1000..=1000), &|n| n <= 1000);
        check(plan(&[], 1..=1), &|n| n == 100_000);
    }

    #[test]
    fn same_seed_gives_the_same_faults() {
        let p = plan(&[Fault::Reset, Fault::Delay, Fault::Stall], 1..=1_000_000);
        let course = |connection| {
            let mut c = Course::new(&p, connection, 0);
            (0..20).map(|_| (c.left, c.fault())).collect::<Vec<_>>()
        };
        assert_eq!(course(3), course(3));
        assert_ne!(course(3), course(4));
    }
}
