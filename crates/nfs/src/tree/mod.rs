//! Exported directories as the server has them open: handles, the files behind them, and users of clients.
//!
//! Everything is done by descriptor. No link is followed on the server, and no handle leads out of an export: those of
//! [`Identity::Inode`](crate::export::Identity) are signed, those of paths name files of the tree only. Whether a user
//! may do something is the kernel's decision: [`Identities`] makes a thread that user. This room knows no tags and no
//! messages. Start at [`Trees`].

mod entries;
mod failed;
mod found;
mod handle;
mod identities;
mod open_files;
mod opened;
mod paths;
mod sys;
mod trees;

pub use entries::list;
pub use failed::{Failed, status};
pub use found::Found;
pub use identities::{Identities, squash};
pub use open_files::{OpenFiles, Purpose, Ready};
pub use sys::{own_umask, proc_path};
pub use trees::{Trees, parent, root};
