//! Number of runnable threads.
//!
//! In a node with its own pid namespace `/proc` shows that node's processes and no others. Most processes sleep, and
//! reading the state of each costs nine microseconds. So a thread's `schedstat` stays open, costs one to read, and
//! shows whether the thread has run at all since the last sample; only then, and if it was runnable before, its state
//! is read. A file of a thread that ended fails instead of referring to another with the same ID.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Files kept open; the state of further threads is read each time. Half of the usual limit of 1024, which the daemon's
/// sockets share.
const OPEN_MAX: usize = 512;
/// Kernel threads are checked again after this many samples, in case the ID has been reused.
const KERNEL_SAMPLES: u32 = 60;
/// The state of a sleeper is read at least every so many samples: it may have been woken and not run since, where a
/// quota is used up or a node is overloaded.
const ASLEEP_SAMPLES: u32 = 16;
/// PF_KTHREAD in include/linux/sched.h, as field 9 of `/proc/PID/stat` shows it.
const PF_KTHREAD: u64 = 0x0020_0000;
/// Further processes are not checked: at ten microseconds each that is a third of a second.
const PROCESSES_MAX: usize = 32_768;

/// One thread as it was at the last sample.
#[derive(Debug)]
struct Watch {
    /// Its `schedstat`; `None` for kernel threads, and on kernels without it.
    file: Option<File>,
    ran_ns: u64,
    stat: Stat,
    /// Samples until its state is read in any case.
    rest: u32,
}

/// Counts runnable threads.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    watched: BTreeMap<(i32, i32), Watch>,
    before: BTreeMap<(i32, i32), Watch>,
}

/// The relevant fields of one `stat` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    runnable: bool,
    kernel: bool,
    /// A process of Armento, by the name of its executable.
    ours: bool,
    threads: u64,
}

/// Name of commands, daemons and hosts; keepers, zygotes and guards add a word after a dash.
const OUR_NAME: &[u8] = b"armento";

impl Tasks {
    /// Threads in state R, without the calling one, which always is, and without Armento's own keepers, hosts and
    /// commands. Two dozen that start at once would look like work, and no process would be placed beside them; what
    /// they do for other processes is counted with those.
    pub fn runnable(&mut self) -> u32 {
        let me = crate::sys::thread_id();
        self.before = std::mem::take(&mut self.watched);
        let mut count = 0;
        for pid in numbers("/proc").take(PROCESSES_MAX) {
            let Some(leader) = self.thread(pid, pid) else {
                continue;
            };
            if leader.ours {
                continue;
            }
            if leader.kernel || leader.threads <= 1 {
                count += u32::from(leader.runnable && pid != me);
                continue;
            }
            for tid in numbers(&format!("/proc/{pid}/task")).filter(|tid| *tid != me) {
                let seen = if tid == pid {
                    Some(leader)
                } else {
                    self.thread(pid, tid)
                };
                count += u32::from(seen.is_some_and(|stat| stat.runnable));
            }
        }
        self.before.clear();
        count
    }

    /// The present state of one thread; `None` when it has just ended.
    fn thread(&mut self, pid: i32, tid: i32) -> Option<Stat> {
        let mut known = self.before.remove(&(pid, tid));
        if let Some(watch) = &mut known
            && watch.is_asleep()
        {
            let stat = watch.stat;
            self.watched.insert((pid, tid), known?);
            return Some(stat);
        }
        let open = || File::open(format!("/proc/{pid}/task/{tid}/schedstat")).ok();
        let kept = known
            .and_then(|watch| watch.file)
            .filter(|file| ran_ns(file).is_some());
        let file = kept.or_else(|| {
            if self.watched.len() < OPEN_MAX {
                open()
            } else {
                None
            }
        });
        // First its CPU time, then its state: if it runs in between, the state is read again.
        let ran_ns = file.as_ref().and_then(ran_ns).unwrap_or(0);
        let stat = read_stat(pid, tid)?;
        let (file, rest) = match stat.kernel {
            true => (None, KERNEL_SAMPLES),
            // Not all in the same sample.
            false => (
                file,
                ASLEEP_SAMPLES - tid.unsigned_abs() % (ASLEEP_SAMPLES / 2),
            ),
        };
        if stat.kernel || file.is_some() {
            self.watched.insert(
                (pid, tid),
                Watch {
                    file,
                    ran_ns,
                    stat,
                    rest,
                },
            );
        }
        Some(stat)
    }
}

