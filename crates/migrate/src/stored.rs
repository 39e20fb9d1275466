//! A process that is kept, complete and stopped: a checkpoint.
//!
//! A checkpoint is a move whose target keeps what comes ([`Taking`]) instead of building it, and whose source goes on when
//! everything has come. It is sent again as a move whose source is what was kept (`source/stored.rs`).
//!
//! From: `target.rs`. Next: its owner commits it, and lets the source go on. Pages: `pages/store.rs`.

use crate::image::{Accept, Area, Head, Kind, Layout, State};
use crate::pages::{PageStore, Sink};
use crate::target::Builder;
use crate::{MigrateError, Result};
use armento_model::{MoveId, Stay};
use armento_tracee::PAGE;
use armento_tracee::pages::{self, Run};
use armento_wire::WireError;
use armento_wire::codec::Grow;
use armento_wire::pages::{Holds, PAGE as PAGE_LEN, Part, decode, sum};
use armento_wire::talk::FileKey;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A kept process but for its pages.
#[derive(Clone, Debug)]
pub struct Image {
    pub head: Head,
    pub layout: Layout,
    pub state: State,
}

impl Image {
    /// Its memory, sorted.
    pub fn there(&self) -> Vec<Run> {
        let all = self.layout.areas.iter().map(Area::run).collect();
        pages::union(all, &[])
    }
}

fn lock(store: &Mutex<PageStore>) -> MutexGuard<'_, PageStore> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A checkpoint that is coming.
pub struct Taking {
    store: Arc<Mutex<PageStore>>,
    /// The move that brought what is kept.
    before: Option<MoveId>,
    head: Option<Head>,
    layout: Option<Layout>,
    /// Pages of the checkpoint before that are gone.
    dropped: Vec<Run>,
    state: Option<State>,
    /// Those that share its memory come with it.
    joint: bool,
    /// When the last layout came: the process stands still from shortly before.
    frozen: Option<Instant>,
}

impl Taking {
    pub fn new(store: &Arc<Mutex<PageStore>>, before: Option<MoveId>) -> Taking {
        Taking {
            store: store.clone(),
            before,
            head: None,
            layout: None,
            dropped: Vec::new(),
            state: None,
            joint: false,
            frozen: None,
        }
    }

    /// As [`Taking::new`], of a process that comes with all that share its memory: what they share comes with one of them.
    pub fn joint(store: &Arc<Mutex<PageStore>>) -> Taking {
        Taking {
            joint: true,
            ..Taking::new(store, None)
        }
    }

    /// Its mappings, once the last layout has come.
    pub fn areas(&self) -> &[Area] {
        self.layout.as_ref().map_or(&[], |l| &l.areas)
    }

    /// Since when the process stands still, once the last layout has come.
    pub fn frozen_since(&self) -> Instant {
        self.frozen.unwrap_or_else(Instant::now)
    }

    /// Everything has come: the checkpoint before is replaced by this one. Also since when the process stands still.
    pub fn commit(self) -> Result<(Image, Instant)> {
        let frozen = self.frozen_since();
        let (Some(head), Some(layout), Some(state)) = (self.head, self.layout, self.state) else {
            return Err(MigrateError::Ended);
        };
        let image = Image {
            head,
            layout,
            state,
        };
        let mut store = lock(&self.store);
        store.drop_pages(&self.dropped);
        store.commit(&image.there(), image.head.since.is_none());
        drop(store);
        Ok((image, frozen))
    }

    /// It comes no more.
    pub fn discard(self) {
        lock(&self.store).discard();
    }
}

impl Builder for Taking {
    type Sink = Keeps;

    fn offered(&mut self, head: Head) -> Result<Accept> {
        self.travels_alone(&head.areas)?;
        if head.since.is_some() && head.since != self.before {
            let why = "it would be put upon another checkpoint than is kept".into();
            return Err(MigrateError::Stays(Stay::TargetFailed, why));
        }
        self.head = Some(head);
        Ok(Accept {
            // They are home's.
            files: Vec::new(),
            precopy: true,
            postcopy: false,
            // The node that it goes on at may have another kernel.
            vdso: true,
        })
    }

    fn lacks(&mut self, _: Vec<FileKey>) -> Result<Vec<FileKey>> {
        Ok(Vec::new())
    }

    fn file(&mut self, _: &FileKey, _: u64, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn ready_for_pages(&mut self) -> Result<Keeps> {
        Ok(Keeps {
            store: self.store.clone(),
            grow: Grow::default(),
        })
    }

    fn give_up(&mut self, _: Vec<Run>) -> Result<()> {
        let why = "a checkpoint takes no pages behind it".into();
        Err(MigrateError::Stays(Stay::TargetFailed, why))
    }

    fn layout(&mut self, layout: Layout) -> Result<()> {
        self.frozen = Some(Instant::now());
        self.travels_alone(&layout.areas)?;
        self.dropped = layout.dropped;
        self.layout = Some(Layout {
            areas: layout.areas,
            dropped: Vec::new(),
            later: Vec::new(),
        });
        Ok(())
    }

    fn build(&mut self, state: State) -> Result<()> {
        self.state = Some(state);
        Ok(())
    }
}

impl Taking {
    /// Memory that another process writes is not in a checkpoint of this one alone.
    fn travels_alone(&self, areas: &[Area]) -> Result<()> {
        let shared = |a: &&Area| matches!(a.kind, Kind::Shared { .. });
        match areas.iter().find(shared) {
            Some(_) if !self.joint => Err(MigrateError::Stays(
                Stay::SharedMemory,
                "it shares memory with other processes".into(),
            )),
            _ => Ok(()),
        }
    }
}

/// Writes received pages into the store.
pub struct Keeps {
    store: Arc<Mutex<PageStore>>,
    grow: Grow,
}

impl Sink for Keeps {
    fn pages(&mut self, body: &[u8]) -> Result<u64> {
        let mut grow = std::mem::take(&mut self.grow);
        let told = decode(body, &mut grow)?;
        keep(&mut lock(&self.store), &told.0, told.1)?;
        self.grow = grow;
        Ok(body.len() as u64)
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }

    fn settle(&mut self) {}

    fn take_unmapped(&mut self) -> Vec<Run> {
        Vec::new()
    }
}

fn keep(store: &mut PageStore, parts: &[Part], mut rest: &[u8]) -> Result<()> {
    const BAD: WireError = WireError::Garbled("page of a checkpoint");
    let whole = |p: &Part| p.at.is_multiple_of(PAGE) && p.len.is_multiple_of(PAGE_LEN);
    if !parts.iter().all(whole) {
        return Err(BAD.into());
    }
    for p in parts {
        let addresses = (p.at..p.at + p.len as u64).step_by(PAGE_LEN);
        match p.holds {
            Holds::Bytes => {
                for at in addresses {
                    let (page, others) = rest.split_first_chunk::<PAGE_LEN>().ok_or(BAD)?;
                    rest = others;
                    store.stage(at, page)?;
                }
            }
            Holds::Zeros => addresses.for_each(|at| store.stage_zeros(at)),
            Holds::Like { .. } => {}
        }
    }
    for p in parts {
        if let Holds::Like { at, sum: told } = p.holds {
            let page = store.staged(at)?.filter(|page| sum(page) == told);
            let page = page.ok_or_else(|| {
                let why = "a page that others are like is not as it was sent".into();
                MigrateError::Stays(Stay::TargetFailed, why)
            })?;
            store.stage(p.at, &page)?;
        }
    }
    Ok(())
}
