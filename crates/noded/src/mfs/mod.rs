//! MFS: this node's mount, and the file servers that other nodes' mounts ask for.
//!
//! Both are processes of their own, which outlive the daemon with files open; here they are started, found again and
//! ended, and told what only a daemon knows. The file system itself is `crates/mfs`. Start at `mount.rs` where files are
//! used, at `serve.rs` where they are.

mod child;
mod mount;
mod places;
mod route;
mod serve;
mod stat;

pub use mount::{end, end_without_daemon, supervise};
pub use places::{made, places, select};
pub use route::route;
pub use serve::{new_identity, serve_files};
pub use stat::stat;
