//! 24 real encoders, on one node alone or on a farm: the workload of the paper on topologies (P), with lame instead of
//! bladeenc.
//!
//! It runs in a lab on this machine, as a user would: everything goes through `armento lab` and `armento run`. Start at
//! [`prepare`] and [`Work`].

mod mode;
mod places;
mod plan;
mod scripts;
mod sound;
mod stage;
mod ticks;
mod topology;
mod view;
mod watch;
mod work;

pub use mode::Mode;
pub use places::picture as places_picture;
pub use plan::{Encoder, Plan};
pub use sound::check_packages;
pub use stage::Interrupted;
pub use topology::Topology;
pub use view::Hop;
pub use watch::{Seen, Usage};
pub use work::{Prepared, Sample, Together, Work, prepare, speed};
