//! From processes that stand still to [`Home`].

use super::classify::{Kept, classify};
use super::fdinfo::Held;
use super::found::Found;
use super::kinds::{Description, Kind};
use super::outside::Holders;
use super::sound::PROCESSES_MAX;
use super::subject::{Options, Subject};
use super::table::{self, Entry, Group};
use super::types::{Descriptor, Home, Process, RecordLock};
use super::uncarried::Uncarried;
use super::values::{Bytes, Lock};
use super::{family, memory, pipes, process, sockets};
use armento_model::Pid;
use rustix::fs::FileType;
use std::collections::HashMap;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is not carried, as it is found.
struct Refusals(Vec<Uncarried>);

impl Refusals {
    fn add(&mut self, p: &Process, what: impl Into<String>, hint: Option<&str>) {
        self.0.push(Uncarried {
            pid: p.pid,
            comm: p.comm.clone(),
            what: what.into(),
            hint: hint.map(str::to_owned),
        });
    }

    /// A failure to look: a process that ended, or that may not be looked at.
    fn failed(&mut self, pid: Pid, e: &io::Error) {
        let (what, hint) = match e.kind() {
            io::ErrorKind::NotFound => ("it has ended".to_owned(), None),
            io::ErrorKind::PermissionDenied => (
                "it may not be looked at".to_owned(),
                Some("only its user and root may checkpoint it"),
            ),
            _ if e.raw_os_error() == Some(libc::ESRCH) => ("it has ended".to_owned(), None),
            _ => (format!("it cannot be read: {e}"), None),
        };
        let p = Process {
            pid,
            comm: Bytes(b"?".to_vec()),
            ..Process::default()
        };
        self.add(&p, what, hint);
    }
}

/// Looks that have to find the same, before that counts as a refusal; and how many are made at all.
const AGREED: usize = 4;
const LOOKS: usize = 16;
/// Meanwhile a child that has ended is waited for, a descriptor is closed again.
const BETWEEN: Duration = Duration::from_millis(5);

/// Captures processes, the first of which is the root. All reasons against it are returned together: those that several looks
/// in succession find, since of processes that run much passes by itself.
pub fn capture(subjects: &[Subject], options: &Options) -> Result<Home, Vec<Uncarried>> {
    let (mut lasting, mut agreed) = (Vec::new(), 0);
    for _ in 0..LOOKS {
        let refused = match look(subjects, options) {
            Ok(home) => return Ok(home),
            Err(refused) => refused,
        };
        lasting.retain(|u| refused.contains(u));
        agreed += 1;
        if lasting.is_empty() {
            (lasting, agreed) = (refused, 1);
        }
        if agreed == AGREED {
            break;
        }
        std::thread::sleep(BETWEEN);
    }
    Err(lasting)
}

fn look(subjects: &[Subject], options: &Options) -> Result<Home, Vec<Uncarried>> {
    let mut refused = Refusals(Vec::new());
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or((0, 0), |t| (t.as_secs() as i64, t.subsec_nanos()));
    let mut home = Home {
        taken: now,
        ..Home::default()
    };
    let mut subjects = subjects.to_vec();
    match subjects.len() {
        0 => refused.add(&Process::default(), "no process was named", None),
        1..=PROCESSES_MAX => {}
        n => {
            let what = format!("it has {n} processes; a checkpoint holds {PROCESSES_MAX}");
            refused.add(&Process::default(), what, None);
            subjects.clear();
        }
    }
    for s in &subjects {
        let mut wrong = Vec::new();
        match process::read(s, &mut wrong) {
            Ok(p) => {
                for (what, hint) in wrong {
                    refused.add(&p, what, hint.as_deref());
                }
                home.processes.push(p);
            }
            Err(e) => refused.failed(s.pid, &e),
        }
    }
    if home.processes.len() == subjects.len() && !subjects.is_empty() {
        family::order(&mut home.processes);
        subjects.sort_by_key(|s| home.index(s.pid));
        for (of, what) in family::hindrances(&home.processes) {
            refused.add(&home.processes[of], what, None);
        }
        if let Err((pid, e)) = files(&mut home, &subjects, options, &mut refused) {
            refused.failed(pid, &e);
        }
    }
    match refused.0.is_empty() {
        true => Ok(home),
        false => Err(refused.0),
    }
}

