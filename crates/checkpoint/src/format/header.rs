//! The beginning of a checkpoint file: readable before anything else is.

use super::error::{FormatError, Result};
use armento_model::Pid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

pub const MAGIC: &[u8; 8] = b"ARMCKPT\n";
/// Raised by every change of this room or of the types of [`crate::home`].
pub const FORMAT_VERSION: u32 = 2;
const HEADER_MAX: u32 = 64 * 1024;

/// What a checkpoint says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// Of the engine that wrote the images.
    pub engine_version: u32,
    pub program_version: String,
    /// Seconds since 1970.
    pub taken_s: i64,
    pub node: String,
    /// Release of its kernel.
    pub kernel: String,
    /// As `uname -m` says it.
    pub machine: String,
    pub page_size: u32,
    pub root: Pid,
    /// Contents of open files are in it.
    pub with_files: bool,
    /// All processes of the tree are in it.
    pub complete: bool,
}

impl Header {
    /// A header of now, of this machine.
    pub fn here(engine_version: u32, program_version: &str, node: &str, root: Pid) -> Header {
        let uname = rustix::system::uname();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Header {
            engine_version,
            program_version: program_version.to_owned(),
            taken_s: now.map_or(0, |t| t.as_secs() as i64),
            node: node.to_owned(),
            kernel: uname.release().to_string_lossy().into_owned(),
            machine: uname.machine().to_string_lossy().into_owned(),
            page_size: rustix::param::page_size() as u32,
            root,
            with_files: false,
            complete: true,
        }
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let too_large = FormatError::TooLarge {
            what: "the header",
            max: HEADER_MAX.into(),
        };
        let Ok(body) = postcard::to_stdvec(self) else {
            return Err(too_large);
        };
        if body.len() > HEADER_MAX as usize {
            return Err(too_large);
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend(FORMAT_VERSION.to_le_bytes());
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(body);
        Ok(bytes)
    }

    /// Reads it from the beginning of a file. After: the file was made on a machine like this one.
    pub(super) fn decode(path: &Path, file: &mut impl Read) -> Result<Header> {
        let mut fixed = Vec::new();
        let mut take = |n: u64, into: &mut Vec<u8>| -> Result<bool> {
            let before = into.len() as u64;
            let read = file.by_ref().take(n).read_to_end(into);
            read.map_err(|e| FormatError::io("read", path, e))?;
            Ok(into.len() as u64 - before == n)
        };
        take(8, &mut fixed)?;
        if fixed.is_empty() || !MAGIC.starts_with(&fixed) {
            return Err(FormatError::NotACheckpoint(path.to_owned()));
        }
        let complete = take(8, &mut fixed)?;
        let word = |at: usize| {
            let bytes = fixed.get(at..at + 4).and_then(|b| b.try_into().ok());
            bytes.map(u32::from_le_bytes)
        };
        if let Some(found) = word(8).filter(|v| *v != FORMAT_VERSION) {
            return Err(FormatError::OtherVersion {
                path: path.to_owned(),
                found,
                ours: FORMAT_VERSION,
            });
        }
        let truncated = |bytes: usize| FormatError::Truncated {
            path: path.to_owned(),
            bytes: bytes as u64,
        };
        let changed = |what| FormatError::Changed {
            path: path.to_owned(),
            what,
        };
        let length = word(12).filter(|_| complete);
        let length = length.ok_or_else(|| truncated(fixed.len()))?;
        if length > HEADER_MAX {
            return Err(changed("length of the header"));
        }
        let mut body = Vec::new();
        if !take(length.into(), &mut body)? {
            return Err(truncated(fixed.len() + body.len()));
        }
        let header: Header = postcard::from_bytes(&body).map_err(|_| changed("header"))?;
        header.fits(path).map(|()| header)
    }

    fn fits(&self, path: &Path) -> Result<()> {
        let ours = Header::here(0, "", "", 0);
        if (&self.machine, self.page_size) == (&ours.machine, ours.page_size) {
            return Ok(());
        }
        let name = |h: &Header| format!("{} with pages of {} bytes", h.machine, h.page_size);
        Err(FormatError::OtherMachine {
            path: path.to_owned(),
            found: armento_model::clean(&name(self)),
            ours: name(&ours),
        })
    }
}

/// What is in a file, as its last frame says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Pages of all processes, zero pages among them.
    pub pages: u64,
    pub zero_pages: u64,
    /// Pages that were stored.
    pub distinct_pages: u64,
    /// Contents of files that are kept, and their bytes.
    pub files: u64,
    pub files_bytes: u64,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    pub totals: Totals,
    /// Memory of all processes.
    pub memory_bytes: u64,
    /// Of the checkpoint.
    pub file_bytes: u64,
    pub seconds: f64,
}

pub(super) fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
