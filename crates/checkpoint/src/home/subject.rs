//! Which processes are captured, and how.

use super::values::Bytes;
use armento_model::Pid;
use std::fs;
use std::io;

/// A process to capture. Before: it stands still, and its user may trace it.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    pub pid: Pid,
    pub argv: Vec<Bytes>,
    /// Path of its program.
    pub exe: Bytes,
    /// Descriptors that are its tracer's, and not in the checkpoint.
    pub skip: Vec<i32>,
}

impl Subject {
    /// Reads command line and program from proc(5). Before: the process has its memory here.
    pub fn of(pid: Pid) -> io::Result<Subject> {
        let line = fs::read(format!("/proc/{pid}/cmdline"))?;
        let line = line.strip_suffix(b"\0").unwrap_or(&line);
        let words = line.split(|b| *b == 0).map(|w| Bytes(w.to_vec()));
        Ok(Subject {
            pid,
            argv: words.collect(),
            exe: Bytes::from(fs::read_link(format!("/proc/{pid}/exe"))?.as_path()),
            skip: Vec::new(),
        })
    }
}

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The contents of open files are kept, so files that were deleted are no hindrance. The caller stores them
    /// ([`Home::kept_files`]).
    pub with_files: bool,
    /// Processes that may hold descriptors of the tree and do not count as outside: its tracer.
    pub besides: Vec<Pid>,
}
