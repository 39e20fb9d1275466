//! What boot servers say to each other on a stream: a question, an answer, and after some answers pieces of data.
//!
//! ```text
//! question, answer   4 bytes: length, big-endian    JSON
//! piece of a file    4 bytes: length, 0 at the end  bytes
//! ```

use super::items::{ITEMS_MAX, Item};
use crate::image::{Choice, Lead};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// Bytes of a question or an answer. The longest are [`ITEMS`] items with names of 4096 bytes and attributes.
const SAID_MAX: u32 = 32 << 20;
/// Bytes of a piece of a file.
pub const PIECE: usize = 1 << 18;
/// Items in one answer.
pub const ITEMS: usize = 1000;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Ask {
    /// What this server has: [`Have`].
    Have,
    /// All items of a root: lists of [`Item`], the last one empty.
    Items { image: String, number: u32 },
    /// A file of a generation: [`Begins`], pieces from the byte `from` on, [`Ends`].
    File {
        image: String,
        number: u32,
        place: Place,
        from: u64,
    },
}

/// Where a file of a generation is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Beside the root: `vmlinuz`, `initrd`, `root.erofs`, `manifest.json`.
    Beside(String),
    /// Below the root, relative to it.
    Root(String),
}

/// What a server has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Have {
    pub images: Vec<ImageThere>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ImageThere {
    pub name: String,
    /// The highest number that was ever given.
    pub last: u32,
    /// Which generation nodes boot.
    pub choice: Option<Choice>,
    pub generations: Vec<GenerationThere>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GenerationThere {
    pub number: u32,
    /// Seconds since 1970; with the number it says which generation it is.
    pub made: u64,
    /// Whose root is edited.
    pub lead: Lead,
    /// Changes when anything in its root does. None where the root is a copy.
    pub sign: Option<String>,
}

/// The answer to [`Ask::Items`] and [`Ask::File`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Begins {
    Now {
        bytes: u64,
    },
    /// It cannot: nothing follows.
    Refused {
        why: String,
    },
}

/// After the pieces of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ends {
    /// Of all bytes, also of those before `from`.
    pub sha256: String,
    /// False: it was changed meanwhile.
    pub whole: bool,
}

/// One stream between two boot servers.
pub struct Stream<R, W> {
    pub reads: R,
    pub writes: W,
}

impl<R: Read, W: Write> Stream<R, W> {
    pub fn say(&mut self, what: &impl Serialize) -> io::Result<()> {
        let bytes = serde_json::to_vec(what)?;
        let len = u32::try_from(bytes.len()).ok().filter(|n| *n <= SAID_MAX);
        let len = len.ok_or_else(|| broken("an answer that is too long"))?;
        self.writes.write_all(&len.to_be_bytes())?;
        self.writes.write_all(&bytes)?;
        self.writes.flush()
    }

    pub fn hear<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let len = self.length(SAID_MAX)?;
        // As much memory as bytes came, not as many as were announced.
        let mut bytes = Vec::new();
        let read = (&mut self.reads)
            .take(u64::from(len))
            .read_to_end(&mut bytes)?;
        if read != len as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_slice(&bytes).map_err(|e| broken(&e.to_string()))
    }

    pub fn piece(&mut self, bytes: &[u8]) -> io::Result<()> {
        let len = u32::try_from(bytes.len()).map_err(|_| broken("a piece that is too long"))?;
        self.writes.write_all(&len.to_be_bytes())?;
        self.writes.write_all(bytes)
    }

    /// The next piece, into `buffer`; its length, 0 at the end.
    pub fn next_piece(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let limit = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let len = self.length(limit)? as usize;
        self.reads.read_exact(&mut buffer[..len])?;
        Ok(len)
    }

    fn length(&mut self, limit: u32) -> io::Result<u32> {
        let mut len = [0; 4];
        self.reads.read_exact(&mut len)?;
        let len = u32::from_be_bytes(len);
        match len <= limit {
            true => Ok(len),
            false => Err(broken("more bytes than are allowed")),
        }
    }
}

/// All items of an answer to [`Ask::Items`].
pub fn hear_items<R: Read, W: Write>(
    stream: &mut Stream<R, W>,
    limit: usize,
) -> io::Result<Vec<Item>> {
    let mut all: Vec<Item> = Vec::new();
    loop {
        let some: Vec<Item> = stream.hear()?;
        if some.is_empty() {
            return Ok(all);
        }
        all.extend(some);
        if all.len() > limit {
            return Err(broken("more files than a root may have"));
        }
    }
}

/// Kinds of messages that [`retold`] reads.
const RETOLD: u8 = 4;

/// Reads bytes of another boot server as the side of a stream does that gets them, and says what it understood once more. `kind`:
/// which message it expects. It opens no file and no socket: for fuzzing.
pub fn retold(kind: u8, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = Stream {
        reads: bytes,
        writes: Vec::new(),
    };
    match kind % RETOLD {
        0 => {
            let ask: Ask = stream.hear()?;
            stream.say(&ask)?;
        }
        1 => {
            let have: Have = stream.hear()?;
            stream.say(&have)?;
        }
        2 => {
            let items = hear_items(&mut stream, ITEMS_MAX)?;
            for some in items.chunks(ITEMS) {
                stream.say(&some)?;
            }
            stream.say(&[(); 0])?;
        }
        _ => {
            let begins: Begins = stream.hear()?;
            stream.say(&begins)?;
            if let Begins::Refused { .. } = begins {
                return Ok(stream.writes);
            }
            let mut buffer = vec![0; PIECE];
            loop {
                let n = stream.next_piece(&mut buffer)?;
                stream.piece(&buffer[..n])?;
                if n == 0 {
                    break;
                }
            }
            let ends: Ends = stream.hear()?;
            stream.say(&ends)?;
        }
    }
    Ok(stream.writes)
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(bytes: &[u8]) -> Stream<&[u8], Vec<u8>> {
        Stream {
            reads: bytes,
            writes: Vec::new(),
        }
    }

    #[test]
    fn what_is_too_long_or_too_short_is_refused_before_it_takes_memory() {
        let long = stream(&u32::MAX.to_be_bytes()).hear::<Ask>();
        assert_eq!(long.expect_err("long").kind(), io::ErrorKind::InvalidData);
        let short = stream(&[0, 0, 0, 9, b'{']).hear::<Ask>();
        assert_eq!(
            short.expect_err("short").kind(),
            io::ErrorKind::UnexpectedEof
        );
        let mut buffer = [0; 8];
        let long = stream(&[0, 0, 0, 9]).next_piece(&mut buffer);
        assert_eq!(long.expect_err("long").kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn questions_come_back() {
        let mut said = stream(&[]);
        let place = Place::Root("etc/hosts".into());
        said.say(&Ask::File {
            image: "base".into(),
            number: 3,
            place: place.clone(),
            from: 7,
        })
        .expect("said");
        let heard = stream(&said.writes).hear::<Ask>().expect("heard");
        assert!(matches!(heard, Ask::File { place: p, from: 7, .. } if p == place));
    }
}
