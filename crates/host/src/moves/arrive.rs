//! A process arrives: the host's side of `migrate::target`.
//!
//! From: `migrate/src/target.rs`. Next: `serve.rs`, when home says Thaw.

use crate::calls::mmap::{OTHER_MAX, map_call, map_file};
use crate::files::incoming::{Coming, MORE_MAX};
use crate::inject::zygote::{clone_args, new_body, wait_first_stop};
use crate::inject::{allowed_calls, vdso};
use crate::moves::postcopy;
use crate::state::drain;
use crate::state::guests::{Body, Th, Zoo};
use crate::state::shared::{Cell, Proc, Shared, lock, says};
use crate::sys;
use crate::threads::{futex_waits, stops};
use armento_link::{Reader, Writer};
use armento_migrate::alike::Like;
use armento_migrate::carry::files_of;
use armento_migrate::fault::point;
use armento_migrate::fetch::Fetch;
use armento_migrate::fill::{Filler, StandIns};
use armento_migrate::image::areas::{Area, Kind};
use armento_migrate::image::files::rescued;
use armento_migrate::image::names;
use armento_migrate::image::objects::{Object, ObjectId};
use armento_migrate::image::processor::{self, Here};
use armento_migrate::image::{
    Accept, Head, Layout, State, flags, itimers, membarrier, mm, objects, sigs, thread,
};
use armento_migrate::stop::Halted;
use armento_migrate::target::{self, Builder, drop_calls, relayout};
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{CpuTime, ENGINE_VERSION, MoveId, Pid, Stay, Tid, Xsave};
use armento_tracee::inject::{Call, Hold, ok};
use armento_tracee::pages::{self, Backing, Run};
use armento_tracee::region::{BOOTHS, Code};
use armento_tracee::trace::TraceError;
use armento_tracee::uffd::{USER_MODE_ONLY, Uffd};
use armento_tracee::{sys as tsys, trace};
use armento_wire::talk::{FileKey, Signal, ToHome};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Receives one process and tells home how it went.
pub fn receive(sh: &Arc<Shared>, mv: MoveId, mut r: Reader, mut w: Writer) {
    let mut a = Arrival {
        sh: sh.clone(),
        head: None,
        files: Coming::new(sh),
        mv,
        pid: 0,
        away: CpuTime::default(),
        later: Vec::new(),
        rest: None,
        from: Xsave::default(),
    };
    match target::receive(&mut r, &mut w, &mut a) {
        Ok(bytes) => {
            let away = a.away;
            sh.tell(&ToHome::Ready { mv, bytes, away });
            if let Some((proc, rest)) = a.rest.take() {
                postcopy::fetch((a.pid, &proc), rest, (&mut r, &mut w));
            }
        }
        Err(e) => {
            if a.pid != 0 {
                let pid = a.pid;
                sh.hand.run(move |zoo| drop_unthawed(zoo, mv, pid));
            }
            let (stay, detail) = says(&e);
            sh.tell(&ToHome::Failed { mv, stay, detail });
        }
    }
    drop(a);
    tsys::give_back();
}

/// A body that never ran is thrown away. One that another move of the process has brought meanwhile is not: what is said
/// of this move may have waited for a cable.
pub fn drop_unthawed(zoo: &mut Zoo, mv: MoveId, pid: Pid) {
    if unthawed(zoo, mv, pid).is_ok() {
        stops::remove(zoo, pid);
    }
}

/// An earlier body goes in less, unless the link stands still.
const DROP_MAX: Duration = Duration::from_millis(500);
/// Between two looks: a small part of what making a body takes.
const DROP_LOOK: Duration = Duration::from_micros(200);

struct Arrival {
    sh: Arc<Shared>,
    head: Option<Head>,
    files: Coming,
    mv: MoveId,
    pid: Pid,
    /// CPU that it used away before.
    away: CpuTime,
    /// Pages that come behind the flip, and who receives them.
    later: Vec<Run>,
    rest: Option<(Arc<Proc>, Fetch)>,
    /// How threads' extended state is laid out where it was.
    from: Xsave,
}

impl Arrival {
    /// Home's word that an earlier body of the same process is to go comes on another stream: this one may be quicker.
    fn await_drop(&self, pid: Pid) {
        let until = Instant::now() + DROP_MAX;
        let runs = move |zoo: &mut Zoo| zoo.bodies.get(&pid).is_some_and(|b| !b.quiet);
        while self.sh.hand.run(runs) == Some(true) && Instant::now() < until {
            std::thread::sleep(DROP_LOOK);
        }
    }
}

