//! Descriptions of processes that a forger wrote: read, compared, checked for a restart, without a panic.

use super::frame::Kind;
use super::writer::Writer;
use super::{Header, Overwrite, Reader, inspect};
use crate::assemble::{How, check};
use crate::home::{
    Bytes, Description, Descriptor, Home, Identity, Kind as Sort, Limit, Lock, Memory, OpenFile,
    Pair, Pipe, Process, Program, RecordLock, Timer, Watched, WatchedFile,
};
use std::fs;
use std::path::Path;

fn sorts() -> Vec<Sort> {
    let text = |t: &str| Bytes(t.as_bytes().to_vec());
    let path = text("/dev/null");
    vec![
        Sort::File(OpenFile {
            path: text("/etc/passwd"),
            identity: Identity::default(),
            deleted: false,
            kept: Some(1),
        }),
        Sort::Directory {
            path: text("/etc"),
            dev: 1,
            ino: 2,
        },
        Sort::Device { path },
        Sort::Outside {
            stds: vec![0, 1],
            was: "the terminal".into(),
        },
        Sort::Pipe { pipe: 0 },
        Sort::Socket { pair: 0, end: 1 },
        Sort::Memory { memory: 0 },
        Sort::Inotify {
            watches: vec![WatchedFile {
                number: 3,
                path: text("/etc"),
                mask: 2,
            }],
            waiting: true,
        },
        Sort::Event {
            count: 3,
            semaphore: true,
        },
        Sort::Timer(Timer::default()),
        Sort::Signals { mask: 1 },
        Sort::Epoll {
            watched: vec![Watched {
                fd: 3,
                events: 1,
                data: 2,
            }],
            of: 1,
        },
    ]
}

fn home() -> Home {
    let lock = Lock {
        exclusive: true,
        start: 0,
        end: Some(9),
    };
    let one = |kind| Description {
        kind,
        flags: 2,
        offset: 10,
        flock: Some(lock),
        ofd_locks: vec![lock],
    };
    let descriptions: Vec<Description> = sorts().into_iter().map(one).collect();
    let descriptor = |n: u32| Descriptor {
        fd: n as i32,
        cloexec: true,
        description: n,
    };
    let process = |pid, parent| Process {
        pid,
        parent,
        pgid: 300,
        sid: 299,
        argv: vec![Bytes(b"sh".to_vec())],
        exe: Program {
            path: Bytes(b"/bin/sh".to_vec()),
            identity: Identity::default(),
        },
        cwd: Bytes(b"/".to_vec()),
        groups: vec![1],
        limits: [Limit { soft: 1, hard: 2 }; 16],
        descriptors: (0..descriptions.len() as u32).map(descriptor).collect(),
        locks: vec![RecordLock { fd: 0, lock }],
        ..Process::default()
    };
    Home {
        processes: vec![
            process(300, None),
            process(301, Some(0)),
            process(302, Some(1)),
        ],
        descriptions,
        pipes: vec![Pipe {
            capacity: 4096,
            waiting: b"bytes".to_vec(),
        }],
        pairs: vec![Pair::default()],
        memory: vec![Memory {
            name: Some(Bytes(b"name".to_vec())),
            dev: 1,
            ino: 2,
            size: 8192,
            mode: 0o777,
            seals: 1,
            open: true,
            mapped_by: vec![0, 2],
        }],
        taken: (1, 2),
    }
}

/// Whether the file was taken; it is read to the end.
fn read(path: &Path, encoded: &[u8]) -> bool {
    let header = Header::here(1, "", "", 300);
    let mut w = Writer::create(path, &header, Overwrite::Yes).unwrap();
    w.pieces(Kind::Home, 0, encoded).unwrap();
    w.finish().unwrap();
    drop(inspect(path));
    let Ok(reader) = Reader::open(path) else {
        return false;
    };
    for same_pids in [false, true] {
        let how = How {
            same_pids,
            ..How::default()
        };
        drop(check(reader.home(), &how));
    }
    true
}

#[test]
fn forged_descriptions_end_in_errors_and_never_in_panics() {
    let path = std::env::temp_dir().join(format!("armento-forged-{}", std::process::id()));
    let whole = postcard::to_stdvec(&home()).unwrap();
    assert!(read(&path, &whole));
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= [0x01, 0x7f, 0xff][at % 3];
        read(&path, &bytes);
        assert!(!read(&path, &whole[..at]), "{at} bytes of {}", whole.len());
    }
    fs::remove_file(&path).unwrap();
}
