//! The checkpoint file: written once, read as often as one likes.
//!
//! ```text
//! magic, version, header │ frame │ frame │ … │ end frame │ SHA-256 of all before
//! frame: kind, codec, id, number, stored and raw length, bytes (zstd, at most 256 KiB raw)
//! ```
//!
//! Frames are found by kind, id and number, so threads may write them in any order. Memory is a list of runs for each
//! process; pages of equal content are stored once, zero pages not at all. A file is written under a temporary name, and
//! renamed when it is complete and on the disk; it is its owner's only, since memory holds secrets.
//!
//! A file that is read may have been made by anybody: every length and index is bounded and checked before it is used, and
//! nothing is used before the digest was compared. The digest finds damage. It is no signature: who may write to the file
//! decides what a restart runs, as with any program file.
//!
//! This room starts no process. Start at [`Writer`] and [`Reader`].

mod blobs;
mod error;
mod frame;
mod header;
mod inspect;
mod pack;
mod pages;
mod reader;
mod runs;
mod scan;
mod temporary;
mod writer;

pub use error::{FormatError, Result};
pub use header::{FORMAT_VERSION, Header, Summary, Totals};
pub use inspect::{Inspect, Inspected, inspect};
pub use reader::Reader;
pub use runs::{PAGE, Page};
pub use temporary::Overwrite;
pub use writer::Writer;
