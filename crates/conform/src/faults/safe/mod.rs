//! The fault campaign for programs that are kept safe (`armento run --safe`): the nodes of their bodies are lost.
//!
//! `plan` derives from a seed what happens when, `programs` is what is run, `life` one of them from start to end, `homes` the
//! loss of a home, `reason` why one may end, `twice` the proof that a lost body does not run on. Start at [`run`].

mod homes;
mod life;
mod plan;
mod programs;
mod reason;
mod run;
mod twice;

pub(crate) use run::run;
