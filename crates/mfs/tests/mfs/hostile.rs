//! A peer that does not keep to the protocol: the server answers with errors, or closes that stream, and serves others.

use crate::farm::{Loop, Place, name};
use armento_link::{Reader, Writer};
use armento_mfs::Farm;
use armento_mfs::protocol::{
    Entry, FrameReader, Hello, Lane, Range, Reply, Request, VERSION, Welcome, Who, encode,
};
use std::fs;
use std::io::Write;
use std::sync::Arc;

struct Peer {
    frames: FrameReader<Reader>,
    writer: Writer,
    next: u64,
}

impl Peer {
    fn connect(farm: &Arc<Loop>, session: u8) -> Peer {
        let (reader, mut writer) = farm
            .connect(&name("n2"), 0)
            .expect("a stream")
            .split()
            .expect("split");
        let hello = Hello {
            version: VERSION,
            session: [session; 16],
            lane: Lane::Names,
            point: b"/mfs".into(),
            below: b"/mfs/n2".into(),
            cache: true,
        };
        writer.write_all(&encode(0, &hello, b"")).expect("sent");
        writer.flush().expect("sent");
        let mut frames = FrameReader::new(reader);
        frames.take::<Welcome>().expect("welcome");
        Peer {
            frames,
            writer,
            next: 0,
        }
    }

    fn call(&mut self, r: &Request) -> Reply {
        self.next += 1;
        self.writer
            .write_all(&encode(self.next, r, b"data"))
            .expect("sent");
        self.writer.flush().expect("sent");
        loop {
            let (id, head, _) = self.frames.raw().expect("an answer");
            if id == self.next {
                return serde_from(head);
            }
        }
    }

    fn lookup(&mut self, dir: u64, name: &[u8]) -> Reply {
        self.call(&Request::Lookup {
            dir,
            name: name.into(),
        })
    }

    /// Follows names from the root.
    fn walk(&mut self, path: &std::path::Path) -> Entry {
        let mut last = None;
        for c in path.iter().skip(1) {
            let dir = last.as_ref().map_or(1, |e: &Entry| e.id);
            match self.lookup(dir, c.as_encoded_bytes()) {
                Reply::Entry(e) => last = Some(e),
                r => panic!("{c:?}: {r:?}"),
            }
        }
        last.expect("a path")
    }
}

fn serde_from(head: &[u8]) -> Reply {
    postcard::from_bytes(head).expect("a reply")
}

fn place(test: &str) -> (Place, Arc<Loop>) {
    let place = Place::new(test);
    let dir = place.path().join("n2");
    fs::create_dir_all(dir.join("hidden")).expect("made");
    fs::write(dir.join("file"), "x").expect("written");
    fs::write(dir.join("hidden/key"), "secret").expect("written");
    fs::write(place.path().join("outside"), "secret").expect("written");
    std::os::unix::fs::symlink("/etc/passwd", dir.join("link")).expect("linked");
    let exports = format!("{}:rw:{}", dir.display(), dir.join("hidden").display());
    let farm = Loop::new(
        &[("n1", "/"), ("n2", &exports)],
        &["--exact", "serve_child", "--nocapture"],
    );
    (place, farm)
}

fn is_error(r: &Reply) -> bool {
    matches!(r, Reply::Error(_) | Reply::Absent { .. })
}

