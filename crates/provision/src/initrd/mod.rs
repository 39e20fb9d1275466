//! The initramfs: this program as `/init`, and the modules that it needs to reach the network and a root. It packs files and
//! loads nothing. Start at [`make`]; [`MODULES`] is where `init` finds them.

mod archive;
mod modules;

pub use archive::{Packed, make, pack};
pub use modules::{Found, LIST, MODULES, Wanted, choose};
