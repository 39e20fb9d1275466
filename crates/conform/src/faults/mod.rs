//! The fault campaign: programs are moved about while keepers, hosts, daemons, nodes and links fail.
//!
//! `plan` says from a seed what happens when, `life` is one program, `farm` what is broken. Start at [`run`].

mod farm;
mod life;
mod plan;
mod run;

pub(crate) use run::run;
