//! Capacity and load of this node: cores, speed, memory, features, runnable work.
//!
//! Reads `/proc` and its own control groups, so that a lab node limited to 40 % of one processor and 256 MiB reports
//! just that. It never decides anything, never writes, never reads `/proc/loadavg`, which covers the whole machine, and
//! tolerates errors: what cannot be read counts as absent.
//!
//! Start at [`Sampler`].

mod cgroup;
mod cpu;
mod files;
mod memory;
mod owner;
mod pressure;
mod sample;
mod smooth;
mod speed;
mod sys;
mod tasks;
mod withheld;

pub use cgroup::{Controller, OWN, controller, controller_at};
pub use cpu::{claimed_cpu_set, claimed_xsave, cpu_set, xsave};
pub use memory::{available_kib, half_of_available};
pub use owner::typed_ago;
pub use sample::{Given, Sample, Sampler, boot_incarnation, kernel_release};
pub use smooth::Smooth;
pub use speed::STANDARD_ROUNDS_PER_S;
pub use withheld::Withheld;
