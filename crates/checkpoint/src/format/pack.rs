//! Threads that compress and write: the caller only hands over what is to be written.
//!
//! ```text
//! caller ─ jobs (bounded) ─► two threads compress ─ frames (bounded) ─► one thread writes and hashes
//! ```

use super::error::{FormatError, Result};
use super::frame::{Head, Key};
use ring::digest::{Context, SHA256};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// zstd's fastest ordinary level: about as fast as a disk.
const LEVEL: i32 = 1;
const THREADS: usize = 2;
/// Frames that wait at each of the two places: 4 MiB.
const QUEUE: usize = 16;

struct Job {
    key: Key,
    raw: Vec<u8>,
}

/// A compressed frame.
struct Packed {
    head: Head,
    bytes: Vec<u8>,
}

/// The file, with the digest of what was written to it.
pub struct Output {
    file: io::BufWriter<File>,
    digest: Context,
    pub bytes: u64,
}

impl Output {
    pub fn new(file: File) -> Output {
        Output {
            file: io::BufWriter::with_capacity(1 << 20, file),
            digest: Context::new(&SHA256),
            bytes: 0,
        }
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest.update(bytes);
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    pub fn frame(&mut self, key: Key, raw: &[u8]) -> io::Result<()> {
        let length = raw.len() as u32;
        let head = Head {
            key,
            packed: false,
            stored: length,
            raw: length,
        };
        self.write(&head.encode())?;
        self.write(raw)
    }

    /// Appends the digest; after: everything is on the disk.
    pub fn end(mut self) -> io::Result<u64> {
        let digest = self.digest.clone().finish();
        self.file.write_all(digest.as_ref())?;
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        Ok(self.bytes + digest.as_ref().len() as u64)
    }
}

/// The threads.
pub struct Pack {
    path: PathBuf,
    jobs: Option<SyncSender<Job>>,
    compressors: Vec<JoinHandle<io::Result<()>>>,
    writer: Option<JoinHandle<io::Result<Output>>>,
}

impl Pack {
    pub fn start(output: Output, path: PathBuf) -> Result<Pack> {
        let (jobs, waiting) = sync_channel::<Job>(QUEUE);
        let (done, packed) = sync_channel::<Packed>(QUEUE);
        let failed = |e| FormatError::io("start a thread to write", &path, e);
        let waiting = Arc::new(Mutex::new(waiting));
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let mut compressors = Vec::new();
        for _ in 0..THREADS {
            let (waiting, done) = (waiting.clone(), done.clone());
            let thread = named("ckpt-zstd").spawn(move || compress(&waiting, &done));
            compressors.push(thread.map_err(failed)?);
        }
        let writer = named("ckpt-write").spawn(move || write(output, &packed));
        let writer = Some(writer.map_err(failed)?);
        Ok(Pack {
            path,
            jobs: Some(jobs),
            compressors,
            writer,
        })
    }

    /// Waits when the disk is slower than the caller.
    pub fn put(&mut self, key: Key, raw: Vec<u8>) -> Result<()> {
        let sent = self.jobs.as_ref().map(|jobs| jobs.send(Job { key, raw }));
        match sent {
            Some(Ok(())) => Ok(()),
            // The threads ended early, for a reason that one of them has.
            _ => match self.end() {
                Err(e) => Err(e),
                Ok(_) => Err(self.lost()),
            },
        }
    }

    fn lost(&self) -> FormatError {
        let lost = io::Error::other("it had failed before");
        FormatError::io("write", &self.path, lost)
    }

    /// After: all that was put is written to the file, though not yet on the disk.
    pub fn end(&mut self) -> Result<Output> {
        self.jobs = None;
        let mut failed = None;
        for thread in self.compressors.drain(..) {
            failed = thread.join().ok().and_then(|r| r.err()).or(failed);
        }
        let output = self.writer.take().map(|t| t.join());
        match (output, failed) {
            (Some(Ok(Err(e))), _) | (_, Some(e)) => Err(FormatError::io("write", &self.path, e)),
            (Some(Ok(Ok(output))), None) => Ok(output),
            _ => Err(self.lost()),
        }
    }
}

/// The threads end before the file is removed.
impl Drop for Pack {
    fn drop(&mut self) {
        drop(self.end());
    }
}

fn compress(waiting: &Mutex<Receiver<Job>>, done: &SyncSender<Packed>) -> io::Result<()> {
    let mut zstd = zstd::bulk::Compressor::new(LEVEL)?;
    loop {
        let job = waiting.lock().map(|jobs| jobs.recv());
        let Ok(Ok(Job { key, raw })) = job else {
            return Ok(());
        };
        let packed = zstd.compress(&raw)?;
        let smaller = packed.len() < raw.len();
        let head = Head {
            key,
            packed: smaller,
            raw: raw.len() as u32,
            stored: packed.len().min(raw.len()) as u32,
        };
        let bytes = if smaller { packed } else { raw };
        if done.send(Packed { head, bytes }).is_err() {
            return Ok(());
        }
    }
}

fn write(mut output: Output, packed: &Receiver<Packed>) -> io::Result<Output> {
    for Packed { head, bytes } in packed {
        output.write(&head.encode())?;
        output.write(&bytes)?;
    }
    output.file.flush()?;
    Ok(output)
}
