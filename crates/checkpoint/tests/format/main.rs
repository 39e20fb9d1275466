//! Checkpoint files: written, read again, damaged in every way.

mod damage;

use armento_checkpoint::format::{
    FormatError, Header, Overwrite, PAGE, Page, Reader, Writer, inspect,
};
use armento_checkpoint::home::{
    Bytes, Description, Descriptor, Home, Identity, Kind, OpenFile, Process, Program,
};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const ROOT: i32 = 4711;

/// A directory that is removed at the end.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("armento-checkpoint-{}-{n}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir(&dir).unwrap();
        Dir(dir)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap().flatten();
        entries
            .map(|e| e.file_name().into_string().unwrap())
            .collect()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn home() -> Home {
    let path = Bytes(b"/etc/hostname".to_vec());
    let file = OpenFile {
        path,
        identity: Identity {
            size: 1_000_000,
            ..Identity::default()
        },
        deleted: false,
        kept: Some(7),
    };
    Home {
        processes: vec![Process {
            pid: ROOT,
            argv: vec![Bytes(b"sleep".to_vec()), Bytes(b"\xff\xfe".to_vec())],
            exe: Program {
                path: Bytes(b"/bin/sleep".to_vec()),
                identity: Identity::default(),
            },
            cwd: Bytes(b"/".to_vec()),
            descriptors: vec![Descriptor {
                fd: 3,
                cloexec: true,
                description: 0,
            }],
            ..Process::default()
        }],
        descriptions: vec![Description {
            kind: Kind::File(file),
            flags: 0,
            offset: 12,
            flock: None,
            ofd_locks: Vec::new(),
        }],
        ..Home::default()
    }
}

fn header() -> Header {
    Header::here(27, "0.1.0", "n1", ROOT)
}

/// A page whose content depends on a number; half of it compresses well.
fn page(n: u32) -> [u8; PAGE] {
    let mut page = [n as u8; PAGE];
    let mut x = n.wrapping_mul(2_654_435_761) | 1;
    for byte in &mut page[..PAGE / 2] {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        *byte = x as u8;
    }
    page
}

/// A small file: a dozen pages, zeros, an image, a kept file.
fn write_small(path: &Path) {
    let mut w = Writer::create(path, &header(), Overwrite::No).unwrap();
    w.tree(&home()).unwrap();
    w.image(ROOT, b"threads").unwrap();
    for n in 1..4 {
        let at = 0x10_000 + u64::from(n) * PAGE as u64;
        w.page(ROOT, at, &page(n % 2 + 1)).unwrap();
    }
    w.zeros(ROOT, 0x100_000, 1000).unwrap();
    w.file(7, &mut &b"content"[..]).unwrap();
    w.finish().unwrap();
}

/// Everything that can be read, read.
fn read_all(path: &Path) -> Result<BTreeMap<u64, Vec<u8>>, FormatError> {
    let reader = Reader::open(path)?;
    let mut pages = BTreeMap::new();
    for p in &reader.home().processes {
        reader.image(p.pid)?;
        reader.pages(p.pid, &mut |at, page| -> Result<(), FormatError> {
            let bytes = match page {
                Page::Zeros(n) => n.to_le_bytes().to_vec(),
                Page::Bytes(bytes) => bytes.to_vec(),
            };
            pages.insert(at, bytes);
            Ok(())
        })?;
    }
    let mut content = Vec::new();
    let path = path.to_owned();
    reader
        .file(7)?
        .read_to_end(&mut content)
        .map_err(|source| FormatError::Io {
            doing: "read",
            path,
            source,
        })?;
    Ok(pages)
}