impl Watch {
    /// Whether the last state still holds.
    fn is_asleep(&mut self) -> bool {
        self.rest = self.rest.saturating_sub(1);
        let still = || self.file.as_ref().and_then(ran_ns) == Some(self.ran_ns);
        self.rest > 0 && (self.stat.kernel || (!self.stat.runnable && still()))
    }
}

/// CPU time of a thread. KERNEL: Documentation/scheduler/sched-stats.rst, `/proc/PID/schedstat`.
fn ran_ns(file: &File) -> Option<u64> {
    let mut text = [0u8; 64];
    let n = file.read_at(&mut text, 0).ok()?;
    let end = text[..n].iter().position(|&byte| byte == b' ')?;
    std::str::from_utf8(&text[..end]).ok()?.parse().ok()
}

/// Entries of a directory of `/proc` that are numbers.
fn numbers(dir: &str) -> impl Iterator<Item = i32> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn read_stat(pid: i32, tid: i32) -> Option<Stat> {
    let file = File::open(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    let mut line = [0u8; 512];
    let n = file.read_at(&mut line, 0).ok()?;
    parse(&line[..n])
}

/// KERNEL: proc(5). The name is in parentheses and may contain any character, so the last `)` counts.
fn parse(line: &[u8]) -> Option<Stat> {
    let end = line.iter().rposition(|&byte| byte == b')')?;
    let begin = line.iter().position(|&byte| byte == b'(')?;
    let mut fields = line.get(end + 2..)?.split(|&byte| byte == b' ');
    let runnable = fields.next()? == b"R";
    let number = |field: Option<&[u8]>| std::str::from_utf8(field?).ok()?.parse::<u64>().ok();
    // Fields 9 (flags) and 20 (threads), counted from 3 (state), which is consumed.
    let flags = number(fields.nth(5))?;
    let threads = number(fields.nth(10))?;
    Some(Stat {
        runnable,
        kernel: flags & PF_KTHREAD != 0,
        ours: line
            .get(begin + 1..end)
            .and_then(|name| name.strip_prefix(OUR_NAME))
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'-'),
        threads,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn stat_line_is_parsed_with_any_name() {
        let check = |line: &str, want: Option<(bool, bool, u64)>| {
            let got = parse(line.as_bytes()).map(|s| (s.runnable, s.kernel, s.threads));
            assert_eq!(got, want, "{line}");
        };
        let ours = |name: &str| {
            let line = format!("5 ({name}) R 1 1 1 0 -1 0 0 0 0 0 7 8 0 0 20 0 3 0 100 0 0");
            parse(line.as_bytes()).is_some_and(|s| s.ours)
        };
        assert!(ours("armento") && ours("armento-keeper"));
        assert!(!ours("armento_sense-1") && !ours("lame") && !ours("an-armento"));
        let tail = "1 1 1 0 -1 4194560 0 0 0 0 7 8 0 0 20 0 3 0 100 0 0";
        check(&format!("5 (lame) R {tail}"), Some((true, false, 3)));
        check(&format!("5 (a) R b) S {tail}"), Some((false, false, 3)));
        check(
            "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0",
            Some((false, true, 1)),
        );
        check("5 (cut) R 1 1", None);
        check("", None);
        check("5 (x)", None);
    }

    /// A thread that computes until it is stopped.
    struct Busy(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

    impl Busy {
        fn start() -> Busy {
            let stop = Arc::new(AtomicBool::new(false));
            let heard = stop.clone();
            let spin = move || while !heard.load(Relaxed) {};
            Busy(stop, Some(std::thread::spawn(spin)))
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
            self.1.take().map(std::thread::JoinHandle::join);
        }
    }

    fn runnable_here(tasks: &mut Tasks) -> u32 {
        let (pid, me) = (std::process::id() as i32, crate::sys::thread_id());
        tasks.before = std::mem::take(&mut tasks.watched);
        let threads = numbers(&format!("/proc/{pid}/task")).filter(|tid| *tid != me);
        threads
            .filter(|tid| tasks.thread(pid, *tid).is_some_and(|stat| stat.runnable))
            .count() as u32
    }

    #[test]
    fn busy_thread_is_counted_until_it_ends() {
        let mut tasks = Tasks::default();
        runnable_here(&mut tasks);
        let busy = [Busy::start(), Busy::start()];
        for _ in 0..20 {
            assert!(runnable_here(&mut tasks) >= 2);
            assert!(tasks.runnable() >= 2, "the same among all processes");
        }
        drop(busy);
        assert!(tasks.watched.len() <= OPEN_MAX + PROCESSES_MAX);
    }
}
