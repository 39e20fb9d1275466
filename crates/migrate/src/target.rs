//! The target: reads what [`crate::source`] writes and rebuilds the process.
//!
//! From: `source/mod.rs`. Next: the owner's thaw (`host/src/moves/arrive.rs`, `keeper/src/moves/home.rs`); pages that come
//! after the flip: `postcopy/fetch.rs`.

use crate::Result;
use crate::failpoint::point;
use crate::files::Like;
use crate::image::area::Flags;
use crate::image::areas::{self, Step};
use crate::image::{Accept, Area, Head, Kind, Layout, State};
use crate::pages::Sink;
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
    /// What becomes of the pages.
    type Sink: Sink;

    /// Offer: accepts (with the files it lacks) or declines, and creates an empty process with this layout.
    fn offered(&mut self, head: Head) -> Result<Accept>;
    /// Which of these files, mapped since the offer, it lacks: they come before the layout.
    fn lacks(&mut self, files: Vec<FileKey>) -> Result<Vec<FileKey>>;
    /// Which of these files, reported as lacking, it also has no identical copy of.
    fn alike(&mut self, files: Vec<Like>) -> Result<Vec<FileKey>> {
        Ok(files.into_iter().map(|like| like.key).collect())
    }
    fn file(&mut self, key: &FileKey, off: u64, bytes: &[u8]) -> Result<()>;
    /// The process, ready to be written: called before the first pages, when its files are there.
    fn ready_for_pages(&mut self) -> Result<Self::Sink>;
    /// Gives up pages that came: they come again after the flip. Before: `Accept` allowed that.
    fn give_up(&mut self, runs: Vec<Run>) -> Result<()>;
    /// Dirty: the source is frozen, and this is the last layout.
    fn layout(&mut self, layout: Layout) -> Result<()>;
    /// State: everything is there. Completes the process without letting it run.
    fn build(&mut self, state: State) -> Result<()>;
}

/// Receives one process. After `Ok` it is complete and stopped. Returns the bytes of its pages.
///
/// The messages of the source tell its phase (`phase.rs`): up to the last layout the process runs there.
pub fn receive(r: &mut impl Read, w: &mut impl Write, b: &mut impl Builder) -> Result<u64> {
    let mut t = Target {
        r,
        w,
        b,
        buf: Vec::new(),
        grow: Grow::default(),
        patient: None,
        file: None,
        filler: None,
        total: 0,
        state: None,
    };
    t.offer()?;
    loop {
        match read_frame(t.r, &mut t.buf)? {
            // Files that it lacks: also after the freeze, before the layout.
            bulk::MORE => t.more_files()?,
            bulk::ALIKE => t.same_files()?,
            bulk::FILE => t.file = Some((talk::decode(&t.buf, "file")?, 0)),
            bulk::BYTES => t.bytes_of_file()?,
            // Pre-copy; pages come after the layout, too.
            bulk::PAGES => t.pages()?,
            bulk::DROP => t.give_up()?,
            bulk::SYNC => t.end_round()?,
            bulk::LAYOUT => t.dirty()?,
            bulk::STATE => t.state()?,
            bulk::END => return t.build(),
            _ => return Err(WireError::Garbled("image").into()),
        }
    }
}

/// What has come of a process so far.
struct Target<'a, R, W, B: Builder> {
    r: &'a mut R,
    w: &'a mut W,
    b: &'a mut B,
    /// The last message.
    buf: Vec<u8>,
    grow: Grow,
    /// Present while the process runs at the source.
    patient: Option<Patient>,
    /// The file that is being received, and how much of it has come.
    file: Option<(FileKey, u64)>,
    filler: Option<B::Sink>,
    /// Bytes of pages.
    total: u64,
    state: Option<State>,
}

impl<R: Read, W: Write, B: Builder> Target<'_, R, W, B> {
    fn offer(&mut self) -> Result<()> {
        expect(read_frame(self.r, &mut self.buf)?, bulk::OFFER)?;
        point(Failpoint::TargetOffered);
        let head: Head = talk::decode(&self.buf, "offer")?;
        head.check()?;
        let accept = match self.b.offered(head) {
            Ok(a) => {
                write_frame(self.w, bulk::ACCEPT, &[&talk::encode(&a)])?;
                a
            }
            Err(e) => {
                let why = (e.stay(), e.detail());
                write_frame(self.w, bulk::DECLINE, &[&talk::encode(&why)])?;
                return Err(e);
            }
        };
        self.patient = Some(Patient::begin());
        if accept.files.is_empty() {
            // Done while the source is busy with its own next step.
            self.filler = Some(self.b.ready_for_pages()?);
        }
        Ok(())
    }

    fn more_files(&mut self) -> Result<()> {
        let lacks = self.b.lacks(talk::decode(&self.buf, "more files")?)?;
        write_frame(self.w, bulk::LACKS, &[&talk::encode(&lacks)])?;
        Ok(())
    }

    fn same_files(&mut self) -> Result<()> {
        let lacks = self
            .b
            .alike(talk::decode(&self.buf, "files it may have")?)?;
        write_frame(self.w, bulk::LACKS, &[&talk::encode(&lacks)])?;
        Ok(())
    }

    fn bytes_of_file(&mut self) -> Result<()> {
        let (key, at) = self.file.as_mut().ok_or(WireError::Garbled("file"))?;
        let bytes = self.grow.body(&self.buf, pages::SPAN_MAX)?;
        self.b.file(key, *at, bytes)?;
        *at += bytes.len() as u64;
        Ok(())
    }

    fn pages(&mut self) -> Result<()> {
        let filler = ready(&mut self.filler, self.b)?;
        self.total += filler.pages(&self.buf)?;
        if let Some(p) = &self.patient {
            p.breathe();
        }
        Ok(())
    }

    fn give_up(&mut self) -> Result<()> {
        if let Some(filler) = &mut self.filler {
            filler.close()?;
        }
        self.b.give_up(talk::decode(&self.buf, "pages to give up")?)
    }

    fn end_round(&mut self) -> Result<()> {
        let unmapped = ready(&mut self.filler, self.b)?.take_unmapped();
        write_frame(self.w, bulk::SYNCED, &[&talk::encode(&unmapped)])?;
        Ok(())
    }

    /// The source is frozen.
    fn dirty(&mut self) -> Result<()> {
        drop(self.patient.take());
        let filler = ready(&mut self.filler, self.b)?;
        filler.close()?;
        filler.settle();
        let layout: Layout = talk::decode(&self.buf, "layout")?;
        layout.check()?;
        self.b.layout(layout)?;
        point(Failpoint::TargetLaidOut);
        Ok(())
    }

    fn state(&mut self) -> Result<()> {
        point(Failpoint::TargetFilled);
        let came: State = talk::decode(&self.buf, "state")?;
        came.check()?;
        self.state = Some(came);
        Ok(())
    }

    /// Everything has come.
    fn build(self) -> Result<u64> {
        self.b
            .build(self.state.ok_or(WireError::Garbled("state"))?)?;
        point(Failpoint::TargetBuilt);
        Ok(self.total)
    }
}

/// The process, ready to be written.
fn ready<'a, B: Builder>(filler: &'a mut Option<B::Sink>, b: &mut B) -> Result<&'a mut B::Sink> {
    match filler {
        Some(f) => Ok(f),
        None => Ok(filler.insert(b.ready_for_pages()?)),
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
