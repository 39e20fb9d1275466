//! Pages of a checkpoint, in a file: those of the last complete one, and beside them those of the one that is coming.
//!
//! ```text
//! stage ── as they come ──► staged ── commit ──► kept
//!                             └────── discard ─► (their places are free again)
//! ```
//! The places of kept pages are not written before a commit has replaced them: a checkpoint that is cut off in its midst
//! leaves the one before.

use crate::{Local, MigrateError, Result};
use armento_model::Stay;
use armento_tracee::PAGE;
use armento_tracee::pages::Run;
use armento_wire::pages::PAGE as PAGE_LEN;
use rustix::fs::MemfdFlags;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It is all zeros, and takes no room.
    Zeros,
    /// The number of a page in the file.
    At(u64),
}

pub struct PageStore {
    file: File,
    bytes_max: u64,
    /// By address.
    kept: BTreeMap<u64, Place>,
    staged: BTreeMap<u64, Place>,
    /// Pages of the file that hold nothing, and the number of those that were ever used.
    free: Vec<u64>,
    used: u64,
}

impl PageStore {
    /// An empty store in memory, for pages of `bytes_max` bytes at most; pages of zeros take none.
    pub fn in_memory(bytes_max: u64) -> Result<PageStore> {
        let fd = rustix::fs::memfd_create("checkpoint", MemfdFlags::CLOEXEC)
            .map_err(std::io::Error::from)
            .local("make memory for a checkpoint")?;
        Ok(PageStore {
            file: fd.into(),
            bytes_max,
            kept: BTreeMap::new(),
            staged: BTreeMap::new(),
            free: Vec::new(),
            used: 0,
        })
    }

    /// Keeps one page of the checkpoint that is coming; a later one of the same address replaces it.
    pub fn stage(&mut self, at: u64, page: &[u8; PAGE_LEN]) -> Result<()> {
        let place = match self.staged.get(&at) {
            Some(Place::At(n)) => *n,
            _ => self.room()?,
        };
        self.file
            .write_all_at(page, place * PAGE)
            .local("write a page of a checkpoint")?;
        self.staged.insert(at, Place::At(place));
        Ok(())
    }

    /// The same for a page of zeros.
    pub fn stage_zeros(&mut self, at: u64) {
        if let Some(Place::At(n)) = self.staged.insert(at, Place::Zeros) {
            self.free.push(n);
        }
    }

    /// A page of the file for one more page.
    fn room(&mut self) -> Result<u64> {
        if let Some(n) = self.free.pop() {
            return Ok(n);
        }
        if (self.used + 1) * PAGE > self.bytes_max {
            let most = self.bytes_max >> 20;
            let why = format!("its checkpoint would take more than {most} MiB of this node");
            return Err(MigrateError::Stays(Stay::NoRoom, why));
        }
        self.used += 1;
        Ok(self.used - 1)
    }

    /// A page as it is in the checkpoint that is coming.
    pub fn staged(&self, at: u64) -> Result<Option<[u8; PAGE_LEN]>> {
        let place = self.staged.get(&at).or_else(|| self.kept.get(&at));
        place.map(|p| self.read(*p)).transpose()
    }

    fn read(&self, place: Place) -> Result<[u8; PAGE_LEN]> {
        let mut page = [0; PAGE_LEN];
        if let Place::At(n) = place {
            self.file
                .read_exact_at(&mut page, n * PAGE)
                .local("read a page of a checkpoint")?;
        }
        Ok(page)
    }

    /// These pages of the checkpoint that is coming are gone.
    pub fn drop_pages(&mut self, runs: &[Run]) {
        for (start, end) in runs {
            for all in [&mut self.staged, &mut self.kept] {
                let gone: Vec<u64> = all.range(*start..*end).map(|(at, _)| *at).collect();
                for at in gone {
                    if let Some(Place::At(n)) = all.remove(&at) {
                        self.free.push(n);
                    }
                }
            }
        }
    }

    /// The checkpoint is complete. Only pages in `there`, sorted, belong to it. `whole`: none of the one before does.
    pub fn commit(&mut self, there: &[Run], whole: bool) {
        if whole {
            self.forget_kept();
        }
        for (at, place) in std::mem::take(&mut self.staged) {
            if let Some(Place::At(n)) = self.kept.insert(at, place) {
                self.free.push(n);
            }
        }
        let within = |at: &u64| {
            let next = there.partition_point(|run| run.1 <= *at);
            there.get(next).is_some_and(|run| run.0 <= *at)
        };
        let free = &mut self.free;
        self.kept.retain(|at, place| {
            let stays = within(at);
            if let (false, Place::At(n)) = (stays, place) {
                free.push(*n);
            }
            stays
        });
    }

    fn forget_kept(&mut self) {
        let all = std::mem::take(&mut self.kept);
        let places = all.into_values().filter_map(|p| match p {
            Place::At(n) => Some(n),
            Place::Zeros => None,
        });
        self.free.extend(places);
    }

    /// The checkpoint that was coming comes no more: the one before is as it was, but for pages that were dropped.
    pub fn discard(&mut self) {
        for place in std::mem::take(&mut self.staged).into_values() {
            if let Place::At(n) = place {
                self.free.push(n);
            }
        }
    }