/// Descriptors of all processes.
fn files(
    home: &mut Home,
    subjects: &[Subject],
    options: &Options,
    refused: &mut Refusals,
) -> Result<(), (Pid, io::Error)> {
    let mut entries = Vec::new();
    for (owner, s) in subjects.iter().enumerate() {
        entries.extend(table::entries(owner, s.pid, &s.skip).map_err(|e| (s.pid, e))?);
    }
    let root = subjects[0].pid;
    let groups = table::group(entries).map_err(|e| (root, e))?;
    let tree: Vec<Pid> = subjects.iter().map(|s| s.pid).collect();
    let own = [std::process::id() as Pid];
    let holders = Holders::of(&groups, &tree, &[&own, &options.besides[..]].concat());
    let (pipes, mut found) = pipes::find(&groups, &holders);
    let (pairs, more) = sockets::find(&groups, &holders);
    found.extend(more);
    let (memory, more) = memory::find(&groups, &holders);
    found.extend(more);
    (home.pipes, home.pairs, home.memory) = (pipes, pairs, memory);
    let mut kept = Kept {
        with_files: options.with_files,
        keys: HashMap::new(),
    };
    let streams = Streams::of(&groups);
    for (at, group) in groups.iter().enumerate() {
        let what = match found.remove(&at) {
            _ if group.first().has_flag(libc::O_ASYNC) => {
                Found::no("a file that sends signals (O_ASYNC)")
            }
            Some(what) => what,
            None => classify(group, &groups, &mut kept),
        };
        if matches!(what, Found::Closed) {
            continue;
        }
        match streams.settle(group, what) {
            Ok(kind) => add(home, group, kind, refused),
            Err((what, hint)) => refuse(home, group, &what, hint, refused),
        }
    }
    for p in &mut home.processes {
        p.descriptors.sort_by_key(|d| d.fd);
    }
    Ok(())
}

fn refuse(home: &Home, group: &Group, what: &str, hint: Option<&str>, refused: &mut Refusals) {
    let entry = group.first();
    if entry.has_changed() {
        return;
    }
    let what = format!("descriptor {} is {what}", entry.fd);
    refused.add(&home.processes[entry.owner], what, hint);
}

/// Adds a description with its descriptors and locks.
fn add(home: &mut Home, group: &Group, kind: Kind, refused: &mut Refusals) {
    let info = &group.first().info;
    let mut description = Description {
        kind,
        flags: info.flags & !(libc::O_CLOEXEC as u32),
        offset: info.offset,
        flock: None,
        ofd_locks: Vec::new(),
    };
    for held in &info.locks {
        match held {
            Held::Flock(lock) => description.flock = Some(*lock),
            Held::OfDescription(lock) => description.ofd_locks.push(*lock),
            Held::Record(_) => {}
            Held::Other(name) => {
                let what = format!("a file on which it has a {name}");
                refuse(home, group, &what, None, refused);
            }
        }
    }
    let index = home.descriptions.len() as u32;
    home.descriptions.push(description);
    for entry in &group.members {
        let p = &mut home.processes[entry.owner];
        p.descriptors.push(Descriptor {
            fd: entry.fd,
            cloexec: entry.has_flag(libc::O_CLOEXEC),
            description: index,
        });
        record_locks(p, entry, index);
    }
}

/// A record lock is shown at each descriptor of the description through which it was taken; one of them suffices.
fn record_locks(p: &mut Process, entry: &Entry, description: u32) {
    let same = |l: &RecordLock| {
        p.descriptors
            .iter()
            .any(|d| d.fd == l.fd && d.description == description)
    };
    let known: Vec<Lock> = p.locks.iter().filter(|l| same(l)).map(|l| l.lock).collect();
    for held in &entry.info.locks {
        if let Held::Record(lock) = held
            && !known.contains(lock)
        {
            p.locks.push(RecordLock {
                fd: entry.fd,
                lock: *lock,
            });
        }
    }
}

/// The root's standard streams.
struct Streams {
    /// Of each terminal (device number) the standard streams that lead to it.
    terminals: HashMap<u64, Vec<u8>>,
}

impl Streams {
    fn of(groups: &[Group]) -> Streams {
        let mut terminals: HashMap<u64, Vec<u8>> = HashMap::new();
        let devices = |g: &&Group| g.first().kind() == FileType::CharacterDevice;
        for group in groups.iter().filter(devices) {
            let at = terminals.entry(group.first().found.st_rdev).or_default();
            at.extend(stds(group));
            at.sort_unstable();
        }
        Streams { terminals }
    }

    /// The kind of a description, or why it is none.
    fn settle(&self, group: &Group, what: Found) -> Result<Kind, (String, Option<&'static str>)> {
        let was = match what {
            Found::Inside(kind) => return Ok(*kind),
            Found::Not(what, hint) => return Err((what, hint)),
            Found::Closed => return Err(("closed".into(), None)),
            Found::Outside(was) => was,
        };
        let mut own = stds(group);
        if own.is_empty() && group.first().kind() == FileType::CharacterDevice {
            let number = group.first().found.st_rdev;
            own.extend(self.terminals.get(&number).into_iter().flatten());
        }
        if !own.is_empty() {
            return Ok(Kind::Outside { stds: own, was });
        }
        // A socket is the program's own; a pipe or a terminal was inherited by mistake, from a shell or an editor.
        let inherited = group.first().kind() != FileType::Socket;
        let hint = "start the program without it, as with N>&- in a shell";
        Err((was, inherited.then_some(hint)))
    }
}

fn stds(group: &Group) -> Vec<u8> {
    let own = |e: &&Entry| e.owner == 0 && (0..=2).contains(&e.fd);
    group
        .members
        .iter()
        .filter(own)
        .map(|e| e.fd as u8)
        .collect()
}
