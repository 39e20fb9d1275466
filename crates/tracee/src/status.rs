//! What /proc shows of a process or thread, as far as the engine needs it.

use crate::{PAGE, text};
use std::fs;
use std::io;

/// Parts of /proc/PID/status. KERNEL: proc_pid_status(5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcStatus {
    pub name: String,
    pub state: char,
    pub tgid: i32,
    pub ppid: i32,
    pub tracer: i32,
    pub uid: [u32; 4],
    pub threads: u32,
    pub seccomp: u32,
    pub nspid: Vec<i32>,
    pub rss_kib: u64,
    /// Memory that devices or registered buffers hold.
    pub pinned_kib: u64,
    pub sig_pending: u64,
    pub shared_pending: u64,
    pub blocked: u64,
    pub ignored: u64,
    pub caught: u64,
    pub cap_effective: u64,
}

pub fn read(pid: i32) -> io::Result<ProcStatus> {
    Ok(parse(&text::read(format!("/proc/{pid}/status"))?))
}

pub fn parse(text: &str) -> ProcStatus {
    let mut s = ProcStatus::default();
    for line in text.lines() {
        let Some((key, v)) = line.split_once(':') else {
            continue;
        };
        let v = v.trim();
        let num = |radix| {
            u64::from_str_radix(v.split_whitespace().next().unwrap_or("0"), radix).unwrap_or(0)
        };
        match key {
            "Name" => s.name = v.to_owned(),
            "State" => s.state = v.chars().next().unwrap_or('?'),
            "Tgid" => s.tgid = num(10) as i32,
            "PPid" => s.ppid = num(10) as i32,
            "TracerPid" => s.tracer = num(10) as i32,
            "Uid" => {
                for (slot, n) in s.uid.iter_mut().zip(v.split_whitespace()) {
                    *slot = n.parse().unwrap_or(0);
                }
            }
            "Threads" => s.threads = num(10) as u32,
            "Seccomp" => s.seccomp = num(10) as u32,
            "NSpid" => {
                s.nspid = v
                    .split_whitespace()
                    .filter_map(|n| n.parse().ok())
                    .collect()
            }
            "VmRSS" => s.rss_kib = num(10),
            "VmPin" => s.pinned_kib = num(10),
            "SigPnd" => s.sig_pending = num(16),
            "ShdPnd" => s.shared_pending = num(16),
            "SigBlk" => s.blocked = num(16),
            "SigIgn" => s.ignored = num(16),
            "SigCgt" => s.caught = num(16),
            "CapEff" => s.cap_effective = num(16),
            _ => {}
        }
    }
    s
}

/// The wait status of a process that has ended and was not waited for yet; `None` if it runs or may not be looked at.
/// KERNEL: proc_pid_stat(5), fields 3 and 52.
pub fn exit_status(pid: i32) -> Option<i32> {
    const EXIT_CODE: usize = 52 - 3;
    let ended = read(pid).ok()?.state == 'Z';
    let wait = *stat_fields(pid).ok()?.get(EXIT_CODE)?;
    i32::try_from(wait).ok().filter(|_| ended)
}

/// A wait status as a shell shows it: the exit status, or 128+N after signal N.
pub fn shell_status(wait: i32) -> i32 {
    match wait & 0x7f {
        0 => wait >> 8 & 0xff,
        signal => 128 + signal,
    }
}

/// Memory that a process has resident; 0 when it is gone. KERNEL: proc_pid_statm(5), field 2.
pub fn rss_kib(pid: i32) -> u64 {
    let text = text::read(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: Option<u64> = text.split_whitespace().nth(1).and_then(|w| w.parse().ok());
    pages.unwrap_or(0) * PAGE / 1024
}

/// Most memory that a process has had resident. KERNEL: proc_pid_status(5), VmHWM.
pub fn peak_kib(pid: i32) -> u64 {
    let text = text::read(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0)
}

/// The call that a thread is in, and its arguments; `None` if it is in none or may not be read.
/// KERNEL: /proc/PID/task/TID/syscall, proc_pid_syscall(5).
pub fn call(pid: i32, tid: i32) -> Option<(i64, [u64; 6])> {
    let text = text::read(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    let mut words = text.split_whitespace();
    let nr = words.next()?.parse().ok().filter(|nr| *nr >= 0)?;
    let mut args = [0; 6];
    for a in &mut args {
        *a = u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?;
    }
    Some((nr, args))
}

/// Thread ids of a process, the leader first.
pub fn threads(pid: i32) -> io::Result<Vec<i32>> {
    let mut t: Vec<i32> = fs::read_dir(format!("/proc/{pid}/task"))?
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    t.sort_by_key(|&x| (x != pid, x));
    Ok(t)
}

/// Fields of /proc/PID/stat after the command. KERNEL: proc_pid_stat(5); index 0 is field 3 (state).
pub fn stat_fields(pid: i32) -> io::Result<Vec<i64>> {
    fields_of(&format!("/proc/{pid}/stat"))
}

/// The same of one thread.
pub fn thread_stat_fields(tid: i32) -> io::Result<Vec<i64>> {
    fields_of(&format!("/proc/{tid}/task/{tid}/stat"))
}

fn fields_of(path: &str) -> io::Result<Vec<i64>> {
    let text = text::read(path)?;
    let rest = text.rsplit_once(") ").map_or("", |p| p.1);
    Ok(rest
        .split_whitespace()
        .map(|f| {
            f.parse::<u64>()
                .map_or_else(|_| f.parse().unwrap_or(0), |u| u as i64)
        })
        .collect())
}

/// R, S, D, t …; `None` when it is gone.
pub fn thread_state(tid: i32) -> Option<char> {
    let text = text::read(format!("/proc/{tid}/task/{tid}/stat")).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}

/// All processes that this one can see.
pub fn processes() -> impl Iterator<Item = i32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Children of a process, over all its threads.
pub fn children(pid: i32) -> Vec<i32> {
    let Ok(tids) = threads(pid) else {
        return Vec::new();
    };
    let list = |t| text::read(format!("/proc/{pid}/task/{t}/children")).unwrap_or_default();
    tids.into_iter()
        .flat_map(|t| {
            list(t)
                .split_whitespace()
                .filter_map(|n| n.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// personality(2) of a process we may trace. KERNEL: /proc/PID/personality, hexadecimal.
pub fn personality(pid: i32) -> u32 {
    let text = text::read(format!("/proc/{pid}/personality")).unwrap_or_default();
    u32::from_str_radix(text.trim(), 16).unwrap_or(0)
}

pub fn comm(pid: i32, tid: i32) -> String {
    text::read(format!("/proc/{pid}/task/{tid}/comm"))
        .unwrap_or_default()
        .trim_end_matches('\n')
        .to_owned()
}

/// Command line with spaces between the words, or the name in brackets.
pub fn command(pid: i32) -> String {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    if raw.is_empty() {
        return format!("[{}]", comm(pid, pid));
    }
    String::from_utf8_lossy(raw.strip_suffix(&[0]).unwrap_or(&raw)).replace('\0', " ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn own_status_is_read() {
        let me = std::process::id() as i32;
        let s = super::read(me).expect("own status");
        assert_eq!((s.tgid, s.tracer), (me, 0));
        assert!(s.threads >= 1 && !s.name.is_empty());
        assert_eq!(super::threads(me).expect("own threads")[0], me);
    }

    #[test]
    fn pinned_memory_is_read() {
        let s = super::parse("VmLck:\t       0 kB\nVmPin:\t      64 kB\nVmRSS:\t     900 kB\n");
        assert_eq!((s.pinned_kib, s.rss_kib), (64, 900));
    }
}
