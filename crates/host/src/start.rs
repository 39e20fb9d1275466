//! `armento host`: one line of JSON in, one out, then guests.

use crate::calls::dispatch;
use crate::files::cache::Cache;
use crate::home::link::{Home, Inlet};
use crate::home::{daemon, link, messages};
use crate::inject::allowed_calls::Open;
use crate::inject::{allowed_calls, zygote};
use crate::isolation::namespaces;
use crate::isolation::privileges::Rights;
use crate::state::guests::Zoo;
use crate::state::shared::{Asking, Cells, Shared};
use crate::state::siginfo_cookies::Veils;
use crate::sys;
use armento_client::api::{HostSaid, HostStart, HostUp};
use armento_link::{Badge, Duplex, LinkError, Listener as Door, Role, Writer};
use armento_model::Stay;
use armento_sense::Withheld;
use armento_tracee::region::Region;
use armento_tracee::{aside, hand, sys as tsys, uffd};
use armento_wire::session;
use armento_wire::talk::{self as wire, Purpose, TALK, ToHome, ToHost};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, Write};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

/// Clocks nearer than this are one clock: both nodes run on one kernel, or the link's delay hides the rest.
const SAME_CLOCK_NS: i64 = 50_000_000;
/// Home is asked for its clock so often, or until it answers so quickly, and for so long each time.
const CLOCK_ASKED: usize = 8;
const CLOCK_GOOD_NS: i64 = 500_000;
const CLOCK_MAX: Duration = Duration::from_secs(10);
/// A host that no keeper calls ends by itself; its daemon ends it sooner.
const UNCALLED_MIN: Duration = Duration::from_secs(30);
/// Copies of files take one of so many descriptors; the others are for streams, bodies and moves.
const FILES_SHARE: usize = 2;
/// Most that home may say before it has told the time.
const EARLY_MAX: usize = 256;

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
    sys::is_called(c"armento");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let start: HostStart = serde_json::from_str(&line)?;
    let cache = Cache::open(start.files.as_deref());
    let asking = asking();
    let withheld = Withheld::open();
    let rights = Rights::of(start.guest_uid, start.procs_max, namespaces::setting)?;
    if let Err(no) = namespaces::probe(&rights) {
        let detail = format!("{} on {}; there: {}", no.what, start.node, no.remedy);
        let unable = HostSaid::Unable {
            stay: Stay::NoWalls,
            detail: detail.clone(),
        };
        writeln!(std::io::stdout(), "{}", serde_json::to_string(&unable)?)?;
        return Err(detail.into());
    }
    let door = Arc::new(Door::bind(&start.listen, &start.identity)?);
    let up = HostUp {
        port: door.port(),
        host: std::process::id() as i32,
    };
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&up)?)?;
    // A daemon that ends now tells nobody of us.
    sys::ends_after(Duration::from_millis(start.dead_ms).max(UNCALLED_MIN));
    // The namespaces are made while this process has one thread, so the first keeper is met alone.
    let Met {
        home,
        inlet,
        early,
        ahead,
    } = first(&door, &start)?;
    sys::ends_after(Duration::ZERO);
    let region = Arc::new(Region::new(tsys::memfd("armento", 0)?, 1, 1)?);
    let guests = rights.used(|| sys::start_guests(&region.file, region.len(), ahead))?;
    rights.give_up()?;
    let (handle, palm) = hand::new::<Zoo>()?;
    let open = Arc::new(Open::default());
    let (zygote, listener) = zygote::prepare(&guests, &region.code())?;
    tsys::frugal_malloc();
    armento_tracee::slice::short();
    let files_max = tsys::all_descriptors() as usize / FILES_SHARE;
    aside::spare()?;
    // Stacks of guests that we reach into grow by our limit (see `growth.rs`).
    let me = std::process::id() as i32;
    if let Some((_, hard)) = tsys::limit(me, libc::RLIMIT_STACK) {
        sys::set_limit(me, libc::RLIMIT_STACK, hard, hard);
    }
    let sh = Arc::new(Shared {
        identity: Mutex::new(start.identity.clone()),
        start,
        clock_ahead: ahead,
        listener,
        hand: handle,
        cells: RwLock::new(Cells::default()),
        open,
        home,
        files: Mutex::new(HashMap::new()),
        files_max,
        forking: Arc::default(),
        objects: Mutex::default(),
        cache,
        answers: Mutex::new(HashMap::new()),
        next: AtomicU32::new(1),
        meetings: Mutex::new(HashMap::new()),
        turns: Default::default(),
        shut: Default::default(),
        telling: Mutex::default(),
        pass: guests.pass,
        asking,
        changed: tsys::eventfd()?,
        nudge: Default::default(),
    });
    let mut zoo = Zoo {
        sh: Some(sh.clone()),
        code: region.code(),
        zygote,
        bodies: BTreeMap::new(),
        veils: Veils::default(),
        early: Default::default(),
        over: false,
        withheld,
    };
    armento_migrate::fault::side_of(sh.start.tree);
    let s = sh.clone();
    aside::start("serve", move || dispatch::run(&s))?;
    let s = sh.clone();
    aside::start("passage", move || allowed_calls::watch(&s))?;
    let s = sh.clone();
    aside::start("talk", move || {
        let _turn = s.home.reads();
        early.into_iter().for_each(|m| messages::hear(&s, m));
        messages::calls(&s, inlet);
    })?;
    let s = sh.clone();
    let doors = door.clone();
    aside::start("accept", move || accept(&s, &doors))?;
    let s = sh.clone();
    aside::start("pulse", move || messages::pulse(&s))?;
    let s = sh.clone();
    aside::start("alone", move || link::watch(&s))?;
    let s = sh.clone();
    aside::start("report", move || daemon::report(&s, &door))?;
    // Others wait for it; what it says home is bounded by the threads of guests.
    session::never_wait();
    palm.hold(&mut zoo);
    drop(guests.alive);
    Ok(())
}

