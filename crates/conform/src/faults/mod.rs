//! The fault campaigns: programs are moved around, or kept safe, while keepers, hosts, daemons, nodes and links fail.
//!
//! `plan` derives from a seed what happens when, `life` is one program that is moved around, `safe` has those that are kept
//! safe, `farm` the nodes that fail, `campaign` runs and counts. Start at [`run`].

mod arms;
mod campaign;
mod farm;
mod life;
mod plan;
mod run;
mod safe;

pub(crate) use run::run;
