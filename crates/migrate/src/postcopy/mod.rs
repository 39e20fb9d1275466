//! Post-copy: pages that follow the flip. The source pushes them, the target fetches those that are touched first.
//!
//! It never decides which pages follow: `migrate/src/source/mod.rs` does. Start at `push.rs`, facing `fetch.rs`.

mod fetch;
mod push;

pub use fetch::Fetch;
