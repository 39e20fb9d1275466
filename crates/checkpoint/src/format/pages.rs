//! Distinct pages by number, a few blocks of them unpacked.

use super::blobs::frame;
use super::frame::{CHUNK, Key, Kind};
use super::header::invalid;
use super::runs::PAGE;
use super::scan::Place;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;

/// Blocks that are kept unpacked, 4 MiB: pages of equal content are often near each other.
const BLOCKS: usize = 16;
const PAGES: u64 = (CHUNK / PAGE) as u64;

pub struct Blocks<'a> {
    file: &'a File,
    frames: &'a BTreeMap<Key, Place>,
    /// The one that was used last is the first.
    recent: VecDeque<(u64, Vec<u8>)>,
}

impl<'a> Blocks<'a> {
    pub fn new(file: &'a File, frames: &'a BTreeMap<Key, Place>) -> Blocks<'a> {
        Blocks {
            file,
            frames,
            recent: VecDeque::with_capacity(BLOCKS),
        }
    }

    pub fn page(&mut self, number: u64) -> io::Result<&[u8; PAGE]> {
        let (block, at) = (number / PAGES, (number % PAGES) as usize * PAGE);
        match self.recent.iter().position(|(n, _)| *n == block) {
            Some(0) => {}
            Some(place) => self.recent.swap(0, place),
            None => {
                let key = Key {
                    kind: Kind::Block,
                    id: 0,
                    number: block,
                };
                let place = self.frames.get(&key).ok_or_else(|| invalid("a block"))?;
                let bytes = frame(self.file, place)?;
                self.recent.truncate(BLOCKS - 1);
                self.recent.push_front((block, bytes));
            }
        }
        let page = self.recent[0].1.get(at..at + PAGE);
        let page = page.and_then(|p| p.try_into().ok());
        page.ok_or_else(|| invalid("a page"))
    }
}
