//! The image of one process on its own connection. Source writes, target answers at two points.
//!
//! ```text
//! source                               target
//! HELLO(Purpose)
//! OFFER(head) ────────────────────────► checks, builds an empty body
//!            ◄──────────────────────── ACCEPT(files it lacks) | DECLINE(stay)
//! FILE(key) · BYTES … ────────────────►
//! PAGES … SYNC (a round) ─────────────►
//!            ◄──────────────────────── SYNCED(without a place), when they are where they belong
//! LAYOUT(areas, dropped) ─────────────►
//! PAGES … STATE · END ────────────────► builds
//!            ◄──────────────────────── READY | FAILED
//! ```
//!
//! Of files that a system has its own copies of, which it lacks or was asked for:
//!
//! ```text
//! ALIKE(paths, digests) ──────────────►
//!            ◄──────────────────────── LACKS(those of them of which it has no copy)
//! ```
//!
//! Of files that it mapped since the offer the target is asked before LAYOUT, and as long as there are such:
//!
//! ```text
//! MORE(files) ────────────────────────►
//!            ◄──────────────────────── LACKS(those of them that it lacks)
//! FILE(key) · BYTES … ────────────────►
//! ```
//!
//! Of a program that writes faster than the link carries, what is written again and again comes last (post-copy):
//!
//! ```text
//! DROP … SYNC (while it runs) ────────►
//! LAYOUT(later) … END ────────────────► builds; at home's word it runs
//!            ◄──────────────────────── WANT, TAKEN
//! PAGES … LAST ───────────────────────►
//!            ◄──────────────────────── WHOLE
//! ```
//!
//! What PAGES says: `pages.rs`.

pub const HELLO: u8 = 16;
pub const OFFER: u8 = 17;
pub const ACCEPT: u8 = 18;
pub const DECLINE: u8 = 19;
pub const FILE: u8 = 20;
pub const BYTES: u8 = 21;
pub const PAGES: u8 = 22;
pub const LAYOUT: u8 = 23;
pub const STATE: u8 = 24;
pub const END: u8 = 25;
pub const READY: u8 = 26;
pub const FAILED: u8 = 27;
pub const SYNC: u8 = 28;
pub const SYNCED: u8 = 29;
/// Files that the process mapped since the offer.
pub const MORE: u8 = 30;
/// … and those of them that the target lacks.
pub const LACKS: u8 = 31;
/// Files that the target lacks, by their paths and digests: it may have the same of its own. Answered by LACKS.
pub const ALIKE: u8 = 32;
/// Pages that the target is to give up again: they come behind the flip.
pub const DROP: u8 = 40;
/// Behind the flip, to the source: this page is waited for.
pub const WANT: u8 = 41;
/// … so many bytes of pages are where they belong, or nobody's any more.
pub const TAKEN: u8 = 42;
/// … from the source: there are no more.
pub const LAST: u8 = 43;
/// … and everything is there.
pub const WHOLE: u8 = 44;
