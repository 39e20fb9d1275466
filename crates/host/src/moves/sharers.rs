//! Bodies that share memory: they stand still together, and what they share is sent home by itself.

use super::survey::survey;
use crate::state::{Body, GuestTable, Host, Shared};
use crate::sync::lock;
use armento_link::Writer;
use armento_migrate::image::Area;
use armento_migrate::image::Kind;
use armento_migrate::image::objects::{self, Views};
use armento_migrate::{Local, MigrateError, Result};
use armento_model::{HomePid, Stay};
use armento_wire::bulk::{self};
use armento_wire::pages::plain_head;
use armento_wire::talk::ObjectId;
use armento_wire::write_frame;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long bodies that share memory may take to stand still, each after the other.
const TOGETHER_MAX: Duration = Duration::from_secs(3);
/// … and one of them to end that does not move: its last call may be on its way to home.
const ENDS_MAX: Duration = Duration::from_millis(100);

/// Bodies that share memory with that of `pid`, itself among them, and what they map of it.
pub fn partners(guests: &GuestTable, pid: HomePid) -> Result<Vec<(HomePid, Vec<Area>)>> {
    if lock(&guests.shared.objects).is_empty() {
        return Ok(Vec::new());
    }
    let of = |b: &Body| -> Result<Vec<Area>> {
        let foreign = b.vdso.as_ref().map(|f| f.home);
        let mut areas = survey(b.here, foreign)?.areas;
        areas.retain(|a| matches!(a.kind, Kind::Shared { .. }));
        Ok(areas)
    };
    let own = guests.bodies.get(&pid).ok_or(MigrateError::Ended)?;
    let mut mine = Views::default();
    mine.add(&of(own)?);
    let mut all = Vec::new();
    for b in guests.bodies.values().filter(|b| !b.quiet) {
        // A body that is ending shares nothing any more.
        let areas = of(b).unwrap_or_default();
        if objects::sizes(&areas).len() > mine.lack(&areas).len() {
            all.push((b.pid, areas));
        }
    }
    Ok(all)
}

/// Waits until all bodies that share memory with `pid` stand still, too: home asks for all of them at once. One that was
/// forked since is not among them, and the move fails: it runs on.
pub fn all_frozen(host: &Arc<Host>, pid: HomePid) -> Result<()> {
    let begun = Instant::now();
    loop {
        let late = host.tracer.run(move |guests| late_partner(guests, pid));
        let Some((p, ends)) = late.unwrap_or(Err(MigrateError::Ended))? else {
            return Ok(());
        };
        let max = match host.outgoing.is_ordered(p) {
            true => TOGETHER_MAX,
            false if ends => ENDS_MAX,
            false => Duration::ZERO,
        };
        if begun.elapsed() > max {
            let why = format!("process {p}, which shares its memory, does not stand still");
            return Err(MigrateError::Stays(Stay::Busy, why));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A body that shares memory with that of `pid` and runs, and whether it is ending.
fn late_partner(guests: &GuestTable, pid: HomePid) -> Result<Option<(HomePid, bool)>> {
    let all = partners(guests, pid)?;
    let mut bodies = all.iter().filter_map(|(p, _)| guests.bodies.get(p));
    let late = bodies.find(|b| !b.still());
    Ok(late.map(|b| (b.pid, b.proc.exiting.load(Ordering::Acquire))))
}

/// Bytes of an object in one frame.
const PIECE: u64 = 256 << 10;

/// Sends home what an object holds, as offsets in it. The processes that map it stand still, or have ended.
pub fn send_object(shared: &Shared, object: ObjectId, mut w: Writer) -> Result<()> {
    let known = match lock(&shared.objects).get(&object) {
        Some(o) => Some((o.file.clone(), o.all()?)),
        None => None,
    };
    if let Some((file, runs)) = known {
        let mut buf = vec![0; PIECE as usize];
        for (mut at, end) in runs {
            while at < end {
                let n = file
                    .read_at(&mut buf[..(end - at).min(PIECE) as usize], at)
                    .local("read a mapped file")?;
                if n == 0 {
                    break;
                }
                write_frame(&mut w, bulk::PAGES, &[&plain_head(&[(at, n)]), &buf[..n]])?;
                at += n as u64;
            }
        }
    }
    write_frame(&mut w, bulk::END, &[])?;
    Ok(())
}
