//! Data under load: eight streams at once to a peer's observer, each block known to both sides. What arrives is compared
//! byte by byte there, so that nothing between the two programs is trusted: cards' checksums are computed by cards.

use crate::diagnose::Flow;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Not the farm's own 7117: it may run meanwhile.
const PORT: u16 = 7199;
/// PAPER(hpl-bonding): HPL died under load that ping survived; a rank a core on two nodes has some eight streams.
const STREAMS: usize = 8;
/// Bytes of a block: its number, then what follows from it.
const BLOCK: usize = 64 << 10;
/// Streams that are received at once.
const RECEIVED_MAX: usize = 64;
/// A stream that stands still for so long is broken.
const PATIENCE: Duration = Duration::from_secs(10);
/// Observers do not begin at the same moment.
const CONNECT: Duration = Duration::from_secs(8);
const RETRY: Duration = Duration::from_millis(200);

/// Receives streams of others on the own address until `until`; each is told how many of its blocks were wrong.
pub(super) fn receive(own: Ipv4Addr, until: Instant) -> io::Result<()> {
    let listener = TcpListener::bind((own, PORT))?;
    listener.set_nonblocking(true)?;
    let running = AtomicU64::new(0);
    std::thread::scope(|s| {
        while Instant::now() < until {
            match listener.accept() {
                Ok((stream, _)) if running.load(Ordering::Relaxed) < RECEIVED_MAX as u64 => {
                    running.fetch_add(1, Ordering::Relaxed);
                    let running = &running;
                    s.spawn(move || {
                        // A stream that breaks is the sender's finding.
                        let _ = compare(stream, until);
                        running.fetch_sub(1, Ordering::Relaxed);
                    });
                }
                Ok(_) => {}
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    });
    Ok(())
}

/// Reads blocks until the sender has no more; answers with the number of wrong ones.
fn compare(mut stream: TcpStream, until: Instant) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut got, mut wanted) = (vec![0; BLOCK], vec![0; BLOCK]);
    let (mut number, mut wrong) = (0, 0_u64);
    while Instant::now() < until + PATIENCE && read_block(&mut stream, &mut got)? {
        fill(&mut wanted, number);
        wrong += u64::from(got != wanted);
        number += 1;
    }
    stream.write_all(&wrong.to_be_bytes())
}

/// `false` at the end of the stream between two blocks.
fn read_block(stream: &mut TcpStream, block: &mut [u8]) -> io::Result<bool> {
    let mut have = 0;
    while have < block.len() {
        match stream.read(&mut block[have..])? {
            0 if have == 0 => return Ok(false),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => have += n,
        }
    }
    Ok(true)
}

/// Sends to a peer for `time`. `None`: no observer receives there.
pub(super) fn send(peer: &str, net: &str, to: Ipv4Addr, time: Duration) -> Option<Flow> {
    let to = SocketAddr::from((IpAddr::V4(to), PORT));
    let first = connect(to)?;
    let mut streams = vec![Ok(first)];
    streams.extend((1..STREAMS).map(|_| TcpStream::connect_timeout(&to, PATIENCE)));
    let mut flow = Flow {
        peer: peer.to_owned(),
        net: net.to_owned(),
        ..Flow::default()
    };
    let until = Instant::now() + time;
    let results: Vec<io::Result<(u64, u64)>> = std::thread::scope(|s| {
        let each = streams
            .into_iter()
            .map(|stream| s.spawn(move || send_one(stream?, until)));
        let running: Vec<_> = each.collect();
        let ended = || Err(io::Error::other("its thread ended"));
        running
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|_| ended()))
            .collect()
    });
    for result in results {
        match result {
            Ok((bytes, wrong)) => {
                flow.bytes += bytes;
                flow.wrong += wrong;
            }
            Err(e) => flow.broken.push(e.to_string()),
        }
    }
    Some(flow)
}

fn connect(to: SocketAddr) -> Option<TcpStream> {
    let until = Instant::now() + CONNECT;
    loop {
        match TcpStream::connect_timeout(&to, Duration::from_secs(2)) {
            Ok(stream) => return Some(stream),
            Err(_) if Instant::now() >= until => return None,
            Err(_) => std::thread::sleep(RETRY),
        }
    }
}

fn send_one(mut stream: TcpStream, until: Instant) -> io::Result<(u64, u64)> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut block = vec![0; BLOCK];
    let mut number = 0;
    while Instant::now() < until {
        fill(&mut block, number);
        stream.write_all(&block)?;
        number += 1;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = [0; 8];
    stream.read_exact(&mut answer)?;
    Ok((number * BLOCK as u64, u64::from_be_bytes(answer)))
}

/// A block: numbers that look random, so that no bit that sticks is missed (splitmix64, Steele et al. 2014).
fn fill(block: &mut [u8], number: u64) {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for part in block.chunks_exact_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        part.copy_from_slice(&(z ^ (z >> 31)).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_bytes_are_counted() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listener");
        let mut stream =
            TcpStream::connect(listener.local_addr().expect("address")).expect("connected");
        let (other, _) = listener.accept().expect("accepted");
        let receiver = std::thread::spawn(move || compare(other, Instant::now() + PATIENCE));
        let mut block = vec![0; BLOCK];
        for number in 0..4 {
            fill(&mut block, number);
            block[777] ^= u8::from(number == 2);
            stream.write_all(&block).expect("sent");
        }
        stream.shutdown(std::net::Shutdown::Write).expect("end");
        let mut answer = [0; 8];
        stream.read_exact(&mut answer).expect("answer");
        assert_eq!(u64::from_be_bytes(answer), 1);
        receiver.join().expect("joined").expect("compared");
    }
}
