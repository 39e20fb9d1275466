//! `armento run`: forks the keeper, then the program is exec'd in its own pid.
//!
//! From: `cli/src/run.rs`. Next: `tree.rs` (the exec stop), then `depart.rs`.

use crate::cpu_features::Portable;
use crate::daemon::{self, Control, Inbox};
use crate::moves::permission;
use crate::moves::refusal;
use crate::moves::run;
use crate::moves::storm;
use crate::state::call_storm::CallStorm;
use crate::state::keeper::{Keep, Settings};
use crate::state::tree;
use crate::sys;
use armento_client::api::{KeeperHello, Refusal};
use armento_client::{AskError, Session};
use armento_migrate::stop::Grip;
use armento_model::{Hint, NodeName, Pid, TreeId};
use armento_tracee::{aside, hand, status, trace};
use armento_wire::session;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// How a tree is moved about, for a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storm {
    /// To a random node every so many milliseconds.
    Every(u64),
    /// At every forwarded call, and inside every one that blocks.
    Call,
}

/// At home nobody sees calls: from there a process leaves after this.
const CALL_STORM_HOME_MS: u64 = 3;

/// What a keeper says at its door that is not needed: the process has one.
const HELD: [u8; 1] = *b"h";
/// … it has none, and why follows.
const NOT_KEPT: [u8; 1] = *b"n";
const WHY_MAX: u64 = 4096;
/// More are nobody's shell.
const GENERATIONS_MAX: usize = 256;

/// What `armento run` was asked.
#[derive(Clone, Debug)]
pub struct Birth {
    pub command: Vec<OsString>,
    pub on: Option<NodeName>,
    pub stay: bool,
    pub spread: bool,
    pub portable: Option<Portable>,
    pub hint: Option<Hint>,
    pub storm: Option<Storm>,
    pub seed: Option<u64>,
}

impl Birth {
    /// Does it ask for more than to be run where there is room?
    fn is_special(&self) -> bool {
        self.on.is_some() || self.stay || self.spread || self.storm.is_some()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BirthError {
    /// Nothing was started.
    #[error("{0}")]
    NoDaemon(AskError),
    #[error("{0}: {1}")]
    Exec(String, std::io::Error),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// Runs the program. Returns only when nothing could be started. Whether there is a daemon the keeper finds out.
pub fn run(b: &Birth) -> BirthError {
    with_keeper(b).unwrap_or_else(BirthError::Io)
}

/// Runs the program without a keeper, as any shell would.
pub fn run_native(b: &Birth) -> BirthError {
    let tunables = b.portable.as_ref().map(|p| p.tunables.as_str());
    BirthError::Exec(name(b), sys::exec(&b.command, tunables))
}

fn name(b: &Birth) -> String {
    b.command
        .first()
        .map_or_else(String::new, |c| c.to_string_lossy().into_owned())
}

fn with_keeper(b: &Birth) -> std::io::Result<BirthError> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let program = std::process::id() as Pid;
    match sys::fork_keeper()? {
        sys::Side::Keeper => {
            drop(ours);
            keeper(b.clone(), program, theirs);
            std::process::exit(0);
        }
        sys::Side::Program(keeper) => {
            drop(theirs);
            sys::allow_tracer(keeper);
            ours.write_all(b"t")?;
            // The keeper has us in its hand, or could not: the program runs either way.
            let mut said = [0u8; 1];
            let _ = ours.read(&mut said);
            if said == NOT_KEPT {
                return Ok(not_kept(ours));
            }
            if said == *b"k" {
                permission::agree(keeper);
            }
            if said == HELD && b.is_special() {
                eprintln!(
                    "armento: this is a program of another `armento run` already: it runs as that one was told\n\
                     hint: move it with `armento migrate`, or start it from outside"
                );
            }
            Ok(run_native(b))
        }
    }
}

/// Forks a keeper for a process that was not started by `run` (`armento migrate PID`).
/// Returns when the keeper serves it, or another does.
pub fn adopt(pid: Pid, command: String) -> Result<(), BirthError> {
    drop(Session::connect().map_err(BirthError::NoDaemon)?);
    let (mut ours, theirs) = UnixStream::pair()?;
    let b = Birth {
        command: vec![command.into()],
        on: None,
        stay: false,
        spread: false,
        portable: None,
        hint: None,
        storm: None,
        seed: None,
    };
    match sys::fork_keeper()? {
        sys::Side::Keeper => {
            drop(ours);
            keeper(b, pid, theirs);
            std::process::exit(0);
        }
        sys::Side::Program(_) => {
            drop(theirs);
            ours.write_all(b"a")?;
            let mut b = [0u8; 1];
            match ours.read(&mut b) {
                Ok(1) if b == NOT_KEPT => Err(not_kept(ours)),
                Ok(1) => Ok(()),
                _ => Err(BirthError::Io(std::io::Error::other(
                    "the keeper did not start",
                ))),
            }
        }
    }
}

/// Why the keeper could not say hello: the daemon does not want it, or is another version's.
fn not_kept(door: UnixStream) -> BirthError {
    let mut why = String::new();
    let _ = door.take(WHY_MAX).read_to_string(&mut why);
    let (message, hint) = why.split_once('\0').unwrap_or((&why, ""));
    BirthError::NoDaemon(AskError::Refused(Refusal {
        code: "not-kept".into(),
        message: message.into(),
        hint: hint.into(),
    }))
}

/// A process and those that it descends from.
fn above(pid: Pid) -> Vec<Pid> {
    let parent = |pid: &Pid| Some(status::read(*pid).ok()?.ppid).filter(|p| *p > 1);
    let all = std::iter::successors(Some(pid), parent);
    all.take(GENERATIONS_MAX).collect()
}

fn random() -> u64 {
    let mut b = [0u8; 8];
    let got = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut b));
    if got.is_err() {
        return u64::from(std::process::id());
    }
    u64::from_le_bytes(b)
}

