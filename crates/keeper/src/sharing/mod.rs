//! Memory that processes share: they move together, and what others can find is guarded meanwhile.
//!
//! It never moves a process. Start at `sharers.rs`.

mod named_shm;
mod sharers;
mod sys;

pub(crate) use named_shm::{
    fetch_objects, guard_objects, maps_shared_object, objects_away, release_objects, settle_ended,
    settle_later,
};
pub(crate) use sharers::{
    mapped_for_checkpoint, only_inside, partner_of_stay, shared_only_with, sharers_of,
};
