//! What a caller asks of a restart.

use std::ffi::CString;
use std::fmt;
use std::io::{self, Read};

/// Gives the content of a kept file by its key.
pub type Contents<'a> = &'a dyn Fn(u32) -> io::Result<Box<dyn Read + 'a>>;

/// Takes a page of memory: its offset, and what it holds.
pub type TakePage<'a> = &'a mut dyn FnMut(u64, &[u8]) -> io::Result<()>;

/// Gives the pages of memory that was open, by its index in [`crate::home::Home::memory`].
pub type MemoryPages<'a> = &'a dyn Fn(u32, TakePage) -> io::Result<()>;

#[derive(Default)]
pub struct How<'a> {
    /// The recorded process numbers; otherwise the root has the caller's, and the others have new ones.
    pub same_pids: bool,
    /// Of each program, "NAME=value".
    pub environment: Vec<CString>,
    /// Contents that the checkpoint keeps: files that had been deleted are made from them.
    pub contents: Option<Contents<'a>>,
    /// Pages of memory that was open. Without, it is empty.
    pub memory: Option<MemoryPages<'a>>,
    /// Files that are missing or differ get their kept content back.
    pub put_back: bool,
    /// No program starts before [`super::Board::release`].
    pub hold: bool,
}

/// Something that is not as it was, and does not hinder the restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub String);

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