    /// The addresses of the kept pages, as runs of at most `most` bytes.
    pub fn runs(&self, most: u64) -> Vec<Run> {
        let mut all: Vec<Run> = Vec::new();
        for at in self.kept.keys() {
            match all.last_mut() {
                Some(run) if run.1 == *at && run.1 - run.0 < most => run.1 += PAGE,
                _ => all.push((*at, at + PAGE)),
            }
        }
        all
    }

    /// Reads kept pages into `into`, whose length is the run's.
    pub fn read_run(&self, run: Run, into: &mut [u8]) -> Result<()> {
        let pages = (run.0..run.1).step_by(PAGE_LEN);
        for (at, page) in pages.zip(into.chunks_exact_mut(PAGE_LEN)) {
            match self.kept.get(&at) {
                Some(place) => page.copy_from_slice(&self.read(*place)?),
                None => page.fill(0),
            }
        }
        Ok(())
    }

    /// Replaces the 32-bit number at an address of the kept checkpoint, if it is `old`. Whether it was.
    pub fn replace(&mut self, at: u64, old: i32, new: i32) -> Result<bool> {
        let (page_at, within) = (at & !(PAGE - 1), (at & (PAGE - 1)) as usize);
        let Some(Place::At(n)) = self.kept.get(&page_at).copied() else {
            return Ok(false);
        };
        let mut page = self.read(Place::At(n))?;
        let Some(bytes) = page.get_mut(within..within + 4) else {
            return Ok(false);
        };
        if *bytes != old.to_le_bytes() {
            return Ok(false);
        }
        bytes.copy_from_slice(&new.to_le_bytes());
        self.file
            .write_all_at(&page, n * PAGE)
            .local("write a page of a checkpoint")?;
        Ok(true)
    }

    /// Bytes of the file that hold pages.
    pub fn bytes(&self) -> u64 {
        (self.used - self.free.len() as u64) * PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: u64 = 8 * PAGE;

    fn store() -> PageStore {
        PageStore::in_memory(BYTES_MAX).expect("memory")
    }

    fn page(with: u8) -> [u8; PAGE_LEN] {
        [with; PAGE_LEN]
    }

    fn kept(s: &PageStore, at: u64) -> Option<u8> {
        let mut into = page(0xff);
        s.kept.contains_key(&at).then(|| {
            s.read_run((at, at + PAGE), &mut into).expect("a page");
            assert!(into.iter().all(|b| *b == into[0]));
            into[0]
        })
    }

    const EVERYTHING: [Run; 1] = [(0, 1 << 40)];

    #[test]
    fn a_checkpoint_that_is_cut_off_leaves_the_one_before() {
        let mut s = store();
        s.stage(PAGE, &page(1)).expect("room");
        s.stage(2 * PAGE, &page(2)).expect("room");
        s.commit(&EVERYTHING, true);
        s.stage(PAGE, &page(7)).expect("room");
        s.stage_zeros(2 * PAGE);
        assert_eq!(s.staged(PAGE).expect("read"), Some(page(7)));
        s.discard();
        assert_eq!((kept(&s, PAGE), kept(&s, 2 * PAGE)), (Some(1), Some(2)));
        assert_eq!(s.bytes(), 2 * PAGE);
    }

    #[test]
    fn a_commit_replaces_what_came_and_keeps_what_is_mapped() {
        let mut s = store();
        for (at, with) in [(1, 1), (2, 2), (3, 3)] {
            s.stage(at * PAGE, &page(with)).expect("room");
        }
        s.commit(&EVERYTHING, true);
        s.stage(2 * PAGE, &page(9)).expect("room");
        s.commit(&[(PAGE, 3 * PAGE)], false);
        let all = [1, 2, 3].map(|n| kept(&s, n * PAGE));
        assert_eq!(all, [Some(1), Some(9), None]);
        assert_eq!(s.runs(1 << 20), [(PAGE, 3 * PAGE)]);
        assert_eq!(s.runs(PAGE), [(PAGE, 2 * PAGE), (2 * PAGE, 3 * PAGE)]);
        s.commit(&EVERYTHING, true);
        assert_eq!(s.bytes(), 0);
    }

    #[test]
    fn places_are_used_again_and_the_bound_holds() {
        let mut s = store();
        for round in 0..5u8 {
            for n in 0..4 {
                s.stage(n * PAGE, &page(round)).expect("room");
                s.stage(n * PAGE, &page(round + 1)).expect("the same place");
            }
            s.commit(&EVERYTHING, round % 2 == 0);
        }
        let more = (10..20).map(|n| s.stage(n * PAGE, &page(0)));
        let refused = more.filter(|r| r.is_err()).count();
        assert_eq!(refused, 6);
        assert_eq!(kept(&s, 0), Some(5));
    }

    #[test]
    fn dropped_pages_are_gone() {
        let mut s = store();
        s.stage(PAGE, &page(1)).expect("room");
        s.stage(2 * PAGE, &page(1)).expect("room");
        s.drop_pages(&[(PAGE, 2 * PAGE)]);
        s.commit(&EVERYTHING, true);
        assert_eq!(s.runs(1 << 20), [(2 * PAGE, 3 * PAGE)]);
        assert_eq!(s.staged(PAGE).expect("read"), None);
    }
}
