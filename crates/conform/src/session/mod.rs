//! One call of `armento conform`: a lab, runners in its nodes, guests for each, evidence, output for the user.
//!
//! Start at [`run`].

mod evidence;
mod handler;
mod run;
mod show;

pub(crate) use run::run;
pub(crate) use show::list;
