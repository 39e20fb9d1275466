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
use std::time::{Duration, Instant};

/// How long bodies that share memory may take to stand still, each after the other.
const TOGETHER_MAX: Duration = Duration::from_secs(3);

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

/// Waits until all bodies that share memory with `pid` stand still, too: home asks for all of them at once.
pub fn all_frozen(host: &Arc<Host>, pid: HomePid) -> Result<()> {
    let until = Instant::now() + TOGETHER_MAX;
    loop {
        let late = host.tracer.run(move |guests| -> Result<Option<HomePid>> {
            let all = partners(guests, pid)?;
            let still = |p: &HomePid| guests.bodies.get(p).is_none_or(|b| b.still());
            Ok(all.into_iter().map(|(p, _)| p).find(|p| !still(p)))
        });
        let Some(p) = late.unwrap_or(Err(MigrateError::Ended))? else {
            return Ok(());
        };
        if Instant::now() > until {
            let why = format!("process {p}, which shares its memory, does not stand still");
            return Err(MigrateError::Stays(Stay::Busy, why));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
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