impl Builder for Arrival {
    fn offered(&mut self, head: Head) -> Result<Accept> {
        if head.engine != ENGINE_VERSION {
            return Err(MigrateError::Stays(
                Stay::EngineVersion,
                format!("we run {ENGINE_VERSION}, it comes with {}", head.engine),
            ));
        }
        if let Some((stay, why)) = self.sh.shut.stays() {
            return Err(MigrateError::Stays(stay, why));
        }
        here().takes(&head.processor)?;
        self.from = head.processor.xsave.clone();
        let files = self.files.missing(files_of(&head.areas), OTHER_MAX)?;
        let vdso = head.mm.vdso;
        self.head = Some(head);
        Ok(Accept {
            files,
            precopy: true,
            postcopy: postcopy::can(&self.sh),
            vdso: vdso.is_some_and(|v| !v.is_ours()),
        })
    }

    fn lacks(&mut self, files: Vec<FileKey>) -> Result<Vec<FileKey>> {
        self.files.missing(files, MORE_MAX)
    }

    fn alike(&mut self, files: Vec<Like>) -> Result<Vec<FileKey>> {
        self.files.alike(files)
    }

    fn file(&mut self, key: &FileKey, off: u64, bytes: &[u8]) -> Result<()> {
        self.files.write(key, off, bytes)
    }

    fn ready_for_pages(&mut self) -> Result<Filler> {
        self.files.keep();
        let head = self.head.take().ok_or_else(|| {
            MigrateError::Stays(Stay::TargetFailed, "pages before an offer".into())
        })?;
        let (mv, pid) = (self.mv, head.pid);
        self.await_drop(pid);
        let begun = self.sh.hand.run(move |zoo| begin(zoo, mv, &head));
        let filler = begun.unwrap_or(Err(MigrateError::Ended))?;
        self.pid = pid;
        Ok(filler)
    }

    fn give_up(&mut self, runs: Vec<Run>) -> Result<()> {
        let (mv, pid) = (self.mv, self.pid);
        self.sh
            .hand
            .run(move |zoo| give_up(zoo, (mv, pid), &runs))
            .unwrap_or(Err(MigrateError::Ended))
    }

    fn layout(&mut self, mut layout: Layout) -> Result<()> {
        self.files.keep();
        let (mv, pid) = (self.mv, self.pid);
        self.later = std::mem::take(&mut layout.later);
        self.sh
            .hand
            .run(move |zoo| lay_out(zoo, (mv, pid), layout))
            .unwrap_or(Err(MigrateError::Ended))
    }

    fn build(&mut self, mut state: State) -> Result<()> {
        processor::fit(&mut state.threads, &self.from, armento_sense::xsave())?;
        let (mv, pid) = (self.mv, self.pid);
        self.away = state.cpu.away;
        let later = std::mem::take(&mut self.later);
        self.rest = self
            .sh
            .hand
            .run(move |zoo| finish(zoo, (mv, pid), &state, &later))
            .unwrap_or(Err(MigrateError::Ended))?;
        Ok(())
    }
}

/// This machine's processor, as far as guests may count on it.
fn here() -> &'static Here {
    static HERE: OnceLock<Here> = OnceLock::new();
    HERE.get_or_init(|| Here {
        has: armento_sense::claimed_cpu_set(),
        xsave: armento_sense::claimed_xsave(),
    })
}

/// The body that the move `mv` builds, and that has not run. What a cable held up may go on when another move of the
/// process has begun its own.
fn unthawed(zoo: &mut Zoo, mv: MoveId, pid: Pid) -> Result<&mut Body> {
    let its = |b: &&mut Body| b.quiet && b.mv == Some(mv);
    let b = zoo.bodies.get_mut(&pid).filter(its);
    b.ok_or(MigrateError::Ended)
}

