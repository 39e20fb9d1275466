//! The target: reads what [`crate::source`] writes and rebuilds the process.
//!
//! From: `source/mod.rs`. Next: the owner's thaw (`host/src/moves/arrive.rs`, `keeper/src/moves/home.rs`); pages that come after the
//! flip: `postcopy/fetch.rs`.

use crate::Result;
use crate::failpoint::point;
use crate::files::Like;
use crate::image::area::Flags;
use crate::image::areas::{self, Step};
use crate::image::{Accept, Area, Head, Kind, Layout, State};
use crate::pages::Filler;
use crate::phase::Failpoint;
use armento_tracee::call::Call;
use armento_tracee::inject::Hold;
use armento_tracee::pages::Run;
use armento_tracee::region::Code;
use armento_tracee::sched_slice::Patient;
use armento_wire::bulk;
use armento_wire::codec::Grow;
use armento_wire::pages;
use armento_wire::talk::{self, FileKey};
use armento_wire::{WireError, read_frame, write_frame};
use std::io::{Read, Write};

/// The operations of a target; the owner implements them (on its tracer thread).
pub trait Builder {
    /// Accepts (with the files it lacks) or declines, and creates an empty process with this layout.
    fn offered(&mut self, head: Head) -> Result<Accept>;
    /// Which of these files, mapped since the offer, it lacks: they come before the layout.
    fn lacks(&mut self, files: Vec<FileKey>) -> Result<Vec<FileKey>>;
    /// Which of these files, reported as lacking, it also has no identical copy of.
    fn alike(&mut self, files: Vec<Like>) -> Result<Vec<FileKey>> {
        Ok(files.into_iter().map(|like| like.key).collect())
    }
    fn file(&mut self, key: &FileKey, off: u64, bytes: &[u8]) -> Result<()>;
    /// The process, ready to be written: called before the first pages, when its files are there.
    fn ready_for_pages(&mut self) -> Result<Filler>;
    /// Gives up pages that came: they come again after the flip. Before: `Accept` allowed that.
    fn give_up(&mut self, runs: Vec<Run>) -> Result<()>;
    /// The source is frozen: this is the last layout.
    fn layout(&mut self, layout: Layout) -> Result<()>;
    /// Everything is there: completes the process without letting it run.
    fn build(&mut self, state: State) -> Result<()>;
}

/// Receives one process. After `Ok` it is complete and stopped. Returns the bytes of its pages.
pub fn receive(r: &mut impl Read, w: &mut impl Write, b: &mut impl Builder) -> Result<u64> {
    let mut buf = Vec::new();
    expect(read_frame(r, &mut buf)?, bulk::OFFER)?;
    point(Failpoint::TargetOffered);
    let head: Head = talk::decode(&buf, "offer")?;
    head.check()?;
    let accept = match b.offered(head) {
        Ok(a) => {
            write_frame(w, bulk::ACCEPT, &[&talk::encode(&a)])?;
            a
        }
        Err(e) => {
            let why = (e.stay(), e.detail());
            write_frame(w, bulk::DECLINE, &[&talk::encode(&why)])?;
            return Err(e);
        }
    };
    let mut file: Option<(FileKey, u64)> = None;
    let mut state: Option<State> = None;
    let mut to: Option<Filler> = None;
    let (mut total, mut grow) = (0, Grow::default());
    // What comes before the last layout was sent while the process runs.
    let mut patient = Some(Patient::begin());
    if accept.files.is_empty() {
        // Done while the source is busy with its own next step.
        to = Some(b.ready_for_pages()?);
    }
    loop {
        match read_frame(r, &mut buf)? {
            bulk::MORE => {
                let lacks = b.lacks(talk::decode(&buf, "more files")?)?;
                write_frame(w, bulk::LACKS, &[&talk::encode(&lacks)])?;
            }
            bulk::ALIKE => {
                let lacks = b.alike(talk::decode(&buf, "files it may have")?)?;
                write_frame(w, bulk::LACKS, &[&talk::encode(&lacks)])?;
            }
            bulk::FILE => file = Some((talk::decode(&buf, "file")?, 0)),
            bulk::BYTES => {
                let (key, at) = file.as_mut().ok_or(WireError::Garbled("file"))?;
                let bytes = grow.body(&buf, pages::SPAN_MAX)?;
                b.file(key, *at, bytes)?;
                *at += bytes.len() as u64;
            }
            bulk::PAGES => {
                let to = match &mut to {
                    Some(t) => t,
                    None => to.insert(b.ready_for_pages()?),
                };
                total += to.pages(&buf)?;
                if let Some(p) = &patient {
                    p.breathe();
                }
            }
            bulk::DROP => {
                if let Some(to) = &mut to {
                    to.close()?;
                }
                b.give_up(talk::decode(&buf, "pages to give up")?)?;
            }
            bulk::SYNC => {
                let to = match &mut to {
                    Some(t) => t,
                    None => to.insert(b.ready_for_pages()?),
                };
                write_frame(w, bulk::SYNCED, &[&talk::encode(&to.take_unmapped())])?;
            }
            bulk::LAYOUT => {
                drop(patient.take());
                let to = match &mut to {
                    Some(t) => t,
                    None => to.insert(b.ready_for_pages()?),
                };
                to.close()?;
                to.settle();
                let layout: Layout = talk::decode(&buf, "layout")?;
                layout.check()?;
                b.layout(layout)?;
                point(Failpoint::TargetLaidOut);
            }
            bulk::STATE => {
                point(Failpoint::TargetFilled);
                let came: State = talk::decode(&buf, "state")?;
                came.check()?;
                state = Some(came);
            }
            bulk::END => {
                b.build(state.ok_or(WireError::Garbled("state"))?)?;
                point(Failpoint::TargetBuilt);
                return Ok(total);
            }
            _ => return Err(WireError::Garbled("image").into()),
        }
    }
}

