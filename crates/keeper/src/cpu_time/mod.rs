//! CPU time that the processes of a tree used away, and what they read of it.
//!
//! A body's host adds what its own process used. What only home knows is added here: the time of children, which their
//! parents read when they have waited for them. This room never asks a host. Start at `accounts.rs`.

mod accounts;
mod correct;
#[cfg(test)]
mod tests;

pub(crate) use accounts::{Account, CpuAccounts};
pub(crate) use correct::{Results, ReturnedCall, Written, tells};
