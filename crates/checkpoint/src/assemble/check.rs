//! Everything that can go wrong, found before a process is started.

use super::by_name::FILE_FLAGS;
use super::error::AssembleError;
use super::how::{How, Warning};
use super::open::needed;
use super::owner::Owner;
use super::plan::Plan;
use super::sys;
use crate::home::{
    Bytes, Description, Difference, Home, Kind, OpenFile, Process, WatchedFile, difference,
};
use armento_model::Pid;
use rustix::fs::{Access, FileType, access};
use rustix::process::{getgid, getuid, test_kill_process_group};
use std::collections::BTreeSet;
use std::fs;
use std::io;

/// KERNEL: include/uapi/linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_RESOURCE: u32 = 24;
const CAP_CHECKPOINT_RESTORE: u32 = 40;
/// KERNEL: include/uapi/asm-generic/resource.h.
const NAMES: [&str; 16] = [
    "CPU",
    "FSIZE",
    "DATA",
    "STACK",
    "CORE",
    "RSS",
    "NPROC",
    "NOFILE",
    "MEMLOCK",
    "AS",
    "LOCKS",
    "SIGPENDING",
    "MSGQUEUE",
    "NICE",
    "RTPRIO",
    "RTTIME",
];

/// What hinders a restart is the error; what is merely not as it was comes back as warnings. Changes nothing.
pub fn check(home: &Home, how: &How) -> Result<Vec<Warning>, AssembleError> {
    if home.root().is_none() || home.check().is_err() {
        return Err(AssembleError::Empty);
    }
    let mut warnings = BTreeSet::new();
    if how.same_pids {
        numbers(home)?;
    }
    let plan = Plan::new(home, how.same_pids);
    for index in plan.misplaced() {
        let p = &home.processes[index];
        warnings.insert(format!(
            "process {} ({}) starts in another session",
            p.pid, p.comm
        ));
    }
    if home.processes[0].sid == home.processes[0].pid && !how.same_pids {
        warnings.insert("the root led a session; it starts in yours".into());
    }
    for p in &home.processes {
        process(p, &mut warnings)?;
    }
    let owner = Owner::of(home);
    for d in &home.descriptions {
        description(d, (how, &owner), &mut warnings)?;
    }
    let (_, limit) = sys::limit(libc::RLIMIT_NOFILE).unwrap_or((0, u64::MAX));
    let needed = needed(home);
    if needed > limit {
        return Err(AssembleError::Descriptors { needed, limit });
    }
    Ok(warnings.into_iter().map(Warning).collect())
}

fn has_capability(number: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let effective = effective.and_then(|t| u64::from_str_radix(t.trim(), 16).ok());
    effective.is_some_and(|set| set >> number & 1 == 1)
}

/// The recorded numbers: ours to choose, free, and not too large.
fn numbers(home: &Home) -> Result<(), AssembleError> {
    if !has_capability(CAP_CHECKPOINT_RESTORE) && !has_capability(CAP_SYS_ADMIN) {
        return Err(AssembleError::NoRight);
    }
    let max = fs::read_to_string("/proc/sys/kernel/pid_max");
    let max: Pid = max
        .ok()
        .and_then(|t| t.trim().parse().ok())
        .unwrap_or(Pid::MAX);
    for p in &home.processes {
        if p.pid >= max {
            return Err(AssembleError::PidTooLarge { pid: p.pid, max });
        }
        // The caller may have become the root already.
        let own = p.pid == rustix::process::getpid().as_raw_nonzero().get();
        if let Some(by) = user(p.pid).filter(|_| !own) {
            return Err(AssembleError::PidInUse { pid: p.pid, by });
        }
    }
    Ok(())
}

/// What a number is used for. A number is not free while a group has it, though its process may have ended.
fn user(pid: Pid) -> Option<String> {
    let dir = format!("/proc/{pid}");
    if fs::metadata(&dir).is_ok() {
        let status = fs::read_to_string(format!("{dir}/status")).unwrap_or_default();
        let of = |name: &str| {
            status
                .lines()
                .find_map(|l| l.strip_prefix(name))
                .map(str::trim)
        };
        let comm = of("Name:").unwrap_or("?");
        return Some(match of("Tgid:") {
            Some(process) if process != pid.to_string() => {
                format!("a thread of process {process} ({comm})")
            }
            _ if of("State:").is_some_and(|s| s.starts_with('Z')) => {
                format!("{comm}, which has ended and was not waited for")
            }
            _ => format!("{comm}, which runs"),
        });
    }
    let group = rustix::process::Pid::from_raw(pid)?;
    let gone = test_kill_process_group(group) == Err(rustix::io::Errno::SRCH);
    (!gone).then(|| "a process group".into())
}

fn process(p: &Process, warnings: &mut BTreeSet<String>) -> Result<(), AssembleError> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    if p.uids != [uid; 4] && uid != 0 {
        return Err(AssembleError::OtherUser {
            pid: p.pid,
            uid: p.uids[0],
            ours: uid,
        });
    }
    if uid != 0 && p.gids != [gid; 4] {
        warnings.insert(format!(
            "process {} had the group {}; it gets yours",
            p.pid, p.gids[0]
        ));
    }
    program(p, warnings)?;
    let path = p.cwd.path();
    let wrong = match fs::metadata(path) {
        Ok(found) if !found.is_dir() => Some("is no directory now".to_owned()),
        Ok(_) => access(path, Access::EXEC_OK)
            .err()
            .map(|e| format!("cannot be entered: {e}")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Some("is gone".into()),
        Err(e) => Some(format!("cannot be entered: {e}")),
    };
    if let Some(what) = wrong {
        let path = p.cwd.to_string();
        return Err(AssembleError::Directory { path, what });
    }
    limits(p, warnings);
    Ok(())
}

