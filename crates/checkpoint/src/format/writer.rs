//! Writes a checkpoint file.

use super::error::{FormatError, Result};
use super::frame::{CHUNK, FRAMES_MAX, Key, Kind};
use super::header::{Header, Summary, Totals};
use super::pack::{Output, Pack};
use super::runs::{Held, PAGE, RUNS, Run};
use super::temporary::{Overwrite, Temporary};
use crate::home::Home;
use armento_model::Pid;
use ring::digest::{SHA256, digest};
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::Path;
use std::time::Instant;

/// Bytes of [`Home`] and of one image, encoded.
pub const HOME_MAX: u64 = 64 << 20;
pub const IMAGE_MAX: u64 = 256 << 20;
/// Digests that are remembered, 24 bytes each and the table's own: of 16 GiB of distinct pages. What comes later is
/// compared with these only.
const KNOWN_MAX: usize = 4 << 20;

/// A checkpoint that is being written. Dropped before [`Writer::finish`], it leaves nothing.
pub struct Writer {
    // Before `file`: its threads end before the file is removed.
    pack: Pack,
    file: Temporary,
    overwrite: Overwrite,
    begun: Instant,
    totals: Totals,
    frames: usize,
    /// Distinct pages that are not handed over yet.
    block: Vec<u8>,
    /// By the first half of the SHA-256 of its content: the number of a distinct page.
    known: HashMap<[u8; 16], u64>,
    runs: BTreeMap<Pid, Runs>,
    /// Of kept files, by key.
    sizes: HashMap<u32, u64>,
}

/// Stands for memory where pages belong to processes, which have positive numbers.
pub(super) fn memory_id(memory: u32) -> Pid {
    !(memory as Pid)
}

/// Runs of one process that are not handed over yet, and how many frames of them were.
#[derive(Default)]
struct Runs {
    open: Vec<Run>,
    frames: u64,
}

impl Writer {
    pub fn create(path: &Path, header: &Header, overwrite: Overwrite) -> Result<Writer> {
        let begun = Instant::now();
        let header = header.encode()?;
        let (file, handle) = Temporary::create(path, overwrite)?;
        let mut output = Output::new(handle);
        let first = output.write(&header);
        first.map_err(|e| FormatError::io("write", path, e))?;
        Ok(Writer {
            pack: Pack::start(output, path.to_owned())?,
            file,
            overwrite,
            begun,
            totals: Totals::default(),
            frames: 0,
            block: Vec::with_capacity(CHUNK),
            known: HashMap::new(),
            runs: BTreeMap::new(),
            sizes: HashMap::new(),
        })
    }

    fn put(&mut self, kind: Kind, id: u32, number: u64, raw: Vec<u8>) -> Result<()> {
        self.frames += 1;
        if self.frames >= FRAMES_MAX {
            return Err(FormatError::TooLarge {
                what: "the whole",
                max: (FRAMES_MAX * CHUNK) as u64,
            });
        }
        self.pack.put(Key { kind, id, number }, raw)
    }

