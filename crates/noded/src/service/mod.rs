//! The daemon as a service of systemd.
//!
//! `notify` tells the service manager what the daemon does, `guests` finds the control group in which guests live
//! apart from the daemon, `wait` waits until this node has a farm.
//!
//! From: `armento node --wait` (`packaging/armento.service`). Next: `daemon.rs`.

mod guests;
mod notify;
mod wait;

pub use guests::{again as guests_again, base as guests_base, start as start_guests_unit};
pub use notify::{ready, reloading, stopping};
pub use wait::{is_waiting, run};
