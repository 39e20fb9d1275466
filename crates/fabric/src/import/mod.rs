//! Other systems' files as an inventory. Pure. What an inventory cannot say is named as a loss. Start at [`import`].

mod draft;
mod ethers;
mod given;
mod hosts;
mod openmosix_map;
mod perceus;
mod run;
mod warewulf;
mod write;

pub use given::{Given, ImportError, Imported, System};
pub use run::import;