#[test]
fn nothing_outside_an_export_is_reached() {
    let (place, farm) = place("hostile-names");
    let mut p = Peer::connect(&farm, 1);
    let dir = p.walk(&place.path().join("n2"));
    let long = [b'x'; 300];
    for bad in [
        &b".."[..],
        b".",
        b"",
        b"../outside",
        b"/etc",
        b"a\0b",
        b"hidden",
        &long,
    ] {
        let r = p.lookup(dir.id, bad);
        assert!(is_error(&r), "{bad:?}: {r:?}");
        let who = Who { gid: 0, umask: 0 };
        let r = p.call(&Request::Mkdir {
            dir: dir.id,
            name: bad.into(),
            mode: 0o777,
            who,
        });
        assert!(is_error(&r), "{bad:?}: {r:?}");
        let r = p.call(&Request::Rename {
            dir: dir.id,
            name: b"file".into(),
            to: dir.id,
            new: bad.into(),
            flags: 0,
        });
        assert!(is_error(&r), "{bad:?}: {r:?}");
    }
    let Reply::Entry(link) = p.lookup(dir.id, b"link") else {
        panic!("the link is there");
    };
    for flags in [0, libc::O_RDWR as u32, libc::O_PATH as u32, u32::MAX] {
        let r = p.call(&Request::Open {
            node: link.id,
            flags,
            kill: false,
        });
        assert!(is_error(&r), "a link is not followed: {r:?}");
    }
    // A directory that is moved out of the export while the mount knows it.
    fs::create_dir(place.path().join("n2/d")).expect("made");
    fs::write(place.path().join("n2/d/f"), "x").expect("written");
    let Reply::Entry(d) = p.lookup(dir.id, b"d") else {
        panic!("it is there");
    };
    fs::rename(place.path().join("n2/d"), place.path().join("d")).expect("moved");
    assert!(is_error(&p.lookup(d.id, b"f")));
    assert!(!place.path().join("n2/etc").exists() && place.path().join("n2/file").exists());
}

#[test]
fn wrong_numbers_are_errors() {
    let (place, farm) = place("hostile-numbers");
    let mut p = Peer::connect(&farm, 2);
    let file = p.walk(&place.path().join("n2/file"));
    let Reply::Opened { file: open, .. } = p.call(&Request::Open {
        node: file.id,
        flags: libc::O_RDWR as u32,
        kill: false,
    }) else {
        panic!("opened");
    };
    let range = Range {
        start: 9,
        end: 3,
        kind: libc::F_WRLCK,
        pid: 1,
    };
    let all = [
        Request::Getattr {
            node: 999,
            file: None,
        },
        Request::Read {
            file: 999,
            at: 0,
            len: u32::MAX,
        },
        Request::Write {
            file: 999,
            at: u64::MAX,
            kill: true,
        },
        Request::Readdir {
            file: open,
            at: u64::MAX,
            plus: true,
        },
        Request::Setlk {
            node: file.id,
            file: open,
            owner: 1,
            range,
            wait: true,
        },
        Request::Fallocate {
            file: open,
            at: u64::MAX,
            len: u64::MAX,
            mode: u32::MAX,
        },
        Request::Lseek {
            file: open,
            at: u64::MAX,
            whence: 77,
        },
        Request::Resolve {
            names: vec![b"..".into(); 5000],
            want: file.attr.identity(),
        },
    ];
    for r in &all {
        let end = p.call(r);
        assert!(is_error(&end), "{r:?}: {end:?}");
    }
    let forget = Request::Forget(vec![(1, u64::MAX), (file.id, u64::MAX), (77, 1)]);
    p.writer.write_all(&encode(0, &forget, b"")).expect("sent");
    assert_eq!(p.call(&Request::Ping), Reply::Done);
}

#[test]
fn garbage_ends_its_own_stream_only() {
    let (_place, farm) = place("hostile-garbage");
    let mut good = Peer::connect(&farm, 3);
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for round in 0..60u8 {
        let mut p = Peer::connect(&farm, 100);
        let mut bytes = encode(7, &Request::Ping, &[0; 64]);
        for _ in 0..=random() % 8 {
            let at = random() as usize % bytes.len();
            bytes[at] = random() as u8;
        }
        if round % 3 == 0 {
            bytes = (0..200).map(|_| random() as u8).collect();
        }
        // It may be closed already.
        let _ = p.writer.write_all(&bytes).and_then(|()| p.writer.flush());
        assert_eq!(good.call(&Request::Ping), Reply::Done, "round {round}");
    }
}
