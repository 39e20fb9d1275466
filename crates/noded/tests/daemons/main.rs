//! Daemons on one machine: see `farm.rs` for the farm, `work.rs` for what runs on it.

mod common;
mod farm;
mod mfs;
mod trust;
mod work;
