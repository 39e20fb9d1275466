//! Reads a checkpoint file.

use super::blobs::{self, Stream};
use super::error::{FormatError, Result};
use super::frame::{Key, Kind};
use super::header::{Header, Totals};
use super::pages::Blocks;
use super::runs::{Held, PAGE, Page, Run};
use super::scan::{Place, Scanned, scan};
use super::writer::{HOME_MAX, IMAGE_MAX, memory_id};
use crate::home::Home;
use armento_model::Pid;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A checkpoint that is whole, and as it was written.
pub struct Reader {
    path: PathBuf,
    file: File,
    scanned: Scanned,
    home: Home,
}

impl Reader {
    /// Reads all of it once, and says what is wrong with it.
    pub fn open(path: &Path) -> Result<Reader> {
        let failed = |e| FormatError::io("read", path, e);
        // A FIFO would wait for a writer.
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path);
        let file = file.map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(FormatError::NotACheckpoint(path.to_owned()));
        }
        let scanned = scan(path, &file)?;
        let mut reader = Reader {
            path: path.to_owned(),
            file,
            scanned,
            home: Home::default(),
        };
        let bytes = blobs::whole(&reader.file, &reader.places(Kind::Home, 0), HOME_MAX);
        let bytes = bytes.map_err(|e| reader.failed("processes", e))?;
        let home: Home =
            postcard::from_bytes(&bytes).map_err(|_| reader.changed("description of processes"))?;
        home.check().map_err(|what| reader.changed(what))?;
        reader.home = home;
        Ok(reader)
    }

    fn changed(&self, what: &'static str) -> FormatError {
        FormatError::Changed {
            path: self.path.clone(),
            what,
        }
    }

    /// Data that does not fit, or a file that cannot be read.
    fn failed(&self, what: &'static str, e: io::Error) -> FormatError {
        match e.raw_os_error() {
            None => self.changed(what),
            Some(_) => FormatError::io("read", &self.path, e),
        }
    }

    fn places(&self, kind: Kind, id: u32) -> Vec<Place> {
        let key = |number| Key { kind, id, number };
        let found = self.scanned.frames.range(key(0)..=key(u64::MAX));
        found.map(|(_, place)| *place).collect()
    }

    pub fn header(&self) -> &Header {
        &self.scanned.header
    }

    pub fn totals(&self) -> &Totals {
        &self.scanned.totals
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.scanned.bytes
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    pub fn image(&self, pid: Pid) -> Result<Vec<u8>> {
        let places = self.places(Kind::Image, pid as u32);
        if places.is_empty() {
            return Err(FormatError::Lacks { what: "image", pid });
        }
        let image = blobs::whole(&self.file, &places, IMAGE_MAX);
        image.map_err(|e| self.failed("image", e))
    }

    /// Gives all pages of a process, in the order in which they were written. After an error of `take` it gives no more.
    pub fn pages<E: From<FormatError>>(
        &self,
        pid: Pid,
        take: &mut dyn FnMut(u64, Page<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut blocks = Blocks::new(&self.file, &self.scanned.frames);
        self.runs(pid, &mut |run| {
            let Held::From(first) = run.held else {
                return take(run.at, Page::Zeros(run.pages.into()));
            };
            for n in 0..u64::from(run.pages) {
                let page = blocks.page(first + n);
                let page = page.map_err(|e| self.failed("pages", e))?;
                take(run.at + n * PAGE as u64, Page::Bytes(page))?;
            }
            Ok(())
        })
    }

    /// Gives the pages of memory that is open ([`Home::memory`], by its index) by their offsets, without those of zeros.
    pub fn memory(
        &self,
        memory: u32,
        take: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.pages::<io::Error>(memory_id(memory), &mut |at, page| match page {
            Page::Bytes(bytes) => take(at, bytes),
            Page::Zeros(_) => Ok(()),
        })
    }

    pub(super) fn runs<E: From<FormatError>>(
        &self,
        pid: Pid,
        take: &mut dyn FnMut(&Run) -> Result<(), E>,
    ) -> Result<(), E> {
        let places = self.places(Kind::Runs, pid as u32);
        if !places.is_empty() && !blobs::consecutive(&places) {
            return Err(self.changed("lists of pages").into());
        }
        for place in places {
            let bytes = blobs::frame(&self.file, &place);
            let bytes = bytes.map_err(|e| self.failed("lists of pages", e))?;
            let runs: Vec<Run> =
                postcard::from_bytes(&bytes).map_err(|_| self.changed("lists of pages"))?;
            for run in &runs {
                if !run.sound(self.totals().distinct_pages) {
                    return Err(self.changed("place of a page").into());
                }
                take(run)?;
            }
        }
        Ok(())
    }

    /// The content of a kept file.
    pub fn file(&self, key: u32) -> Result<impl Read + '_> {
        let places = self.places(Kind::File, key);
        if places.is_empty() {
            return Err(FormatError::NoFile(key));
        }
        match blobs::consecutive(&places) {
            true => Ok(Stream::new(&self.file, places)),
            false => Err(self.changed("pieces of a file")),
        }
    }
}