/// The keeper's life.
fn keeper(b: Birth, program: Pid, door: UnixStream) {
    sys::give_up_inheritance(&[door.as_raw_fd()]);
    if let Some(path) = std::env::var_os("ARMENTO_KEEPER_LOG") {
        sys::log_to(path.as_ref());
    }
    sys::panics_to_syslog();
    armento_tracee::sys::frugal_malloc();
    armento_tracee::sys::all_descriptors();
    armento_tracee::slice::waking();
    let mut door = door;
    let mut kind = [0u8; 1];
    if door.read_exact(&mut kind).is_err() {
        return;
    }
    let starting = kind[0] == b't';
    let tree_id = TreeId(random());
    let words: Vec<_> = b.command.iter().map(|w| w.to_string_lossy()).collect();
    let hello = KeeperHello {
        tree: tree_id,
        keeper: std::process::id() as Pid,
        root: program,
        above: above(program),
        uid: sys::uid(),
        command: words.join(" "),
        pinned: b.on.clone(),
        stay: b.stay,
        storm: b.storm.is_some(),
        common: b.portable.as_ref().map(|p| p.common.clone()),
        hint: b.hint,
    };
    let (session, node) = match daemon::introduce(&hello) {
        Ok(s) => s,
        Err(AskError::Refused(no)) if no.code == "held" => {
            let _ = door.write_all(&HELD);
            return;
        }
        Err(e) => {
            let _ = door.write_all(&NOT_KEPT);
            let _ = door.write_all(format!("{e}\0{}", e.hint()).as_bytes());
            return;
        }
    };
    let hello = KeeperHello {
        above: Vec::new(),
        ..hello
    };
    armento_migrate::fault::side_of(tree_id);
    let Ok((handle, palm)) = hand::new::<tree::Tree>() else {
        return;
    };
    let settings = Settings {
        node,
        tree: tree_id,
        root: program,
        pinned: b.on.clone(),
        stay: b.stay,
        spread: b.spread,
        storm: b.storm.is_some(),
        portable: b.portable.clone(),
        hello,
    };
    let (control, inbox) = Control::new();
    // It waits for us with what it was given.
    let inherited = starting.then(|| {
        crate::calls::readahead::open_files(program)
            .map(|(_, id)| id)
            .collect()
    });
    let seed = b.seed.unwrap_or_else(random);
    let calls = (b.storm == Some(Storm::Call)).then(|| CallStorm::new(seed));
    let keep = Arc::new(Keep::new(settings, handle, control, inherited, calls));
    let mut world = tree::Tree::new(keep.clone(), program);
    let mut seized = false;
    if starting {
        let mut grip = Grip::new(program);
        seized = grip.seize(trace::WATCH).is_ok();
        if seized {
            world.awaits_exec(program);
        }
        let _ = grip.disband();
    }
    // At home the program runs untraced, so its end is no event of the hand's. Without this the daemon would count a
    // program that ended for as long as the tree is not scanned.
    let inbox = inbox.told_of_end(armento_tracee::sys::pidfd_open(program).ok());
    if let Err(e) = start_threads(&keep, session, inbox, b.storm.map(|s| (s, seed))) {
        return eprintln!("keeper: {e}");
    }
    if starting && b.on.is_some() {
        // The hand works meanwhile: the control session asks it what to report.
        let k = keep.clone();
        let asked = move || match refusal::before(&k, &b, seized) {
            None => drop(door.write_all(b"k")),
            Some((why, hint)) => {
                let _ = door.write_all(&NOT_KEPT);
                let _ = door.write_all(format!("{why}\0{hint}").as_bytes());
                k.control.close(Duration::from_millis(500));
                // What was seized goes on by itself.
                std::process::exit(0);
            }
        };
        if let Err(e) = aside::start("way", asked) {
            return eprintln!("keeper: {e}");
        }
    } else {
        let _ = door.write_all(b"k");
        drop(door);
    }
    // Those who make room wait for this thread.
    session::never_wait();
    palm.hold(&mut world);
    keep.control.close(Duration::from_millis(500));
}

fn start_threads(
    keep: &Arc<Keep>,
    session: Session,
    inbox: Inbox,
    storm: Option<(Storm, u64)>,
) -> std::io::Result<()> {
    aside::spare()?;
    let k = keep.clone();
    aside::start("control", move || daemon::run(&k, session, inbox))?;
    let k = keep.clone();
    aside::start("moves", move || run::run(&k, &k.tasks))?;
    if keep.settings.spread {
        let k = keep.clone();
        aside::start("placements", move || run::run(&k, k.placements()))?;
    }
    if let Some((storm, seed)) = storm {
        let k = keep.clone();
        let ms = match storm {
            Storm::Every(ms) => ms.max(1),
            Storm::Call => CALL_STORM_HOME_MS,
        };
        let every = Duration::from_millis(ms);
        aside::start("storm", move || storm::run(&k, every, seed))?;
    }
    let k = keep.clone();
    if k.storm_call.is_some() {
        aside::start("storm-call", move || {
            if let Some(calls) = &k.storm_call {
                calls.look(&k);
            }
        })?;
    }
    Ok(())
}
