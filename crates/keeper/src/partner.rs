//! The other process for whose sake one stays: its tracer, or somebody who shares its memory.
//!
//! From: `mover.rs`, when a move did not happen. Next: nothing: `armento why` and `ps` name it.

use armento_model::{Pid, Stay};
use armento_tracee::{maps, status};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The search reads the maps of every process that we may see. A partner that is not found by then is
/// not named; the move is over, but others of the tree wait for theirs.
const SEARCH_MAX: Duration = Duration::from_millis(200);

/// Whom `pid` stays for; `None` when the reason has no partner, or he is not to be seen from here.
pub fn of(pid: Pid, stay: Stay) -> Option<Pid> {
    match stay {
        Stay::Traced => tracer(pid),
        Stay::SharedMemory => sharer(pid),
        _ => None,
    }
}

/// Threads are traced one by one.
fn tracer(pid: Pid) -> Option<Pid> {
    let tids = status::threads(pid).ok()?;
    let tracers = tids
        .into_iter()
        .filter_map(|t| Some(status::read(t).ok()?.tracer));
    let me = std::process::id() as Pid;
    tracers.into_iter().find(|t| *t != 0 && *t != me)
}

/// Device and inode of what it maps shared: of files, of nameless memory, of System V segments.
fn shared(pid: Pid) -> BTreeSet<(u64, u64)> {
    let maps = maps::read(pid).unwrap_or_default();
    let writable = |v: &&maps::Vma| v.shared && v.prot & libc::PROT_WRITE != 0 && v.is_file();
    maps.iter()
        .filter(writable)
        .map(|v| (v.dev, v.ino))
        .collect()
}

fn sharer(pid: Pid) -> Option<Pid> {
    let mine = shared(pid);
    let end = Instant::now() + SEARCH_MAX;
    let me = std::process::id() as Pid;
    let others = std::fs::read_dir("/proc").ok()?.flatten();
    let mut others = others
        .filter_map(|e| e.file_name().to_str()?.parse::<Pid>().ok())
        .filter(|p| *p != pid && *p != me)
        .take_while(|_| Instant::now() < end);
    if mine.is_empty() {
        return None;
    }
    others.find(|other| !shared(*other).is_disjoint(&mine))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    /// A program that says a line when it is ready and ends with its standard input.
    fn perl(script: &str, arg: &str) -> Child {
        let mut child = Command::new("perl")
            .args([
                "-e",
                &format!("{script}; $|=1; print qq(ready\\n); <STDIN>"),
                arg,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("perl");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        child
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        child.wait().expect("it ends");
    }

    #[test]
    fn who_shares_memory_is_found() {
        let path = std::env::temp_dir().join(format!("armento-partner-{}", std::process::id()));
        File::create(&path)
            .and_then(|f| f.set_len(4096))
            .expect("a file");
        let name = path.to_str().expect("a plain name");
        // KERNEL: mmap is call 9; PROT_READ | PROT_WRITE, MAP_SHARED.
        let map = "open F, '+<', $ARGV[0]; syscall(9, 0, 4096, 3, 1, fileno(F), 0)";
        let (one, two, other) = (perl(map, name), perl(map, name), perl("1", name));
        let pid = |c: &Child| c.id() as Pid;
        assert_eq!(of(pid(&one), Stay::SharedMemory), Some(pid(&two)));
        assert_eq!(of(pid(&two), Stay::SharedMemory), Some(pid(&one)));
        assert_eq!(of(pid(&other), Stay::SharedMemory), None);
        assert_eq!(of(pid(&one), Stay::Busy), None);
        assert_eq!(of(pid(&one), Stay::Traced), None);
        for child in [one, two, other] {
            end(child);
        }
        std::fs::remove_file(&path).expect("our file");
    }
}
