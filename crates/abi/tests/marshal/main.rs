//! Calls packed, executed by a simulated home, and unpacked.

mod common;
mod files;
mod kernel;
mod real;
mod sends;
mod sockets;
mod sys;
mod waits;
