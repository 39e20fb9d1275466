//! What runs inside nodes to measure them or to load them: `lab-init probe KIND …`. Each prints one line a result and ends by
//! itself after a bounded time.

use crate::sys;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

/// Longest measurement with all its waits, seconds.
pub const SECONDS_MAX: f64 = 60.0;
/// Longest background load: a day.
pub const LOAD_SECONDS_MAX: f64 = 86_400.0;
/// What comes in the first seconds is not measured: TCP's slow start, and the filling of a port's queue.
pub const WARM_S: f64 = 0.3;
/// Bytes of one write.
const PIECE: usize = 64 << 10;
/// Payload of ping(8), bytes.
const PING: usize = 56;
/// A datagram that has no answer after this is lost.
const LOST: Duration = Duration::from_secs(1);
/// Slice of a background load: it computes at the beginning of each.
const SLICE: Duration = Duration::from_millis(100);

/// `lab-init probe receive SECONDS | send IP:PORT | echo COUNT | ping IP:PORT COUNT | reach IP | spin SECONDS CORES |
/// load PERCENT SECONDS SPEED CORES`
pub fn main(args: &[OsString]) -> Result<i32> {
    let words: Vec<String> = args
        .iter()
        .map(|a| a.to_string_lossy().into_owned())
        .collect();
    let at = |i: usize| words.get(i).map_or("", |w| w);
    if at(0) != "load" {
        // However the other end fares, nothing is left behind.
        thread::spawn(|| {
            thread::sleep(Duration::from_secs_f64(SECONDS_MAX));
            std::process::exit(crate::enter::FAILED)
        });
    }
    match at(0) {
        "receive" => receive(seconds(at(1))?),
        "send" => send(number(at(1))?),
        "echo" => echo(number(at(1))?),
        "ping" => ping(number(at(1))?, number(at(2))?),
        "reach" => reach(number(at(1))?),
        "spin" => spin(seconds(at(1))?, number(at(2))?),
        "load" => load(
            number(at(1))?,
            number(at(2))?,
            number(at(3))?,
            number(at(4))?,
        ),
        _ => bail!("lab-init probe: what is {:?}?", at(0)),
    }?;
    Ok(0)
}

fn number<T: FromStr>(text: &str) -> Result<T> {
    text.parse()
        .map_err(|_| anyhow::anyhow!("lab-init probe: what is {text:?}?"))
}

fn seconds(text: &str) -> Result<Duration> {
    let s: f64 = number(text)?;
    if !(0.0..=SECONDS_MAX).contains(&s) {
        bail!("{s} seconds are out of range");
    }
    Ok(Duration::from_secs_f64(s))
}

/// Prints a line at once.
fn tell(line: std::fmt::Arguments) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("nobody listens")
}

/// Prints its port; then, after one connection, bytes and nanoseconds.
fn receive(time: Duration) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    tell(format_args!("{}", listener.local_addr()?.port()))?;
    let (mut stream, _) = listener.accept()?;
    let mut piece = vec![0; PIECE];
    let began = Instant::now();
    let (mut bytes, mut counted_from) = (0_u64, None::<Instant>);
    loop {
        let n = stream.read(&mut piece)?;
        let now = Instant::now();
        if n == 0 {
            bail!("the sender ended early");
        }
        match counted_from {
            None if (now - began).as_secs_f64() >= WARM_S => counted_from = Some(now),
            None => {}
            Some(from) => {
                bytes += n as u64;
                if now - from >= time {
                    return tell(format_args!("{bytes} {}", (now - from).as_nanos()));
                }
            }
        }
    }
}

/// Sends until the other end has enough.
fn send(to: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&to, LOST * 5)?;
    let piece = vec![0; PIECE];
    loop {
        match stream.write(&piece) {
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                return Ok(());
            }
            Err(e) => return Err(e.into()),
        }
    }
}

/// Prints its port, then sends so many datagrams back.
fn echo(count: u32) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(LOST * 5))?;
    tell(format_args!("{}", socket.local_addr()?.port()))?;
    let mut bytes = [0; PING];
    for _ in 0..count {
        let Ok((n, from)) = socket.recv_from(&mut bytes) else {
            return Ok(()); // lost datagrams are the other end's to report
        };
        socket.send_to(&bytes[..n], from)?;
    }
    Ok(())
}

/// Prints the median of the round trips in nanoseconds, and how many were lost.
fn ping(to: SocketAddr, count: u32) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(LOST))?;
    let mut times = Vec::new();
    for n in 0..count {
        let mut bytes = [0; PING];
        bytes[..4].copy_from_slice(&n.to_be_bytes());
        let began = Instant::now();
        socket.send(&bytes)?;
        let mut answer = [0; PING];
        while let Ok(got) = socket.recv(&mut answer) {
            if got == PING && answer == bytes {
                times.push(began.elapsed().as_nanos());
                break;
            }
        }
    }
    times.sort_unstable();
    let lost = count as usize - times.len();
    let Some(median) = times.get(times.len() / 2) else {
        bail!("no answer from {to}");
    };
    tell(format_args!("{median} {lost}"))
}

/// Prints whether this node has a way to the address: `yes` or `no`.
fn reach(to: Ipv4Addr) -> Result<()> {
    // No program listens on TCP's discard port, so that a node that is reached refuses.
    const DISCARD: u16 = 9;
    let tried = TcpStream::connect_timeout(&(to, DISCARD).into(), LOST * 2);
    let reached = match tried {
        Ok(_) => true,
        Err(e) => e.kind() == ErrorKind::ConnectionRefused,
    };
    tell(format_args!("{}", if reached { "yes" } else { "no" }))
}

/// Computes on so many threads; prints the processor time and the time in nanoseconds.
fn spin(time: Duration, cores: usize) -> Result<()> {
    let (began, before) = (Instant::now(), sys::process_cpu());
    let until = began + time;
    thread::scope(|s| {
        for _ in 0..cores {
            s.spawn(|| while Instant::now() < until {});
        }
    });
    let used = sys::process_cpu().saturating_sub(before);
    tell(format_args!(
        "{} {}",
        used.as_nanos(),
        began.elapsed().as_nanos()
    ))
}

/// Uses so many percent of each of the node's cores.
fn load(percent: f64, for_s: f64, speed: f64, cores: usize) -> Result<()> {
    if !(0.0..=100.0).contains(&percent) || !(0.0..=LOAD_SECONDS_MAX).contains(&for_s) {
        bail!("{percent} % for {for_s} s are out of range");
    }
    let until = Instant::now() + Duration::from_secs_f64(for_s);
    let share = SLICE.mul_f64(speed.clamp(0.0, 1.0) * percent / 100.0);
    thread::scope(|s| {
        for _ in 0..cores {
            s.spawn(|| busy(until, share));
        }
    });
    Ok(())
}

/// Computes for `share` of processor time at the beginning of each slice; less where others want the processor.
fn busy(until: Instant, share: Duration) {
    let mut slice = Instant::now();
    while slice < until {
        let (next, enough) = (slice + SLICE, sys::thread_cpu() + share);
        while sys::thread_cpu() < enough && Instant::now() < next {}
        thread::sleep(next.min(until).saturating_duration_since(Instant::now()));
        slice = next;
    }
}
