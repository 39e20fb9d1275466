//! Record marking: a call or reply in fragments, each behind its length (RFC 5531, 11).

use nfs3_types::rpc::fragment_header;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::time::{Duration, Instant};

/// Bytes of one record: the largest WRITE with its arguments.
pub const RECORD_MAX: usize = (1 << 20) + (64 << 10);
/// Fragments of one record. Clients send one; the standard allows any number.
const FRAGMENTS_MAX: usize = 64;
/// A record that has begun must be there after so long.
const RECORD_TIME: Duration = Duration::from_secs(30);
/// What is read at once. Most calls are smaller.
const CHUNK: usize = 64 << 10;
/// A buffer that a large record left is given back.
const KEEP: usize = 256 << 10;

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// In [`Records::record`].
    Record,
    /// Nothing within the input's own time limit.
    Quiet,
    /// The peer is done.
    Closed,
}

/// Cuts a stream into records.
#[derive(Debug)]
pub struct Records<R> {
    input: BufReader<R>,
    pub record: Vec<u8>,
}

fn is_quiet(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl<R: Read> Records<R> {
    pub fn new(input: R) -> Records<R> {
        Records {
            input: BufReader::with_capacity(CHUNK, input),
            record: Vec::new(),
        }
    }

    /// Waits for a record. After an error the stream cannot be used any more.
    pub fn next(&mut self) -> io::Result<Next> {
        if self.record.capacity() > KEEP {
            self.record = Vec::new();
        }
        self.record.clear();
        loop {
            match self.input.fill_buf() {
                Ok([]) => return Ok(Next::Closed),
                Ok(_) => break,
                Err(e) if is_quiet(&e) => return Ok(Next::Quiet),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let until = Instant::now() + RECORD_TIME;
        for _ in 0..FRAGMENTS_MAX {
            let mut header = [0; 4];
            let mut filled = 0;
            self.take(4, until, |part| {
                header[filled..filled + part.len()].copy_from_slice(part);
                filled += part.len();
            })?;
            let header = fragment_header::from(header);
            let len = usize::try_from(header.fragment_length()).unwrap_or(usize::MAX);
            if len > RECORD_MAX - self.record.len() {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    format!("a record of more than {RECORD_MAX} bytes"),
                ));
            }
            // What a header promises is allocated as it comes.
            let mut record = std::mem::take(&mut self.record);
            let taken = self.take(len, until, |part| record.extend_from_slice(part));
            self.record = record;
            taken?;
            if header.eof() {
                return Ok(Next::Record);
            }
        }
        Err(io::Error::new(
            ErrorKind::InvalidData,
            format!("a record of more than {FRAGMENTS_MAX} fragments"),
        ))
    }

    fn take(
        &mut self,
        mut len: usize,
        until: Instant,
        mut to: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        while len > 0 {
            let part = match self.input.fill_buf() {
                Ok([]) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(part) => &part[..part.len().min(len)],
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if is_quiet(&e) && Instant::now() < until => continue,
                Err(e) => return Err(e),
            };
            if Instant::now() >= until {
                return Err(ErrorKind::TimedOut.into());
            }
            to(part);
            len -= part.len();
            let n = part.len();
            self.input.consume(n);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: &[Result<&[u8], ErrorKind>]) {
        let mut records = Records::new(bytes);
        for e in expected {
            match (records.next(), e) {
                (Ok(Next::Record), Ok(record)) => assert_eq!(records.record, *record),
                (Err(cause), Err(kind)) => assert_eq!(cause.kind(), *kind),
                (other, _) => panic!("{bytes:?}: {other:?}"),
            }
        }
        if expected.iter().all(Result::is_ok) {
            assert_eq!(records.next().expect("the end"), Next::Closed);
        }
    }

    #[test]
    fn fragments_are_joined_and_hostile_ones_end_the_stream() {
        check(&[], &[]);
        check(&[0x80, 0, 0, 2, 7, 8], &[Ok(&[7, 8])]);
        check(
            &[0, 0, 0, 1, 7, 0x80, 0, 0, 1, 8, 0x80, 0, 0, 0],
            &[Ok(&[7, 8]), Ok(&[])],
        );
        check(&[0x80, 0, 0, 2, 7], &[Err(ErrorKind::UnexpectedEof)]);
        check(&[0x80, 0], &[Err(ErrorKind::UnexpectedEof)]);
        check(&[0xff; 8], &[Err(ErrorKind::InvalidData)]);
        check(&[0; 4 * 100], &[Err(ErrorKind::InvalidData)]);
    }
}
