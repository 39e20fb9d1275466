//! `armento host`: one line of JSON in, one out, then guests.

use crate::cache::Cache;
use crate::shared::{Cells, Open, Shared, lock};
use crate::veils::Veils;
use crate::world::Zoo;
use crate::{serve, sys, talk, zygote};
use armento_client::AskError;
use armento_client::api::{Ask, GuestInfo, HostHello, HostStart, HostUp, Order, Report};
use armento_link::Listener as Door;
use armento_model::Stay;
use armento_tracee::region::Region;
use armento_tracee::{hand, status, sys as tsys};
use armento_wire::talk::{Purpose, ToHome};
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, Write};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

/// How often the daemon hears of the guests.
const REPORT_EVERY: Duration = Duration::from_millis(500);
/// Clocks nearer than this are one clock: both nodes run on one kernel, or the link's delay hides the rest.
const SAME_CLOCK_NS: i64 = 50_000_000;

/// The hidden verb. Returns the exit code.
pub fn main() -> i32 {
    match run() {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("armento host: {e}");
            125
        }
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn run() -> Result<(), Failure> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let start: HostStart = serde_json::from_str(&line)?;
    let cache = Cache::open(start.files.as_deref());
    sys::become_user(start.guest_uid)?;
    let door = Door::bind(&start.listen, &start.identity)?;
    let up = HostUp {
        port: door.port(),
        host: std::process::id() as i32,
    };
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&up)?)?;
    // The namespaces are made while this process has one thread, so the first keeper is met alone.
    let (r, w, ahead) = first(&door, &start)?;
    let region = Arc::new(Region::new(tsys::memfd("armento", 0)?, 1)?);
    let guests = sys::start_guests(&region.file, region.len(), ahead)?;
    let (handle, palm) = hand::new::<Zoo>()?;
    let open = Arc::new(Open::default());
    let (zygote, listener) = zygote::prepare(&guests, &region.code())?;
    let sh = Arc::new(Shared {
        start,
        listener,
        hand: handle,
        cells: RwLock::new(Cells::default()),
        open,
        out: Mutex::new(Some(w)),
        heard: Mutex::new(Instant::now()),
        files: Mutex::new(HashMap::new()),
        cache,
        answers: Mutex::new(HashMap::new()),
        next: AtomicU32::new(1),
        meetings: Mutex::new(HashMap::new()),
        aborted: Default::default(),
        expelled: Mutex::new(None),
        pass: guests.pass,
    });
    let mut zoo = Zoo {
        sh: Some(sh.clone()),
        code: region.code(),
        zygote,
        bodies: BTreeMap::new(),
        veils: Veils::default(),
        early: Default::default(),
        over: false,
    };
    let s = sh.clone();
    std::thread::spawn(move || serve::run(&s));
    let s = sh.clone();
    std::thread::spawn(move || talk::calls(&s, r));
    let s = sh.clone();
    std::thread::spawn(move || accept(&s, &door));
    let s = sh.clone();
    std::thread::spawn(move || talk::pulse(&s));
    let s = sh.clone();
    std::thread::spawn(move || report(&s));
    palm.hold(&mut zoo);
    drop(guests.alive);
    Ok(())
}

fn first(
    door: &Door,
    start: &HostStart,
) -> Result<(armento_link::Reader, armento_link::Writer, i64), Failure> {
    loop {
        let Ok((link, _)) = door.accept(&start.expect) else {
            continue;
        };
        let (mut r, w) = link.split()?;
        let Ok(h) = talk::hello(&mut r) else { continue };
        if h.tree == start.tree && h.purpose == Purpose::Calls {
            let diff = h.monotonic_ns as i64 - tsys::clock_ns(libc::CLOCK_MONOTONIC)? as i64;
            return Ok((r, w, if diff.abs() < SAME_CLOCK_NS { 0 } else { diff }));
        }
    }
}

fn accept(sh: &Arc<Shared>, door: &Door) {
    loop {
        match door.accept(&sh.start.expect) {
            Ok((link, _)) => {
                let sh = sh.clone();
                std::thread::spawn(move || talk::welcome(&sh, link));
            }
            Err(armento_link::LinkError::Refused(_)) => {}
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Tells this node's daemon about the guests; finds it again when it was restarted.
fn report(sh: &Arc<Shared>) {
    loop {
        if let Ok(mut s) = armento_client::Session::connect() {
            let me = HostHello {
                tree: sh.start.tree,
                home: sh.start.home.clone(),
                host: std::process::id() as i32,
                uid: sh.start.uid,
            };
            if s.ask(Ask::Host(me), Duration::from_secs(5)).is_ok() {
                while let Some(guests) = sh.hand.run(guest_list) {
                    if s.report(Report::Guests { guests }).is_err() {
                        break;
                    }
                    match s.order(Some(REPORT_EVERY)) {
                        Ok(Some(Order::Expel)) => drop(sh.hand.run(expel)),
                        Ok(_) | Err(AskError::Late) => {}
                        Err(_) => break,
                    }
                }
            }
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// This node leaves the farm: every guest is to go home. Home decides when; the daemon waits for it.
fn expel(zoo: &mut Zoo) {
    let sh = zoo.sh();
    *lock(&sh.expelled) = Some(Instant::now());
    for b in zoo.bodies.values().filter(|b| !b.quiet) {
        sh.tell(&ToHome::ComeHome {
            pid: b.pid,
            tid: b.pid,
            stay: Stay::NotTrusted,
            why: "the node where it ran leaves the farm".into(),
        });
    }
}

fn guest_list(zoo: &mut Zoo) -> Vec<GuestInfo> {
    let sh = zoo.sh();
    let live = zoo.bodies.values().filter(|b| !b.quiet);
    live.map(|b| {
        let st = status::read(b.here).unwrap_or_default();
        GuestInfo {
            pid: b.pid,
            tree: sh.start.tree,
            home: sh.start.home.clone(),
            command: st.name,
            cpu_ms: crate::cpu::process_ns(b.here) / 1_000_000,
            rss_kib: st.rss_kib,
            threads: b.threads.len() as u32,
            busy_percent: b.busy_percent,
        }
    })
    .collect()
}