fn expect(kind: u8, want: u8) -> Result<()> {
    if kind == want {
        Ok(())
    } else {
        Err(WireError::Garbled("image").into())
    }
}

/// Changes the mappings of a held process from `old` to `new`. `map` makes those that need more than one call: mappings
/// of files and of shared memory. New mappings are disjoint, so these calls can be batched.
pub fn relayout(
    h: &mut Hold,
    code: &Code,
    old: &[Area],
    new: &[Area],
    map: &mut dyn FnMut(&mut Hold, &[Area]) -> Result<()>,
) -> Result<()> {
    let (mut calls, mut views) = (Vec::<Call>::new(), Vec::new());
    let (mut flags, mut hints) = (Vec::<Call>::new(), Vec::<Call>::new());
    for step in areas::steps(old, new) {
        let (must, more) = flag_calls(&step);
        flags.extend(must);
        hints.extend(more);
        match (step_call(&step), step) {
            (Some(call), _) => calls.push(call),
            (None, Step::Map(a)) => views.push(a),
            (None, _) => {}
        }
    }
    h.batch_ok(code, "map", &calls)?;
    map(h, &views)?;
    h.batch_ok(code, "map", &flags)?;
    // A kernel without huge pages refuses advice about them, and nothing is lost.
    h.batch(code, &hints)?;
    Ok(())
}

/// The single call that performs a step; a file mapping needs more, and flags need none.
pub fn step_call(step: &Step) -> Option<Call> {
    Some(match step {
        Step::Unmap((a, b)) => (libc::SYS_munmap, [*a, b - a, 0, 0, 0, 0]),
        Step::Protect((a, b), prot) => (libc::SYS_mprotect, [*a, b - a, *prot as u64, 0, 0, 0]),
        Step::Map(a) if matches!(a.kind, Kind::File { .. } | Kind::Shared { .. }) => return None,
        Step::Map(a) => map_anon(a),
        Step::Advise(..) => return None,
    })
}

/// The flags of a step, set after it: calls that must succeed, and hints.
pub fn flag_calls(step: &Step) -> (Vec<Call>, Vec<Call>) {
    match step {
        Step::Map(a) => a.flags.calls(Flags::default(), a.run()),
        Step::Advise(run, old, new) => new.calls(*old, *run),
        _ => Default::default(),
    }
}

fn map_anon(a: &Area) -> Call {
    let grows = if a.grows() { libc::MAP_GROWSDOWN } else { 0 };
    let plain = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let flags = plain | grows | a.flags.of_mmap();
    let args = [
        a.start,
        a.end - a.start,
        a.prot as u64,
        flags as u64,
        u64::MAX,
        0,
    ];
    (libc::SYS_mmap, args)
}

/// Calls that empty pages which the source dropped after sending them.
pub fn drop_calls(dropped: &[Run]) -> Vec<Call> {
    let call = |r: &Run| {
        (
            libc::SYS_madvise,
            [r.0, r.1 - r.0, libc::MADV_DONTNEED as u64, 0, 0, 0],
        )
    };
    dropped.iter().map(call).collect()
}