fn program(p: &Process, warnings: &mut BTreeSet<String>) -> Result<(), AssembleError> {
    let path = p.exe.path.path();
    let wrong = |what: String| AssembleError::Program {
        path: p.exe.path.to_string(),
        what,
    };
    match difference(path, &p.exe.identity) {
        None => {}
        Some(what @ Difference::Perhaps) => {
            warnings.insert(format!("{} {what}", p.exe.path));
        }
        Some(what) => return Err(wrong(what.to_string())),
    }
    access(path, Access::EXEC_OK).map_err(|e| wrong(format!("cannot be started: {e}")))
}

fn limits(p: &Process, warnings: &mut BTreeSet<String>) {
    if has_capability(CAP_SYS_RESOURCE) {
        return;
    }
    for (resource, (name, limit)) in NAMES.iter().zip(&p.limits).enumerate() {
        if let Ok((_, hard)) = sys::limit(resource as u32)
            && limit.hard > hard
        {
            warnings.insert(format!(
                "the limit RLIMIT_{name} is lower than it was: {hard}"
            ));
        }
    }
    let now = fs::read_to_string("/proc/self/oom_score_adj").unwrap_or_default();
    if now
        .trim()
        .parse()
        .is_ok_and(|now: i32| p.oom_score_adj < now)
    {
        warnings.insert(format!(
            "process {} cannot have its oom_score_adj back",
            p.pid
        ));
    }
    if p.nice < sys::nice() {
        warnings.insert(format!(
            "process {} cannot have its niceness {} back",
            p.pid, p.nice
        ));
    }
}

fn description(
    d: &Description,
    (how, owner): (&How, &Owner),
    warnings: &mut BTreeSet<String>,
) -> Result<(), AssembleError> {
    let open = |path: &Bytes, flags: u32, of: FileType| {
        owner
            .open(path, flags, of, None)
            .map(drop)
            .map_err(|source| AssembleError::Open {
                path: path.to_string(),
                source,
            })
    };
    match &d.kind {
        Kind::File(file) => self::file(file, d, (how, owner), warnings),
        Kind::Directory { path, dev, ino } => {
            let was = Some((*dev, *ino));
            let opened = owner.open(path, d.flags, FileType::Directory, was);
            opened.map(drop).map_err(|source| AssembleError::Open {
                path: path.to_string(),
                source,
            })
        }
        Kind::Device { path } if path.0 == b"/dev/tty" => {
            let none = |_| AssembleError::NoTerminal;
            open(path, d.flags, FileType::CharacterDevice).map_err(none)
        }
        Kind::Device { path } => open(path, d.flags, FileType::CharacterDevice),
        // Opened in earnest, one would wait for the other end.
        Kind::Fifo { path, .. } => open(path, libc::O_PATH as u32, FileType::Fifo),
        Kind::Inotify { watches, waiting } => {
            if *waiting {
                warnings.insert(
                    "events on watched files (inotify) that it had not read are lost".into(),
                );
            }
            let missing = |w: &&WatchedFile| owner.act(|| fs::metadata(w.path.path())).is_err();
            match watches.iter().find(missing) {
                Some(w) => Err(AssembleError::Open {
                    path: w.path.to_string(),
                    source: io::ErrorKind::NotFound.into(),
                }),
                None => Ok(()),
            }
        }
        Kind::Outside { stds, .. } => {
            let closed = stds.iter().find(|n| sys::standard(**n).is_none());
            closed.map_or(Ok(()), |n| Err(AssembleError::Stream(*n)))
        }
        _ => Ok(()),
    }
}

fn file(
    file: &OpenFile,
    d: &Description,
    (how, owner): (&How, &Owner),
    warnings: &mut BTreeSet<String>,
) -> Result<(), AssembleError> {
    let path = || file.path.to_string();
    if file.deleted {
        return match file.kept.and(how.contents) {
            Some(_) => Ok(()),
            None => Err(AssembleError::NoContent { path: path() }),
        };
    }
    let Some(what) = difference(file.path.path(), &file.identity) else {
        return opens(file, d, owner);
    };
    if how.put_back && file.kept.and(how.contents).is_some() {
        warnings.insert(format!(
            "{} {what}; its kept content is put back",
            file.path
        ));
        return Ok(());
    }
    opens(file, d, owner)?;
    let more = match &what {
        Difference::Size { now, .. } if *now < d.offset => "; the program is beyond its end",
        _ if d.writes() => "; what was written after the checkpoint is still in it",
        _ => "",
    };
    warnings.insert(format!("{} {what}{more}", file.path));
    Ok(())
}

fn opens(file: &OpenFile, d: &Description, owner: &Owner) -> Result<(), AssembleError> {
    let was = Some((file.identity.dev, file.identity.ino));
    let flags = d.flags & !FILE_FLAGS;
    let opened = owner.open(&file.path, flags, FileType::RegularFile, was);
    opened.map(drop).map_err(|source| AssembleError::Open {
        path: file.path.to_string(),
        source,
    })
}
