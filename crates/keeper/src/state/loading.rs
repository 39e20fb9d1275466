//! A program that runs from its exec to its entry point before it is placed.

use std::sync::mpsc::Sender;

/// How far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// It stands seized, at its entry or still at its exec.
    Stands,
    /// It runs: it waits for something, or has threads already.
    Runs,
    /// It ended or exec'd.
    Gone,
}

/// The thread that waits for a program to reach its entry.
pub struct Loading {
    pub done: Sender<Loaded>,
    /// It took too long: let it go when it stops.
    pub late: bool,
}