/// An empty body of the offered shape.
fn begin(zoo: &mut Zoo, mv: MoveId, head: &Head) -> Result<Filler> {
    if zoo.sh().turns.aborted(mv) {
        return Err(MigrateError::Ended);
    }
    if let Some(old) = zoo.bodies.get(&head.pid) {
        if old.mv >= Some(mv) {
            // On a plain wire a connection can be repeated, and a cable may hold it up. That body is not ours.
            let why = "this move is under way already, or over".into();
            return Err(MigrateError::Stays(Stay::TargetFailed, why));
        }
        if !old.quiet {
            return Err(MigrateError::Stays(
                Stay::TargetFailed,
                "it is here already".into(),
            ));
        }
        stops::remove(zoo, head.pid);
    }
    let sh = zoo.sh();
    forget_rescued(zoo, &head.areas);
    let here = new_body(zoo.zygote, &zoo.code, &sh.open, head.pid)?;
    let cell = Arc::new(Cell {
        tid: head.pid,
        here,
        pid: head.pid,
        proc: Proc::new(here),
        cpu: Default::default(),
        st: Default::default(),
    });
    sh.enter(&cell);
    let th = Th {
        cell: cell.clone(),
        halted: Some(Halted {
            tid: here,
            signal: None,
        }),
        asking: false,
    };
    let body = Body {
        pid: head.pid,
        here,
        proc: cell.proc.clone(),
        threads: [(head.pid, th)].into(),
        uffd: None,
        filling: Vec::new(),
        freezer: None,
        stopped: false,
        releases: None,
        quiet: true,
        serving: false,
        mv: Some(mv),
        busy_percent: 100,
        came: Instant::now(),
        looked: (0, Instant::now()),
        demand: Default::default(),
        name: head.command.clone(),
        areas: Vec::new(),
        needs: head.processor.needs.clone(),
        vdso: None,
    };
    zoo.bodies.insert(head.pid, body);
    let code = zoo.code.clone();
    let mut h = Hold::take(here, zoo.passage())?;
    let foreign = vdso::map(&mut h, &code, head.mm.vdso)?;
    let fd = h
        .call(
            &code,
            libc::SYS_userfaultfd,
            [libc::O_CLOEXEC as u64 | USER_MODE_ONLY, 0, 0, 0, 0, 0],
        )?
        .0;
    // Most of its threads are called like the first.
    h.batch_ok(&code, "prctl", &[thread::name_call(&code, &head.command)])?;
    let uffd = if fd >= 0 {
        let u = tsys::steal_fd(here, fd as i32)
            .ok()
            .and_then(|f| Uffd::adopt(f).ok());
        h.call(&code, libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0])?;
        u
    } else {
        None
    };
    drop(h);
    if let Some(b) = zoo.bodies.get_mut(&head.pid) {
        b.uffd = uffd.map(Arc::new);
        b.vdso = foreign;
    }
    make_objects(&sh, &head.areas, &head.brings, &head.lasting)?;
    shape(zoo, head.pid, head.areas.clone())?;
    // While it still runs. What cannot be made now is made, or fails, at the end.
    let _ = make_threads(zoo, head.pid, head.tids.iter().copied());
    let uffd = begin_filling(zoo, head.pid);
    let filling = zoo.bodies.get(&head.pid).map(|b| b.filling.clone());
    Ok(Filler::new(here, uffd, StandIns::default()).filling(filling.unwrap_or_default()))
}

/// Copies for one move go when nobody maps them any more: each departure from home makes new ones.
fn forget_rescued(zoo: &Zoo, coming: &[Area]) {
    let here = zoo.bodies.values().flat_map(|b| files_of(&b.areas));
    let used: Vec<FileKey> = here.chain(files_of(coming)).collect();
    let sh = zoo.sh();
    let held = |f: &Arc<File>| Arc::strong_count(f) > 1;
    lock(&sh.files).retain(|k, f| !rescued(k) || used.contains(k) || held(f));
}

/// Lets the pages of everything that is plain memory be made by userfaultfd. `None`: they are written.
fn begin_filling(zoo: &mut Zoo, pid: Pid) -> Option<Arc<Uffd>> {
    let b = zoo.bodies.get_mut(&pid)?;
    let uffd = b.uffd.clone()?;
    let plain = b.areas.iter().filter(|a| a.backing() == Backing::Memory);
    for run in plain.map(Area::run) {
        // What cannot be made so is written: see `Filler`.
        if uffd.begin_filling(run).is_ok() {
            b.filling.push(run);
        }
    }
    Some(uffd)
}

/// The pages are complete: who touches one that is not there gets an empty one, as ever.
fn end_filling(b: &mut Body) -> Result<()> {
    let plain = b.areas.iter().filter(|a| a.backing() == Backing::Memory);
    let runs: Vec<Run> = plain.map(Area::run).collect();
    let filling = pages::union(std::mem::take(&mut b.filling), &[]);
    let Some(uffd) = &b.uffd else { return Ok(()) };
    for run in pages::both(&pages::union(runs, &[]), &filling) {
        uffd.filled(run).local("watch its memory")?;
    }
    Ok(())
}

