//! One frame: length, length of the message, number, message (postcard), data.

use super::{DATA_MAX, HEAD_MAX};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read};

/// Length of what follows the first four bytes (u32), length of the message (u32), number (u64); little endian.
const PREFIX: usize = 16;
/// What is read beyond a frame that is known, so that little has to be moved.
const AHEAD: usize = 64 << 10;
const BUFFER: usize = PREFIX + HEAD_MAX + DATA_MAX + AHEAD;

#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    #[error("stream: {0}")]
    Io(#[from] io::Error),
    /// The peer has closed the stream between two frames.
    #[error("the stream has ended")]
    End,
    #[error("a frame is longer than allowed, or ends before its message does")]
    Length,
    #[error("a message cannot be read: {0}")]
    Message(#[from] postcard::Error),
}

/// Appends a frame.
pub fn encode_into<T: Serialize>(out: Vec<u8>, id: u64, head: &T, data: &[u8]) -> Vec<u8> {
    let start = out.len();
    let mut out = out;
    out.extend_from_slice(&[0; PREFIX]);
    // Serialization of our own types to memory cannot fail.
    let mut out = postcard::to_extend(head, out).unwrap_or_default();
    let head_len = out.len().saturating_sub(start + PREFIX);
    out.extend_from_slice(data);
    let total = out.len() - start - 4;
    out[start..start + 4].copy_from_slice(&(total as u32).to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&(head_len as u32).to_le_bytes());
    out[start + 8..start + PREFIX].copy_from_slice(&id.to_le_bytes());
    out
}

/// Puts prefix and message before `len` bytes of data that lie at `at`: where the frame begins. `None`: no room.
pub fn encode_before<T: Serialize>(
    buf: &mut [u8],
    at: usize,
    len: usize,
    id: u64,
    head: &T,
) -> Option<usize> {
    let mut room = [0; 64];
    let head = postcard::to_slice(head, &mut room).ok()?;
    let start = at.checked_sub(PREFIX + head.len())?;
    let total = (PREFIX + head.len() + len - 4) as u32;
    let front = buf.get_mut(start..at)?;
    front[..4].copy_from_slice(&total.to_le_bytes());
    front[4..8].copy_from_slice(&(head.len() as u32).to_le_bytes());
    front[8..PREFIX].copy_from_slice(&id.to_le_bytes());
    front[PREFIX..].copy_from_slice(head);
    Some(start)
}

pub fn encode<T: Serialize>(id: u64, head: &T, data: &[u8]) -> Vec<u8> {
    encode_into(Vec::with_capacity(128 + data.len()), id, head, data)
}

/// Takes frames from a stream. It has one buffer, of the longest frame.
pub struct FrameReader<R> {
    inner: R,
    buf: Box<[u8]>,
    start: usize,
    end: usize,
}

fn u32_at(b: &[u8], at: usize) -> usize {
    b.get(at..at + 4)
        .and_then(|s| s.try_into().ok())
        .map_or(0, u32::from_le_bytes) as usize
}

impl<R: Read> FrameReader<R> {
    pub fn new(inner: R) -> FrameReader<R> {
        FrameReader {
            inner,
            buf: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
        }
    }

    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// Waits until `n` bytes are there.
    fn fill(&mut self, n: usize) -> Result<(), ProtocolError> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.start + n > self.buf.len() {
            self.buf.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < n {
            let until = (self.start + n + AHEAD).min(self.buf.len());
            match self.inner.read(&mut self.buf[self.end..until]) {
                Ok(0) if self.start == self.end => return Err(ProtocolError::End),
                Ok(0) => return Err(ProtocolError::Length),
                Ok(got) => self.end += got,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// The next frame's number and message, and its data.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<(u64, T, &[u8]), ProtocolError> {
        let (id, head, data) = self.raw()?;
        Ok((id, postcard::from_bytes(head)?, data))
    }

    /// The next frame's number, the bytes of its message, and its data.
    pub fn raw(&mut self) -> Result<(u64, &[u8], &[u8]), ProtocolError> {
        self.fill(PREFIX)?;
        let prefix = &self.buf[self.start..];
        let (total, head) = (u32_at(prefix, 0) + 4, u32_at(prefix, 4));
        let id = u64::from_le_bytes(prefix[8..PREFIX].try_into().unwrap_or_default());
        let data = total.checked_sub(PREFIX + head);
        if head > HEAD_MAX || data.is_none_or(|d| d > DATA_MAX) {
            return Err(ProtocolError::Length);
        }
        self.fill(total)?;
        let frame = &self.buf[self.start + PREFIX..self.start + total];
        self.start += total;
        let (head, data) = frame.split_at(head);
        Ok((id, head, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Reply, Request};

    #[test]
    fn frames_come_out_as_they_went_in() {
        let big = vec![7; DATA_MAX];
        let mut bytes = Vec::new();
        for i in 0..5 {
            let r = Request::Lookup {
                dir: i,
                name: vec![b'n'; 200],
            };
            bytes = encode_into(bytes, i, &r, b"");
            let w = Request::Write {
                file: i,
                at: 1 << 40,
                kill: false,
            };
            bytes = encode_into(bytes, i + 100, &w, &big);
        }
        let mut r = FrameReader::new(&bytes[..]);
        for i in 0..5 {
            let (id, m, data) = r.take::<Request>().expect("a frame");
            assert!(
                id == i && data.is_empty() && matches!(m, Request::Lookup { dir, .. } if dir == i)
            );
            let (id, m, data) = r.take::<Request>().expect("a frame");
            assert!(
                id == i + 100
                    && data == big
                    && matches!(m, Request::Write { file, .. } if file == i)
            );
        }
        assert!(matches!(r.take::<Request>(), Err(ProtocolError::End)));
    }

    #[test]
    fn a_frame_can_be_made_around_its_data() {
        let w = Request::Write {
            file: u64::MAX,
            at: u64::MAX,
            kill: true,
        };
        let mut b = vec![9; 80 + 1000];
        let start = encode_before(&mut b, 80, 1000, u64::MAX, &w).expect("room for the longest");
        assert_eq!(b[start..], encode(u64::MAX, &w, &[9; 1000]));
        assert_eq!(encode_before(&mut b, 20, 1000, 1, &w), None);
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        let check = |total: u32, head: u32| {
            let mut b = total.to_le_bytes().to_vec();
            b.extend(head.to_le_bytes());
            b.extend([0; 64]);
            let mut r = FrameReader::new(&b[..]);
            assert!(matches!(r.take::<Reply>(), Err(ProtocolError::Length)));
        };
        check(u32::MAX, 4);
        check(12, u32::MAX);
        check(4, 0);
        check((HEAD_MAX + DATA_MAX + 13) as u32, HEAD_MAX as u32);
        check(1000, 4);
    }
}