    /// Bytes in pieces; at least one, so that the reader finds it.
    pub(super) fn pieces(&mut self, kind: Kind, id: u32, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return self.put(kind, id, 0, Vec::new());
        }
        for (number, piece) in (0..).zip(bytes.chunks(CHUNK)) {
            self.put(kind, id, number, piece.to_vec())?;
        }
        Ok(())
    }

    /// Once, before the files.
    pub fn tree(&mut self, home: &Home) -> Result<()> {
        for (key, _) in home.kept_files() {
            self.sizes
                .insert(key, home.kept_size(key).unwrap_or(u64::MAX));
        }
        let what = "the description of its processes";
        let max = HOME_MAX;
        let too_large = || FormatError::TooLarge { what, max };
        let bytes = postcard::to_stdvec(home).map_err(|_| too_large())?;
        if bytes.len() as u64 > max {
            return Err(too_large());
        }
        self.pieces(Kind::Home, 0, &bytes)
    }

    /// Once for each process.
    pub fn image(&mut self, pid: Pid, image: &[u8]) -> Result<()> {
        if image.len() as u64 > IMAGE_MAX {
            return Err(FormatError::TooLarge {
                what: "the image of a process",
                max: IMAGE_MAX,
            });
        }
        self.pieces(Kind::Image, pid as u32, image)
    }

    /// A page of a process, at a multiple of 4096. The same address may come again: the reader gives pages in the order in
    /// which they were written, so the last one holds.
    pub fn page(&mut self, pid: Pid, at: u64, bytes: &[u8; PAGE]) -> Result<()> {
        static ZEROS: [u8; PAGE] = [0; PAGE];
        if *bytes == ZEROS {
            return self.zeros(pid, at, 1);
        }
        self.totals.pages += 1;
        let number = self.store(bytes)?;
        self.run(pid, at, 1, Held::From(number))
    }

    /// A page of memory that is open ([`Home::memory`], by its index), by its offset.
    pub fn memory_page(&mut self, memory: u32, at: u64, bytes: &[u8; PAGE]) -> Result<()> {
        self.page(memory_id(memory), at, bytes)
    }

    /// Zero pages of a process.
    pub fn zeros(&mut self, pid: Pid, at: u64, pages: u64) -> Result<()> {
        self.totals.pages += pages;
        self.totals.zero_pages += pages;
        let (mut at, mut left) = (at, pages);
        while left > 0 {
            let part = u32::try_from(left).unwrap_or(u32::MAX);
            self.run(pid, at, part, Held::Zeros)?;
            left -= u64::from(part);
            at += u64::from(part) * PAGE as u64;
        }
        Ok(())
    }

    /// The number of a page with this content, which is stored when it is new.
    fn store(&mut self, bytes: &[u8; PAGE]) -> Result<u64> {
        let digest = digest(&SHA256, bytes);
        let mut key = [0; 16];
        key.copy_from_slice(&digest.as_ref()[..16]);
        if let Some(number) = self.known.get(&key) {
            return Ok(*number);
        }
        let number = self.totals.distinct_pages;
        self.totals.distinct_pages += 1;
        if self.known.len() < KNOWN_MAX {
            self.known.insert(key, number);
        }
        self.block.extend(bytes);
        if self.block.len() == CHUNK {
            self.end_block()?;
        }
        Ok(number)
    }

    fn end_block(&mut self) -> Result<()> {
        let block = std::mem::replace(&mut self.block, Vec::with_capacity(CHUNK));
        let number = (self.totals.distinct_pages - 1) / (CHUNK / PAGE) as u64;
        self.put(Kind::Block, 0, number, block)
    }

    fn run(&mut self, pid: Pid, at: u64, pages: u32, held: Held) -> Result<()> {
        let run = Run { at, pages, held };
        if !run.sound(self.totals.distinct_pages) {
            let wrong = std::io::Error::other(format!("page {at:#x} lies outside of memory"));
            return Err(FormatError::io("write", self.file.target(), wrong));
        }
        let runs = self.runs.entry(pid).or_default();
        if !runs.open.last_mut().is_some_and(|last| last.extend(&run)) {
            runs.open.push(run);
        }
        match runs.open.len() > RUNS {
            // The last one may still grow.
            true => self.end_runs(pid, RUNS),
            false => Ok(()),
        }
    }

    /// Hands over the first `n` runs.
    fn end_runs(&mut self, pid: Pid, n: usize) -> Result<()> {
        let runs = self.runs.entry(pid).or_default();
        let part: Vec<Run> = runs.open.drain(..n).collect();
        let number = runs.frames;
        runs.frames += 1;
        let bytes = postcard::to_stdvec(&part).map_err(|_| FormatError::TooLarge {
            what: "a list of pages",
            max: CHUNK as u64,
        })?;
        self.put(Kind::Runs, pid as u32, number, bytes)
    }

    /// The content of a file that is kept, under a key of [`Home::kept_files`]. Once for each. What was appended after the
    /// capture is left out.
    pub fn file(&mut self, key: u32, content: &mut dyn Read) -> Result<()> {
        let content = &mut content.take(self.sizes.get(&key).copied().unwrap_or(u64::MAX));
        for number in 0.. {
            let mut piece = Vec::new();
            let read = content.take(CHUNK as u64).read_to_end(&mut piece);
            let n = read.map_err(|e| FormatError::io("read a file for", self.file.target(), e))?;
            self.totals.files_bytes += n as u64;
            // The last piece is the one that is not full.
            self.put(Kind::File, key, number, piece)?;
            if n < CHUNK {
                break;
            }
        }
        self.totals.files += 1;
        Ok(())
    }

    /// After: the file has its name, and all of it is on the disk. An error leaves nothing.
    pub fn finish(mut self) -> Result<Summary> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        let pids: Vec<Pid> = self.runs.keys().copied().collect();
        for pid in pids {
            let open = self.runs[&pid].open.len();
            self.end_runs(pid, open)?;
        }
        let mut output = self.pack.end()?;
        let path = self.file.target().to_owned();
        let failed = |e| FormatError::io("write", &path, e);
        let key = Key {
            kind: Kind::End,
            id: 0,
            number: 0,
        };
        let totals = postcard::to_stdvec(&self.totals).unwrap_or_default();
        output.frame(key, &totals).map_err(failed)?;
        let file_bytes = output.end().map_err(failed)?;
        self.file.keep(self.overwrite)?;
        Ok(Summary {
            totals: self.totals,
            memory_bytes: self.totals.pages * PAGE as u64,
            file_bytes,
            seconds: self.begun.elapsed().as_secs_f64(),
        })
    }
}
