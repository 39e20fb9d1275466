//! What client and server tell each other.
//!
//! ```text
//! client ─► length, 4 bytes, with the far ends of three pipes; NODE 0 USER 0 COMMAND 0 VARIABLE=VALUE 0 …
//! client ◄─ "exit N\n" or "failed WHY\n"
//! client ─► a byte a signal; DONE when all output has come. The end of the stream before that: the client is gone.
//! ```

use super::sys;
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// KERNEL: execve(2), MAX_ARG_STRLEN: a command of one argument has at most 128 KiB; as much again for variables.
const BYTES_MAX: usize = 256 << 10;
/// An answer is a line.
pub const ANSWER_MAX: u64 = 4096;
/// Sent by a client that has seen the end of the output; no signal has this number.
pub const DONE: u8 = 0;

/// A command for a node.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub node: String,
    /// Empty: the user who asks.
    pub user: String,
    pub command: Vec<u8>,
    /// `NAME=VALUE`.
    pub variables: Vec<Vec<u8>>,
}

impl Request {
    fn encode(&self) -> Result<Vec<u8>> {
        let head = [self.node.as_bytes(), self.user.as_bytes(), &self.command];
        let mut bytes = Vec::new();
        for field in head
            .into_iter()
            .chain(self.variables.iter().map(|v| &v[..]))
        {
            bytes.extend_from_slice(field);
            bytes.push(0);
        }
        if bytes.len() > BYTES_MAX {
            bail!(
                "the command and its variables are {} bytes; {BYTES_MAX} are the most\nhint: put the command into a script that all nodes have (`lab up --share`)",
                bytes.len()
            );
        }
        Ok(bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Request> {
        let text = |field: &[u8]| String::from_utf8(field.to_vec()).context("a name is no text");
        let Some(bytes) = bytes.strip_suffix(&[0]) else {
            bail!("the request is incomplete");
        };
        let mut fields = bytes.split(|b| *b == 0);
        let mut next = || fields.next().context("the request is incomplete");
        let (node, user) = (text(next()?)?, text(next()?)?);
        let command = next()?.to_vec();
        Ok(Request {
            node,
            user,
            command,
            variables: fields.map(<[u8]>::to_vec).collect(),
        })
    }

    /// Sends it with the far ends of the pipes.
    pub fn send(&self, stream: &mut UnixStream, far: &[OwnedFd; 3]) -> Result<()> {
        let bytes = self.encode()?;
        let length = u32::try_from(bytes.len())?.to_le_bytes();
        sys::send_files(stream, &length, far)?;
        stream.write_all(&bytes)?;
        Ok(())
    }

    /// Before: the stream has a time limit for reads.
    pub fn receive(stream: &mut UnixStream) -> Result<(Request, [OwnedFd; 3])> {
        let mut length = [0; 4];
        let far = sys::receive_files(stream, &mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > BYTES_MAX {
            bail!("the request is too long");
        }
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes)?;
        Ok((Request::decode(&bytes)?, far))
    }
}

/// Tells the client how it ended. A client that is gone does not listen.
pub fn answer(stream: &mut UnixStream, ended: Result<i32>) {
    let line = match ended {
        Ok(code) => format!("exit {code}\n"),
        // One line: its ends are written as in a string.
        Err(e) => format!("failed {}\n", format!("{e:#}").replace('\n', "\\n")),
    };
    let _ = stream.write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn request() -> Request {
        Request {
            node: "n2".into(),
            user: String::new(),
            command: b"echo \xff".to_vec(),
            variables: vec![b"A=b".to_vec(), b"C=".to_vec()],
        }
    }

    #[test]
    fn decoding_undoes_encoding() {
        let all = [
            request(),
            Request {
                variables: Vec::new(),
                ..request()
            },
        ];
        for r in all {
            assert_eq!(Request::decode(&r.encode().unwrap()).unwrap(), r);
        }
    }

    #[test]
    fn foreign_bytes_are_refused() {
        let good = request().encode().unwrap();
        for n in 0..good.len() {
            let _ = Request::decode(&good[..n]);
        }
        assert!(Request::decode(b"").is_err());
        assert!(Request::decode(b"n2\0\0").is_err());
        assert!(Request::decode(b"\xff\0\0x\0").is_err());
        let long = Request {
            command: vec![b'x'; BYTES_MAX],
            ..request()
        };
        assert!(long.encode().unwrap_err().to_string().contains("hint: "));
    }

    #[test]
    fn files_travel_with_the_request() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let null = || OwnedFd::from(File::open("/dev/null").unwrap());
        let (reader, mut writer) = std::io::pipe().unwrap();
        request()
            .send(&mut near, &[reader.into(), null(), null()])
            .unwrap();
        let (got, files) = Request::receive(&mut far).unwrap();
        assert_eq!(got, request());
        writer.write_all(b"x").unwrap();
        drop(writer);
        let mut text = String::new();
        let [first, ..] = files;
        File::from(first).read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
        // Without files it is no request.
        near.write_all(&[1, 0, 0, 0]).unwrap();
        assert!(Request::receive(&mut far).is_err());
    }
}