/// Brings the mappings of an unthawed body to `areas`.
fn shape(zoo: &mut Zoo, pid: Pid, areas: Vec<Area>) -> Result<()> {
    let (sh, code, passage) = (zoo.sh(), zoo.code.clone(), zoo.passage());
    let Some(b) = zoo.bodies.get_mut(&pid) else {
        return Err(MigrateError::Ended);
    };
    let mut h = Hold::take(b.here, passage)?;
    let mut map = |h: &mut Hold, all: &[Area]| map_all(&sh, h, &code, all);
    let open = |areas: &[Area]| objects::opened_up(areas, |_| true);
    let (old, new) = (open(&b.areas), open(&areas));
    relayout(&mut h, &code, &old, &new, &mut map)?;
    b.areas = areas;
    Ok(())
}

/// Maps what lies in files and objects: each is passed in once for all that map it.
fn map_all(sh: &Shared, h: &mut Hold, code: &Code, all: &[Area]) -> Result<()> {
    let mut files: Vec<(Arc<File>, Vec<Call>)> = Vec::new();
    for a in all {
        let (file, view, off) = backing(sh, a)?;
        let flags = view | libc::MAP_FIXED | a.flags.of_mmap();
        let call = map_call((a.start, a.end - a.start), a.prot, flags, off);
        match files.iter_mut().find(|(f, _)| Arc::ptr_eq(f, &file)) {
            Some((_, calls)) => calls.push(call),
            None => files.push((file, vec![call])),
        }
    }
    for (file, mut calls) in files {
        let pass = sh.pass.as_raw_fd();
        let results = map_file(h, code, (pass, &file), &mut calls)?;
        for r in results {
            ok("map a file", h.tid, r)?;
        }
    }
    Ok(())
}

/// What stands here for the file or object behind `a`, how it is mapped, and from where.
fn backing(sh: &Shared, a: &Area) -> Result<(Arc<File>, i32, u64)> {
    let (file, view, off) = match &a.kind {
        Kind::File { key, off, .. } => {
            let file = lock(&sh.files).get(key).cloned();
            (file, libc::MAP_PRIVATE, *off)
        }
        Kind::Shared { object, off } => {
            let file = lock(&sh.objects).get(object).map(|o| o.file.clone());
            (file, libc::MAP_SHARED, *off)
        }
        Kind::Anon | Kind::Stack => (None, 0, 0),
    };
    let file = file.ok_or_else(|| {
        MigrateError::Stays(
            Stay::TargetFailed,
            "a mapped file did not come along".into(),
        )
    })?;
    Ok((file, view, off))
}

/// Files of memory for the objects that `areas` map, big enough. Those that come with this move (`brings`), or
/// are not there yet, with nothing in them.
fn make_objects(
    sh: &Shared,
    areas: &[Area],
    brings: &[ObjectId],
    lasting: &[ObjectId],
) -> Result<()> {
    let mut all = lock(&sh.objects);
    for (object, size) in objects::sizes(areas) {
        if brings.contains(&object) || !all.contains_key(&object) {
            let file = tsys::memfd(&object.name(), 0).local("make shared memory")?;
            all.insert(object, Object::new(file, lasting.contains(&object)));
        }
        let file = &all[&object].file;
        if file.metadata().local("look at shared memory")?.len() < size {
            file.set_len(size).local("make shared memory")?;
        }
    }
    Ok(())
}

fn lay_out(zoo: &mut Zoo, (mv, pid): (MoveId, Pid), layout: Layout) -> Result<()> {
    unthawed(zoo, mv, pid)?;
    make_objects(&zoo.sh(), &layout.areas, &[], &[])?;
    shape(zoo, pid, layout.areas)?;
    give_up(zoo, (mv, pid), &layout.dropped)
}

/// Nothing is where these pages were.
fn give_up(zoo: &mut Zoo, (mv, pid): (MoveId, Pid), runs: &[Run]) -> Result<()> {
    let (code, passage) = (zoo.code.clone(), zoo.passage());
    let b = unthawed(zoo, mv, pid)?;
    let mut h = Hold::take(b.here, passage)?;
    h.batch_ok(&code, "drop pages", &drop_calls(runs))?;
    Ok(())
}

