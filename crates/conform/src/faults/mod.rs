//! The fault campaign: programs are moved around while keepers, hosts, daemons, nodes and links fail.
//!
//! `plan` derives from a seed what happens when, `life` is one program, `farm` the nodes that fail. Start at [`run`].

mod farm;
mod life;
mod plan;
mod run;

pub(crate) use run::run;
