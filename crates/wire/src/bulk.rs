//! Transfer of one process's image on its own connection. The source writes; the target answers at a few points.
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
//! For files that the target lacks and of which its system may have its own copies:
//!
//! ```text
//! ALIKE(paths, digests) ──────────────►
//!            ◄──────────────────────── LACKS(those of them of which it has no copy)
//! ```
//!
//! For files mapped since the offer the source asks before LAYOUT, as long as there are such files:
//!
//! ```text
//! MORE(files) ────────────────────────►
//!            ◄──────────────────────── LACKS(those of them that it lacks)
//! FILE(key) · BYTES … ────────────────►
//! ```
//!
//! For a program that writes faster than the link carries, pages that are written repeatedly come last (post-copy):
//!
//! ```text
//! DROP … SYNC (while it runs) ────────►
//! LAYOUT(later) … END ────────────────► builds; at home's word it runs
//!            ◄──────────────────────── WANT, TAKEN
//! PAGES … LAST ───────────────────────►
//!            ◄──────────────────────── WHOLE
//! ```
//!
//! The content of PAGES: `pages.rs`.

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
/// The files of MORE or ALIKE that the target lacks.
pub const LACKS: u8 = 31;
/// Files that the target lacks, by their paths and digests: it may have identical copies. Answered by LACKS.
pub const ALIKE: u8 = 32;
/// Pages that the target must give up: they come again after the flip.
pub const DROP: u8 = 40;
/// After the flip, to the source: a thread waits for this page.
pub const WANT: u8 = 41;
/// After the flip, to the source: this many bytes of pages have been filled in, or are not needed any more.
pub const TAKEN: u8 = 42;
/// After the flip, from the source: there are no more pages.
pub const LAST: u8 = 43;
/// After the flip, to the source: everything has arrived.
pub const WHOLE: u8 = 44;