/// Threads, dispositions, everything the kernel remembers. The body stays stopped. Returns who receives what is still
/// to come.
fn finish(
    zoo: &mut Zoo,
    (mv, pid): (MoveId, Pid),
    state: &State,
    later: &[Run],
) -> Result<Option<(Arc<Proc>, Fetch)>> {
    let (code, sh) = (zoo.code.clone(), zoo.sh());
    let b = unthawed(zoo, mv, pid)?;
    // Before anything of its own runs: the kernel, too, would wait for a page.
    end_filling(b)?;
    for (object, _) in objects::sizes(&b.areas) {
        if let Some(o) = lock(&sh.objects).get_mut(&object) {
            o.arrived()?;
        }
    }
    let (here, close) = (b.here, objects::close_calls(&b.areas));
    let locks = flags::lock_calls(&b.areas);
    lock(&b.proc.cpu).carried = state.cpu;
    for &(res, soft, hard) in &state.limits {
        sys::set_limit(here, res, soft, hard);
    }
    let timed = state.itimers != itimers::Itimers::default();
    b.proc
        .cpu_timer
        .store(timed, std::sync::atomic::Ordering::Release);
    let mut h = Hold::take(here, zoo.passage())?;
    h.batch_ok(&code, "mprotect", &close)?;
    flags::guard(&mut h, &code, &state.guards)?;
    names::give(&mut h, &code, &state.names)?;
    // A kernel without one of them would refuse the calls that it is for.
    h.batch(&code, &membarrier::set_calls(state.membarrier))?;
    // A limit of this node may be lower than home's: then it is memory as any other.
    h.batch(&code, &locks)?;
    h.batch(&code, &flags::zero_calls(&state.zeros))?;
    let r = h.batch(&code, &[mm::set_call(&code, &state.mm)])?;
    ok("set the memory map's numbers", here, r[0])?;
    let b = zoo.bodies.get_mut(&pid).ok_or(MigrateError::Ended)?;
    if let Some(foreign) = &mut b.vdso {
        foreign.install(&mut h, &code, state.vdso.clone())?;
    }
    let b = zoo.bodies.get(&pid).ok_or(MigrateError::Ended)?;
    let rest = match later {
        [] => None,
        _ => Some((
            b.proc.clone(),
            postcopy::begin(&sh, &mut h, &code, b, later)?,
        )),
    };
    sigs::set(&mut h, &code, &state.actions, None)?;
    h.batch_ok(
        &code,
        "setitimer",
        &itimers::set_calls(&code, &state.itimers),
    )?;
    point("host.set");
    let ignores = h.ignores_trap();
    drop(h);
    make_threads(zoo, pid, state.threads.iter().map(|t| t.tid))?;
    retire_others(zoo, pid, state)?;
    point("host.threads");
    dress(zoo, pid, state, ignores)?;
    if let Some(b) = zoo.bodies.get(&pid) {
        b.proc.signalfds.store(state.signalfds, Ordering::Relaxed);
        *lock(&b.proc.overruns) = state.overruns.iter().copied().collect();
    }
    requeue(zoo, pid, &state.pending);
    Ok(rest)
}

fn enter(zoo: &mut Zoo, pid: Pid, here: i32, tid: i32) {
    let sh = zoo.sh();
    let Some(b) = zoo.bodies.get_mut(&pid) else {
        return;
    };
    let cell = Arc::new(Cell {
        tid,
        here,
        pid,
        proc: b.proc.clone(),
        cpu: Default::default(),
        st: Default::default(),
    });
    sh.enter(&cell);
    b.threads.insert(
        tid,
        Th {
            cell,
            halted: Some(Halted {
                tid: here,
                signal: None,
            }),
            asking: false,
        },
    );
}

/// What makes a thread of a process.
const THREAD: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM;

/// Makes those of the threads that an unthawed body lacks; each stands stopped until it is dressed.
fn make_threads(zoo: &mut Zoo, pid: Pid, tids: impl Iterator<Item = Tid>) -> Result<()> {
    let (code, passage) = (zoo.code.clone(), zoo.passage());
    let b = zoo.bodies.get(&pid).ok_or(MigrateError::Ended)?;
    let lacking: Vec<Tid> = tids.filter(|t| !b.threads.contains_key(t)).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let mut h = Hold::take(b.here, passage)?;
    for tid in lacking {
        let args = clone_args(&code, THREAD as u64, 0, 0, 0, 0, Some(tid));
        let (r, child) = h.call(&code, libc::SYS_clone3, [args, 88, 0, 0, 0, 0])?;
        ok("clone3 of a thread", h.tid, r)?;
        let child = allowed_calls::made(r, child).ok_or(MigrateError::Ended)?;
        wait_first_stop(child)?;
        enter(zoo, pid, child, tid);
    }
    Ok(())
}