#[test]
fn what_was_written_is_read_again() {
    let dir = Dir::new();
    let path = dir.at("c");
    let mut w = Writer::create(&path, &header(), Overwrite::No).unwrap();
    w.tree(&home()).unwrap();
    let image: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
    w.image(ROOT, &image).unwrap();
    // Blocks that are full and one that is not; every tenth page comes twice.
    let numbers: Vec<u32> = (0..1000).map(|n| if n % 10 == 0 { 0 } else { n }).collect();
    for (n, content) in (0u64..).zip(&numbers) {
        w.page(ROOT, n * PAGE as u64, &page(*content + 1)).unwrap();
    }
    w.page(ROOT, 5000 * PAGE as u64, &[0; PAGE]).unwrap();
    w.zeros(ROOT, 5001 * PAGE as u64, 1 << 33).unwrap();
    let content = vec![42; 1_000_000];
    // More than it had at the capture.
    let mut longer = (&content[..]).chain(&[7; 500_000][..]);
    w.file(7, &mut longer).unwrap();
    w.file(8, &mut &b""[..]).unwrap();
    let summary = w.finish().unwrap();
    assert_eq!(summary.totals.pages, 1001 + (1 << 33));
    assert_eq!(summary.totals.distinct_pages, 901);
    assert_eq!(summary.totals.zero_pages, 1 + (1 << 33));
    assert_eq!(
        (summary.totals.files, summary.totals.files_bytes),
        (2, 1_000_000)
    );
    let found = fs::metadata(&path).unwrap();
    assert_eq!(summary.file_bytes, found.size());
    assert_eq!(found.permissions().mode() & 0o7777, 0o600);

    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.home(), &home());
    assert_eq!(reader.header(), &header_of(&reader));
    assert_eq!(reader.image(ROOT).unwrap(), image);
    assert!(matches!(
        reader.image(1),
        Err(FormatError::Lacks { pid: 1, .. })
    ));
    let (mut next, mut zeros) = (0u64, 0);
    reader
        .pages(ROOT, &mut |at, found| -> Result<(), FormatError> {
            match found {
                Page::Bytes(bytes) => {
                    assert_eq!(at, next * PAGE as u64);
                    assert_eq!(bytes, &page(numbers[next as usize] + 1));
                    next += 1;
                }
                Page::Zeros(n) => zeros += n,
            }
            Ok(())
        })
        .unwrap();
    assert_eq!((next, zeros), (1000, 1 + (1 << 33)));
    for (key, expected) in [(7, &content[..]), (8, &b""[..])] {
        let mut bytes = Vec::new();
        reader.file(key).unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, expected);
    }
    assert!(matches!(reader.file(9), Err(FormatError::NoFile(9))));
}

/// The time is that of the writer.
fn header_of(reader: &Reader) -> Header {
    Header {
        taken_s: reader.header().taken_s,
        ..header()
    }
}

#[test]
fn an_inspection_names_processes_descriptors_and_changed_files() {
    let dir = Dir::new();
    write_small(&dir.at("c"));
    let seen = inspect(&dir.at("c")).unwrap();
    assert_eq!(seen.memory_bytes, 1003 * PAGE as u64);
    assert_eq!(seen.distinct_bytes, 2 * PAGE as u64);
    let p = &seen.processes[0];
    assert_eq!((p.pid, p.program.as_str()), (ROOT, "/bin/sleep"));
    assert_eq!(p.descriptors, ["3: /etc/hostname, at byte 12"]);
    assert_eq!(seen.changed.len(), 2, "{:?}", seen.changed);
    assert!(
        serde_json::to_string(&seen)
            .unwrap()
            .contains("\"root\":4711")
    );
}

#[test]
fn an_existing_file_is_left_unless_told_otherwise() {
    let dir = Dir::new();
    let path = dir.at("c");
    write_small(&path);
    let before = fs::read(&path).unwrap();
    let refused = Writer::create(&path, &header(), Overwrite::No);
    assert!(matches!(refused, Err(FormatError::Exists(_))));
    // One that was made while we wrote.
    let late = Writer::create(&dir.at("late"), &header(), Overwrite::No).unwrap();
    fs::write(dir.at("late"), b"mine").unwrap();
    assert!(matches!(late.finish(), Err(FormatError::Exists(_))));
    assert_eq!(fs::read(dir.at("late")).unwrap(), b"mine");
    assert_eq!(fs::read(&path).unwrap(), before);
    let mut w = Writer::create(&path, &header(), Overwrite::Yes).unwrap();
    w.tree(&home()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), before, "until it is complete");
    w.finish().unwrap();
    assert_ne!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_that_is_not_finished_leaves_nothing() {
    let dir = Dir::new();
    // As one that was killed left it.
    let left = format!(".armento-checkpoint.{}-0.part", std::process::id());
    fs::write(dir.at(&left), b"").unwrap();
    let mut w = Writer::create(&dir.at("c"), &header(), Overwrite::No).unwrap();
    w.tree(&home()).unwrap();
    assert_eq!(dir.names().len(), 2);
    drop(w);
    assert_eq!(dir.names(), [left]);
}
