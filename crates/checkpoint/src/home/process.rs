//! One process: names, numbers, rights, limits.

use super::changes::identity;
use super::subject::Subject;
use super::types::{LIMITS, Limit, Process, Program};
use super::values::Bytes;
use armento_model::Pid;
use rustix::fs::stat as stat_of;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Namespaces in which numbers and names mean the same for us and for a process whose checkpoint is made.
const NAMESPACES: &[&str] = &["mnt", "pid", "user", "net", "ipc", "uts"];

/// Reads it. What is wrong with it is added to `wrong`, as pairs of a sentence and a hint.
pub fn read(subject: &Subject, wrong: &mut Vec<(String, Option<String>)>) -> io::Result<Process> {
    let pid = subject.pid;
    let dir = PathBuf::from(format!("/proc/{pid}"));
    let mut p = Process {
        pid,
        argv: subject.argv.clone(),
        ..Process::default()
    };
    let comm = fs::read(dir.join("comm"))?;
    p.comm = Bytes(comm.strip_suffix(b"\n").unwrap_or(&comm).to_vec());
    status(&fs::read_to_string(dir.join("status"))?, &mut p, wrong);
    stat(&fs::read(dir.join("stat"))?, &mut p)?;
    p.oom_score_adj = number(&fs::read_to_string(dir.join("oom_score_adj"))?);
    // KERNEL: fs/proc/base.c, proc_pid_personality: readable with the rights of PTRACE_ATTACH only.
    let personality = fs::read_to_string(dir.join("personality")).ok();
    p.personality = personality.and_then(|t| u32::from_str_radix(t.trim(), 16).ok());
    p.limits = limits(&fs::read_to_string(dir.join("limits"))?)?;
    places(&dir, subject, &mut p, wrong)?;
    Ok(p)
}

fn number(text: &str) -> i32 {
    text.trim().parse().unwrap_or(0)
}

/// Limits by the number of their resource. KERNEL: fs/proc/base.c, proc_pid_limits: in this order, "%-25s %-20s %-20s %-10s"
/// below a heading. Other users' may be read too, unlike with prlimit(2).
fn limits(text: &str) -> io::Result<[Limit; LIMITS]> {
    let value = |line: &str, columns: std::ops::Range<usize>| match line.get(columns)?.trim() {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    };
    let one = |line: &str| {
        let (soft, hard) = (value(line, 26..46)?, value(line, 47..67)?);
        Some(Limit { soft, hard })
    };
    let all: Option<Vec<Limit>> = text.lines().skip(1).take(LIMITS).map(one).collect();
    let all = all.and_then(|all| all.try_into().ok());
    all.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// `status`, of which `stat` has not all.
fn status(text: &str, p: &mut Process, wrong: &mut Vec<(String, Option<String>)>) {
    let numbers = |v: &str| -> Vec<u32> {
        v.split_whitespace()
            .filter_map(|n| n.parse().ok())
            .collect()
    };
    let four = |v: &str| numbers(v).try_into().unwrap_or([u32::MAX; 4]);
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        match name {
            "Umask" => p.umask = u32::from_str_radix(value, 8).unwrap_or(0o22),
            "Uid" => p.uids = four(value),
            "Gid" => p.gids = four(value),
            "Groups" => p.groups = numbers(value),
            "NoNewPrivs" => p.no_new_privs = value == "1",
            "Seccomp" if value != "0" => {
                wrong.push(("it has a seccomp filter, which cannot be read".into(), None));
            }
            _ => {}
        }
    }
}

/// `stat`. KERNEL: proc_pid_stat(5); the name in brackets may contain anything.
fn stat(text: &[u8], p: &mut Process) -> io::Result<()> {
    let text = String::from_utf8_lossy(text);
    let after = text.rsplit_once(')').map(|(_, rest)| rest);
    // The third field of the manual is the first one here.
    let fields: Vec<&str> = after.unwrap_or_default().split_whitespace().collect();
    let field = |n: usize| -> io::Result<i64> {
        let text = fields.get(n - 3).and_then(|t| t.parse().ok());
        text.ok_or_else(|| io::ErrorKind::InvalidData.into())
    };
    p.ppid = field(4)? as Pid;
    p.pgid = field(5)? as Pid;
    p.sid = field(6)? as Pid;
    p.terminal = Some(field(7)? as u32).filter(|t| *t != 0);
    p.nice = field(19)? as i32;
    Ok(())
}

/// Program, working directory, root, namespaces.
fn places(
    dir: &Path,
    subject: &Subject,
    p: &mut Process,
    wrong: &mut Vec<(String, Option<String>)>,
) -> io::Result<()> {
    p.exe = Program {
        path: subject.exe.clone(),
        identity: match stat_of(subject.exe.path()) {
            Ok(found) => identity(&found),
            Err(_) => Default::default(),
        },
    };
    if !same(&dir.join("exe"), subject.exe.path()) {
        let what = format!("its program {} was removed or replaced", subject.exe);
        wrong.push((what, Some("start it anew from the program of today".into())));
    }
    let cwd = fs::read_link(dir.join("cwd"))?;
    p.cwd = Bytes::from(cwd.as_path());
    if !same(&dir.join("cwd"), &cwd) {
        wrong.push((format!("its working directory {} was removed", p.cwd), None));
    }
    if !same(&dir.join("root"), Path::new("/")) {
        wrong.push(("it has another root directory (chroot)".into(), None));
    }
    for name in NAMESPACES {
        let of = |dir: &Path| fs::read_link(dir.join("ns").join(name));
        if of(dir)? != of(Path::new("/proc/self"))? {
            let what = format!("it is in another namespace ({name}), as in a container");
            wrong.push((what, Some("checkpoint it from inside".into())));
        }
    }
    Ok(())
}

/// Whether two names lead to one file.
pub fn same(a: &Path, b: &Path) -> bool {
    let of = |path: &Path| fs::metadata(path).map(|m| (m.dev(), m.ino()));
    matches!((of(a), of(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_kernel() {
        let found = limits(&fs::read_to_string("/proc/self/limits").unwrap()).unwrap();
        let asked = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        assert_eq!(Some(found[7].soft), asked.current);
        let asked = rustix::process::getrlimit(rustix::process::Resource::Rttime);
        assert_eq!(found[15].hard, asked.maximum.unwrap_or(u64::MAX));
    }

    #[test]
    fn names_with_brackets_and_spaces_are_no_fields() {
        let mut p = Process::default();
        let text = b"12 (a) b (c) S 1 2 3 34816 5 6 7 8 9 10 11 12 13 14 20 -5 1 0 0";
        stat(text, &mut p).unwrap();
        assert_eq!((p.ppid, p.pgid, p.sid), (1, 2, 3));
        assert_eq!((p.terminal, p.nice), (Some(34816), -5));
    }
}
