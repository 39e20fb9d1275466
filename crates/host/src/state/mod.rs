//! Data of the host with its own methods: what all threads share, the guests and their calls, the link home.
//!
//! It imports no room above it: nothing here stops a guest, serves a call or moves a process. Start at `shared.rs`, then
//! `guests.rs`.

mod call;
mod cpu_account;
mod descriptors;
mod direct;
mod drain;
mod futex_wait;
mod guests;
mod home_link;
mod host;
mod listing;
mod meetings;
mod names;
mod outgoing_moves;
mod partial_io;
mod pending_pages;
mod posts;
mod process;
mod process_sockets;
mod readahead;
mod restart;
mod shared;
mod siginfo_cookies;
mod socket_polls;
mod socket_stream;
mod sockets;
mod stack_growth;
mod threads;

pub use call::{Ask, Asked, CallState, Then, Waiting};
pub use descriptors::Way;
pub use direct::{OpenFile, set_offset};
pub use drain::Drain;
pub use futex_wait::{FutexWait, Interrupted, Replaced};
pub use guests::{Body, EARLY_MAX, EarlySignals, Freezer, GuestTable, TracedThread, VforkParent};
pub use home_link::{HomeLink, HomeReader, PULSE, PULSE_CALM, PULSE_EMPTY};
pub use host::Host;
pub use listing::Listing;
pub use meetings::{Meetings, Pair};
pub use names::{Base, Found};
pub use outgoing_moves::{OutgoingMoves, PREVIOUS_MAX};
pub use partial_io::{Answer, Guest, Next, PartialIo};
pub use posts::{Target, WRITE_MAX, close as posted_close};
pub use process::{
    BodyMem, DISCONNECTED, FOR_MOVE, GuestThread, Process, Special, THROTTLE, WaitingRead,
};
pub use readahead::{ReadAhead, ReadCount, Stream};
pub use restart::{is_restart, may_wait_here};
pub use shared::{Shared, UserfaultAccess};
pub use siginfo_cookies::{Original, SiginfoCookies};
pub use socket_polls::{PollForm, PollWatch, Polled};
pub use socket_stream::{Progress, SocketStream};
pub use sockets::{
    Behind, Destination, EndState, Outgoing, Phase, SocketEnd, SocketLink, SocketWait, Sockets,
    Transfer, end_poll,
};
pub use threads::ThreadTable;
