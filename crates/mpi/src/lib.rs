//! MPI programs on a lab or on a user's machines: Open MPI and MPICH are found, our C programs are compiled with the user's
//! compiler at first use, started, and their results read.
//!
//! ```text
//! guests/mpi/*.c ─► compile (kept by content) ─► Job ─► Ground: a lab, or hosts ─► a line of JSON ─► results
//! ```
//!
//! It never installs anything, decides nothing about a farm, and shows nothing: tables are made in `papers`. Start at
//! [`Ground`] and [`Job`]; `hostfile.rs` and `settings.rs` are what users of their own programs need.

mod compile;
mod external;
mod ground;
mod hostfile;
mod hpl;
mod installed;
mod job;
mod results;
mod run;
mod settings;

pub use compile::{Program, build, folder, patient};
pub use external::{netpipe, thermo};
pub use ground::{Ground, LINK_BIT_S};
pub use hostfile::{Host, parse as parse_hostfile, render as hostfile, with_np};
pub use hpl::{
    Blas, Hpl, build as build_hpl, input as hpl_input, parse as parse_hpl, tools as hpl_tools,
};
pub use installed::{Installed, Kind, find_program, need};
pub use job::{Job, Map, Wait};
pub use results::*;
pub use run::Output;
pub use settings::{Setting, advice, settings};