/// Before: as whoever started us.
fn asking() -> Asking {
    let device = File::options().read(true).write(true).open(uffd::DEVICE);
    match device {
        Ok(device) => Asking::Device(device),
        Err(_) if unprivileged() => Asking::Call,
        Err(_) => Asking::No,
    }
}

/// KERNEL: Documentation/admin-guide/sysctl/vm.rst, unprivileged_userfaultfd.
fn unprivileged() -> bool {
    let text = std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd");
    text.is_ok_and(|t| t.trim() == "1")
}

/// Home, when it has said first what it wants.
struct Met {
    home: Arc<Home>,
    inlet: Inlet,
    /// What it said meanwhile.
    early: Vec<ToHost>,
    /// How far its clock is ahead of ours; 0 when they are one.
    ahead: i64,
}

fn first(door: &Door, start: &HostStart) -> Result<Met, Failure> {
    let mut met: Option<Arc<Home>> = None;
    let mut early = Vec::new();
    loop {
        let Ok((link, who)) = admit(door, start) else {
            continue;
        };
        let Ok((h, socket, r, w)) = messages::opened(link) else {
            continue;
        };
        let Purpose::Calls(resume) = h.purpose else {
            continue;
        };
        if h.tree != start.tree || who.role != Role::Keeper {
            continue;
        }
        let known = met
            .get_or_insert_with(|| Arc::new(Home::new(&resume, (start.freeze_ms, start.dead_ms))));
        let home = known.clone();
        let options = socket.try_clone()?;
        let Some(turn) = home.turn(&resume) else {
            continue;
        };
        let Ok(mut inlet) = home.take_up(&resume, (socket, r, w)) else {
            continue;
        };
        let mut ahead = h.monotonic_ns as i64 - now_ns()?;
        if ahead.abs() >= SAME_CLOCK_NS {
            // Another clock, or a hello that waited for its reader.
            options.set_read_timeout(Some(CLOCK_MAX))?;
            let Ok(asked) = home_ahead(&home.session, &mut inlet, &mut early) else {
                home.session.cut();
                continue;
            };
            options.set_read_timeout(None)?;
            ahead = asked;
        }
        let ahead = if ahead.abs() < SAME_CLOCK_NS {
            0
        } else {
            ahead
        };
        drop(turn);
        return Ok(Met {
            home,
            inlet,
            early,
            ahead,
        });
    }
}

fn now_ns() -> std::io::Result<i64> {
    Ok(tsys::clock_ns(libc::CLOCK_MONOTONIC)? as i64)
}

/// How far home's clock is ahead of ours: of several questions the one that was answered quickest says so
/// best, to half of its round trip. PAPER: Cristian, Probabilistic clock synchronization, 1989.
/// What else it says meanwhile is for later.
fn home_ahead(
    session: &session::Session<Writer>,
    r: &mut Inlet,
    early: &mut Vec<ToHost>,
) -> Result<i64, Failure> {
    let (mut best, mut buf) = (None, Vec::new());
    for _ in 0..CLOCK_ASKED {
        let asked = now_ns()?;
        let asked_ns = asked as u64;
        session.send(TALK, &[&wire::encode(&ToHome::Clock { asked_ns })])?;
        let home = loop {
            if session.hear(r, &mut buf)? != TALK {
                return Err("not a message".into());
            }
            match wire::decode::<ToHost>(&buf, "message")? {
                ToHost::Clock { asked_ns: n, ns } if n == asked_ns => break ns as i64,
                // Asked over a connection that broke.
                ToHost::Alive | ToHost::Clock { .. } => {}
                other if early.len() < EARLY_MAX => early.push(other),
                _ => return Err("not the time".into()),
            }
        };
        let trip = now_ns()? - asked;
        let seen = (trip, home - (asked + trip / 2));
        best = Some(best.map_or(seen, |b| seen.min(b)));
        if trip < CLOCK_GOOD_NS {
            break;
        }
    }
    Ok(best.map_or(0, |(_, ahead)| ahead))
}

/// The keeper of this tree, or a host of this tree on any node.
fn admit(door: &Door, start: &HostStart) -> Result<(Duplex, Badge), LinkError> {
    let host = |who: &Badge| who.role == Role::Host && who.tree == Some((start.tree, start.uid));
    door.accept_if(Some(&start.expect), |who| *who == start.expect || host(who))
}

fn accept(sh: &Arc<Shared>, door: &Door) {
    loop {
        match admit(door, &sh.start) {
            Ok((link, who)) => {
                let Some(silent) = messages::Silent::take() else {
                    continue;
                };
                let sh = sh.clone();
                // Without room for it the link is closed, and whoever dialled says so.
                let _ = aside::start("welcome", move || {
                    messages::welcome(&sh, link, &who, silent)
                });
            }
            Err(LinkError::Refused(_)) => {}
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
