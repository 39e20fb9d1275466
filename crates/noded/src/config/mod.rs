//! Settings: what an administrator writes, read and checked.
//!
//! It changes nothing and knows nothing of the farm. Start at `settings.rs`.

mod dfsa;
mod guest_users;
mod history;
mod mfs;
mod rules;
mod settings;
mod web;

pub use dfsa::shared_mounts;
pub use guest_users::{Limits, limits};
pub use mfs::exports;
pub use rules::Rules;
pub use settings::{Config, Wire};
pub use web::Web;
