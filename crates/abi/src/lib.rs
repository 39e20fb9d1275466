//! The table of system calls, and how each is transferred between a body and its deputy.
//!
//! One [`Row`] for each call states where it runs, how its memory is transferred and how it restarts.
//! The seccomp filter ([`filter::program`]), the marshalling ([`pack`], [`unpack`]),
//! the manual and `doctor --calls` ([`describe`]) all derive from it.
//!
//! This crate never performs a system call, never does I/O and holds no `unsafe`: it accesses the memory of a body only
//! through [`Mem`]. Only one module depends on the architecture.
//!
//! Start at [`row`] and [`place_of`], then [`pack`].

mod arg;
pub mod attributes;
pub mod clock;
mod cond;
pub mod filter;
pub mod lookup;
mod marshal;
mod mem;
mod packed;
mod place;
mod procfs;
mod row;
pub mod sends;
mod wait;
mod x86_64;

pub use arg::{Arg, Len};
pub use clock::{Counts, CpuClock, counts, cpu_clock};
pub use cond::Cond;
pub use lookup::lookup;
pub use marshal::{Dest, Plan, Refuse, Upto, pack, unpack};
pub use mem::{Fault, HOLE, Mem};
pub use packed::{BadCall, Out, OutRule, Packed, out_len, packed_path};
pub use place::{Verdict, maps_shared, place_of};
pub use procfs::{BodyFile, Owner, body_file, cmdline_owner, proc_self_needs_home};
pub use row::{Otherwise, Place, Restart, Row};
pub use wait::{
    MaskAt, Timeout, begun_again, deadline, read_mask, removable, set_timeout, timeout_in_out,
    wait_mask,
};
pub use x86_64::{NR_LIMIT, describe, nr, row};
