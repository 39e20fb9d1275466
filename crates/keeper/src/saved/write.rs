//! The file itself, while the processes run on.
//!
//! From: `save.rs`. Next: `armento_checkpoint::format`.

use super::copies::Copied;
use super::mapped;
use super::refuse::{not_copied, refused};
use crate::state::Keep;
use crate::sync::lock;
use armento_checkpoint::format::{FormatError, Header, Overwrite, PAGE, Summary, Writer};
use armento_checkpoint::home::{Home, TakePage, record_hashes};
use armento_client::api::{CheckpointOrder, Checkpointed, Refusal};
use armento_migrate::pages::PageStore;
use armento_model::ENGINE_VERSION;
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

/// Files of which a digest is taken, bytes.
const HASHED_MAX: u64 = 1 << 30;
/// Bytes of pages that are read at once.
const RUN: u64 = 256 << 10;

/// What was taken of processes that stood still, beside what the kernel keeps of them.
pub struct Taken {
    pub copied: Vec<Copied>,
    /// Contents of files that are kept, and of memory that is open, by their numbers.
    pub files: Vec<(u32, File)>,
    pub memory: Vec<(u32, PageStore)>,
}

/// Writes everything. Nothing is left of a file that cannot be completed.
pub fn write(
    keep: &Keep,
    mut home: Home,
    taken: Taken,
    order: &CheckpointOrder,
) -> Result<Checkpointed, Refusal> {
    let Taken {
        copied,
        files,
        memory,
    } = taken;
    record_hashes(&mut home, HASHED_MAX);
    let root = home.root().map_or(0, |p| p.pid);
    let mut header = Header::here(
        ENGINE_VERSION,
        env!("CARGO_PKG_VERSION"),
        &keep.settings.node.to_string(),
        root,
    );
    header.with_files = order.with_files;
    let overwrite = match order.overwrite {
        true => Overwrite::Yes,
        false => Overwrite::No,
    };
    let mut writer =
        Writer::create(Path::new(&order.file), &header, overwrite).map_err(|e| unwritten(&e))?;
    writer.tree(&home).map_err(|e| unwritten(&e))?;
    let mut known = HashMap::new();
    let pids = home.processes.iter().map(|p| p.pid).collect();
    for mut c in copied {
        let files = mapped::read(&c.names, &mut known);
        c.body.files = files.map_err(|e| not_copied(c.pid, &e))?;
        writer
            .image(c.pid, &c.body.encode())
            .and_then(|()| {
                each_page(&lock(&c.pages), &mut |at, page| {
                    writer.page(c.pid, at, page)
                })
            })
            .map_err(|e| unwritten(&e))?;
    }
    for (number, pages) in memory {
        let mut write = |at, page: &_| writer.memory_page(number, at, page);
        each_page(&pages, &mut write).map_err(|e| unwritten(&e))?;
    }
    for (key, mut content) in files {
        writer.file(key, &mut content).map_err(|e| unwritten(&e))?;
    }
    let Summary {
        totals,
        memory_bytes,
        file_bytes,
        ..
    } = writer.finish().map_err(|e| unwritten(&e))?;
    Ok(Checkpointed {
        pids,
        file: order.file.clone(),
        pause_us: 0,
        total_us: 0,
        memory_bytes,
        distinct_bytes: totals.distinct_pages * PAGE as u64,
        file_bytes,
    })
}

fn each_page(pages: &PageStore, take: TakePage<'_, FormatError>) -> Result<(), FormatError> {
    let mut buffer = vec![0; RUN as usize];
    for (start, end) in pages.runs(RUN) {
        let bytes = &mut buffer[..(end - start) as usize];
        let read = pages.read_run((start, end), bytes);
        read.map_err(|e| {
            let e = std::io::Error::other(e.to_string());
            FormatError::io("read the memory for", Path::new("a checkpoint"), e)
        })?;
        let (whole, _) = bytes.as_chunks::<PAGE>();
        for (n, page) in (0..).zip(whole) {
            take(start + n * PAGE as u64, page)?;
        }
    }
    Ok(())
}

fn unwritten(e: &FormatError) -> Refusal {
    let what = format!("{e}; the processes go on, no file was written");
    refused("not-written", what, e.hint().unwrap_or("try again"))
}
