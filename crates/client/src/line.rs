//! One JSON object a line, of bounded length.

use crate::api::LINE_MAX;
use crate::version;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, Read};

#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The stream cannot be used any more.
    #[error("control session: {0}")]
    Io(#[from] io::Error),
    /// The stream is out of step; close it.
    #[error("control session: invalid line: {0}")]
    Garbled(String),
    /// Nothing was sent.
    #[error("control session: a line of {0} bytes is too long")]
    TooLong(usize),
    #[error("control session: the other side ended it")]
    Closed,
    /// It is too old for this program; it has refused or not understood the request.
    #[error("the daemon speaks control version {0}, this program {both}", both = version::both())]
    TooOld(u32),
}

/// `value` as one line, including its newline.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, LineError> {
    let mut line = bytes(value).map_err(|e| LineError::Garbled(e.to_string()))?;
    line.push(b'\n');
    if line.len() > LINE_MAX {
        return Err(LineError::TooLong(line.len()));
    }
    Ok(line)
}

fn bytes<T: Serialize>(value: &T) -> serde_json::Result<Vec<u8>> {
    if !version::is_to_come() {
        return serde_json::to_vec(value);
    }
    let mut said = serde_json::to_value(value)?;
    version::widen(&mut said);
    serde_json::to_vec(&said)
}

/// The next line. `Closed` at a clean end.
pub fn read_line<T: DeserializeOwned>(from: &mut impl BufRead) -> Result<T, LineError> {
    let mut line = Vec::new();
    let n = from
        .by_ref()
        .take(LINE_MAX as u64 + 1)
        .read_until(b'\n', &mut line)?;
    if n == 0 {
        return Err(LineError::Closed);
    }
    if line.last() != Some(&b'\n') {
        return Err(if n > LINE_MAX {
            LineError::TooLong(n)
        } else {
            LineError::Closed
        });
    }
    serde_json::from_slice(&line).map_err(|e| LineError::Garbled(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_round_trip() {
        let line = encode(&vec![1, 2]).expect("encode");
        assert_eq!(line, b"[1,2]\n");
        let mut from = &b"[1,2]\n[3]\n"[..];
        assert_eq!(read_line::<Vec<u8>>(&mut from).expect("first"), [1, 2]);
        assert_eq!(read_line::<Vec<u8>>(&mut from).expect("second"), [3]);
        assert!(matches!(
            read_line::<Vec<u8>>(&mut from),
            Err(LineError::Closed)
        ));
    }

    #[test]
    fn bad_lines_are_errors_and_bounded() {
        let read = |mut b: &[u8]| read_line::<Vec<u8>>(&mut b);
        assert!(matches!(read(b"[1"), Err(LineError::Closed)));
        assert!(matches!(read(b"no\n"), Err(LineError::Garbled(_))));
        let long = vec![b'['; LINE_MAX + 7];
        assert!(matches!(read(&long), Err(LineError::TooLong(n)) if n == LINE_MAX + 1));
        assert!(matches!(
            encode(&"x".repeat(LINE_MAX)),
            Err(LineError::TooLong(_))
        ));
    }
}
