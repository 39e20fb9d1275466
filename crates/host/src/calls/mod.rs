//! System calls of guests: carried out here, forwarded home, or a reason to come home.
//!
//! It never moves a process, nor handles stops and signals (`threads`). Start at `dispatch.rs`, then `forward.rs` and
//! `reply.rs`.

mod both_sides;
mod clone_args;
mod cmdline;
mod come_home;
mod cpu_time;
mod devices;
mod direct;
mod direct_calls;
mod direct_io;
mod dispatch;
mod exec;
mod file_fetch;
mod fork;
mod forward;
mod mmap;
mod names;
mod partial_io;
mod post;
mod posted_calls;
mod readahead;
mod readahead_calls;
mod reply;
mod socket_calls;
mod socket_link;
mod socket_orders;
mod socket_polls;
mod socket_wait;
mod sockets;
mod then;
mod timers;

pub use cmdline::send_cmdlines;
pub use direct::{end_direct, may_open, send_offsets};
pub use dispatch::serve;
pub use file_fetch::fetch_file;
pub use names::working_directory;
pub use posted_calls::{About, descriptor_known};
pub use readahead::{
    Piece, end_readahead, end_readahead_of, readahead_came, send_positions, tell_reads,
};
pub use reply::reply;
pub use socket_link::socket_came;
pub use socket_orders::socket_order;
pub use sockets::end_sockets;
