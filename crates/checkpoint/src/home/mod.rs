//! What the kernel keeps of processes beside memory and threads: [`capture`] reads it, [`Home`] holds it.
//!
//! Of processes that run it only serves to tell beforehand what a checkpoint would not carry: what it finds is not of one
//! moment.
//!
//! It is read from proc(5), kcmp(2), copies of descriptors (pidfd_getfd(2)) and sock_diag(7), of processes that stand still.
//! Nothing of them is changed: bytes that wait in pipes and sockets are copied (tee(2), MSG_PEEK). Their memory is not
//! read, so they may be deputies, whose memory is on another node: their command line and program come from the
//! caller, in [`Subject`].
//!
//! What cannot be put into a checkpoint is never left out in silence: all of it is returned as [`Uncarried`]. The one
//! exception are the root's standard streams that lead outside the tree ([`Kind::Outside`]): a restart gives its own.
//!
//! This room starts no process and writes no file. Start at `capture.rs`; [`changed`] says which files are no longer as
//! they were.

mod capture;
mod changes;
mod classify;
mod epoll;
mod family;
mod fdinfo;
mod found;
mod inotify;
mod kinds;
mod memory;
mod outside;
mod pipes;
mod process;
mod sockets;
mod sound;
mod subject;
mod sys;
mod table;
mod types;
mod uncarried;
mod values;

pub use capture::capture;
pub use changes::{Difference, changed, difference, record_hashes, sha256};
pub use kinds::{Description, Kind, OpenFile, Timer, Watched, WatchedFile};
pub use memory::{TakePage, copy_content};
pub use sockets::unix_peer;
pub use subject::{Options, Subject};
pub use types::{
    Descriptor, Home, LIMITS, Limit, Memory, Pair, Pipe, Process, Program, RecordLock,
};
pub use uncarried::Uncarried;
pub use values::{Bytes, Identity, Lock};
