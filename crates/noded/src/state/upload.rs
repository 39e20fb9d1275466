//! A program that is arriving from another node.

use std::fs::File;
use std::time::Instant;

pub struct Upload {
    /// What it must be, hexadecimal.
    pub sha256: String,
    /// Bytes of it, and how many are there.
    pub size: u64,
    pub received: u64,
    pub since: Instant,
    pub file: File,
}
