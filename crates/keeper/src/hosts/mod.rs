//! The connections to hosts: made, taken up again, watched, given up.
//!
//! It never reads what a host asks: that is passed in (`reconnect.rs`, `Serve`). Start at `connect.rs`.

mod connect;
mod door;
mod lost;
mod monitor;
mod reconnect;
mod shared_mounts;

pub(crate) use connect::connect_host;
pub(crate) use door::{dial_spare, early_connection, open_connection, open_for_move};
pub(crate) use lost::{body_died, cut_off, end_lost, end_other_way, lose, lose_together, sharers};
pub(crate) use monitor::watch_hosts;
pub(crate) use reconnect::CallsReader;
pub(crate) use shared_mounts::watch_mounts;