/// Threads that were made at the offer and ended at the source since then.
fn retire_others(zoo: &mut Zoo, pid: Pid, state: &State) -> Result<()> {
    let (code, passage, sh) = (zoo.code.clone(), zoo.passage(), zoo.sh());
    let b = zoo.bodies.get_mut(&pid).ok_or(MigrateError::Ended)?;
    let ended = |t: &Tid| !state.threads.iter().any(|s| s.tid == *t);
    let over: Vec<Tid> = b.threads.keys().copied().filter(ended).collect();
    for th in over.iter().filter_map(|t| b.threads.remove(t)) {
        sh.leave(&th.cell);
        let mut h = Hold::take(th.cell.here, passage.clone())?;
        match h.call(&code, libc::SYS_exit, [0; 6]) {
            Err(TraceError::Gone(_)) => {}
            _ => {
                return Err(MigrateError::Stays(
                    Stay::TargetFailed,
                    "a thread does not end".into(),
                ));
            }
        }
    }
    Ok(())
}

/// Gives the threads everything of their own, many at once; they stay stopped. `ignores`: see [`Hold::take_known`].
fn dress(zoo: &mut Zoo, pid: Pid, state: &State, ignores: bool) -> Result<()> {
    let (code, passage) = (zoo.code.clone(), zoo.passage());
    let b = zoo.bodies.get(&pid).ok_or(MigrateError::Ended)?;
    for part in state.threads.chunks(BOOTHS) {
        let mut held = Vec::with_capacity(part.len());
        for (n, t) in part.iter().enumerate() {
            let cell = &b.threads.get(&t.tid).ok_or(MigrateError::Ended)?.cell;
            let mut h = Hold::take_known(cell.here, passage.clone(), ignores)?;
            let booth = code.booth(n);
            let mut calls = thread::set_calls(&booth, t);
            if t.name != b.name {
                calls.push(thread::name_call(&booth, &t.name));
            }
            if state.persona != 0 {
                // Each thread has its own. Behind our own mappings: under READ_IMPLIES_EXEC they would not be what
                // they were.
                calls.push((libc::SYS_personality, [state.persona.into(), 0, 0, 0, 0, 0]));
            }
            h.begin(&booth, &calls)?;
            held.push((h, cell));
        }
        for (n, (h, _)) in held.iter_mut().enumerate() {
            h.end_ok(&code.booth(n), "restore thread")?;
        }
        for (t, (h, cell)) in part.iter().zip(held) {
            trace::set_xstate(cell.here, &t.xstate)?;
            let regs = thread::from_words(&t.regs)
                .ok_or_else(|| MigrateError::Stays(Stay::TargetFailed, "bad registers".into()))?;
            h.finish(regs, t.mask)?;
            let mut st = lock(&cell.st);
            st.at_deputy = t.at_deputy;
            st.again = t.again.then_some(regs.orig_rax as i32);
            st.slept = regs.rax as i64 == thread::ERESTARTNOHAND;
            st.written = t.written;
            futex_waits::came(&mut st, t, &regs);
            drop(st);
            lock(&cell.cpu).carried = t.cpu;
        }
    }
    Ok(())
}

/// Home says: you own it now. Signals that travelled are queued first.
pub fn thaw(zoo: &mut Zoo, mv: MoveId, pid: Pid) {
    let Some(b) = zoo.bodies.get_mut(&pid).filter(|b| b.mv == Some(mv)) else {
        // It died before it ran. Home has handed its process over, and must not wait for it.
        let sig = libc::SIGKILL;
        return zoo.sh().tell(&ToHome::Died { pid, sig });
    };
    point("host.thawing");
    b.quiet = false;
    b.proc.live.store(true, Ordering::Release);
    let sh = zoo.sh();
    sh.has_changed();
    sh.tell(&ToHome::Thawed { mv });
    stops::run_on(zoo, pid);
    // It may have been on its way here when the others were sent away.
    drain::send_home(&sh, pid);
}

/// Signals that waited at the source wait here.
fn requeue(zoo: &mut Zoo, pid: Pid, pending: &[(Option<i32>, Signal)]) {
    for (tid, s) in pending {
        if let Ok(info) = s.0.as_slice().try_into() {
            stops::queue(zoo, pid, *tid, info);
        }
    }
}
