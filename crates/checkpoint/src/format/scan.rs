//! One pass over a file: its digest, and where each frame is.

use super::error::{FormatError, Result};
use super::frame::{FRAMES_MAX, HEAD, Head, Key, Kind};
use super::header::{Header, Totals};
use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A frame in the file.
#[derive(Clone, Copy)]
pub struct Place {
    pub head: Head,
    /// Where its payload begins.
    pub at: u64,
}

/// What a file holds. After: it is whole, and as it was written.
pub struct Scanned {
    pub header: Header,
    pub totals: Totals,
    pub frames: BTreeMap<Key, Place>,
    pub bytes: u64,
}

/// Hashes and counts what is read.
struct Hashed<'a> {
    path: &'a Path,
    file: io::BufReader<&'a File>,
    digest: Context,
    at: u64,
}

impl Read for Hashed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(into)?;
        self.digest.update(&into[..n]);
        self.at += n as u64;
        Ok(n)
    }
}

impl Hashed<'_> {
    fn fill(&mut self, into: &mut [u8]) -> Result<()> {
        self.read_exact(into).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => FormatError::Truncated {
                path: self.path.to_owned(),
                bytes: self.at,
            },
            _ => FormatError::io("read", self.path, e),
        })
    }
}

pub fn scan(path: &Path, file: &File) -> Result<Scanned> {
    let changed = |what| FormatError::Changed {
        path: path.to_owned(),
        what,
    };
    let mut input = Hashed {
        path,
        file: io::BufReader::with_capacity(1 << 20, file),
        digest: Context::new(&SHA256),
        at: 0,
    };
    let header = Header::decode(path, &mut input)?;
    let mut frames = BTreeMap::new();
    let mut payload = Vec::new();
    let totals = loop {
        let mut head = [0; HEAD];
        input.fill(&mut head)?;
        let head = Head::decode(&head).ok_or_else(|| changed("head of a frame"))?;
        let at = input.at;
        payload.resize(head.stored as usize, 0);
        input.fill(&mut payload)?;
        if head.key.kind == Kind::End {
            break postcard::from_bytes(&payload).map_err(|_| changed("end mark"))?;
        }
        let known = frames.insert(head.key, Place { head, at });
        if known.is_some() || frames.len() > FRAMES_MAX {
            return Err(changed("frames"));
        }
    };
    let digest = input.digest.clone().finish();
    let mut stored = [0; SHA256_OUTPUT_LEN];
    input.fill(&mut stored)?;
    if digest.as_ref() != stored {
        return Err(changed("digest"));
    }
    if matches!(input.read(&mut [0]), Ok(1)) {
        return Err(changed("bytes behind its end"));
    }
    Ok(Scanned {
        header,
        totals,
        frames,
        bytes: input.at,
    })
}
