//! Processes appear, end, and run another program: the tree is kept as the kernel has it.
//!
//! It never decides where a program runs. Start at `scan.rs`.

mod exec;
mod scan;

pub(crate) use exec::image_replaced;
pub(crate) use scan::{find_children, note_calls, process_gone, scan_children};
