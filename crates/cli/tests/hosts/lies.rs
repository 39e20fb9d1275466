//! Forged messages of a hostile host to home. The file [`WHICH`] names the forgery, and home's answer is written to
//! [`SAID`].

use super::relay::{FORGED, Middle};
use armento_abi::{Out, OutRule, Packed};
use armento_migrate::image::Layout;
use armento_model::{CpuTime, FileCounts, FileIdentity, HomePid, HomeTid, Stay};
use armento_wire::bulk;
use armento_wire::call::{CALL, Call, REPLY, call_head};
use armento_wire::talk::{
    FileKey, MountSeen, ProofFile, ServedRead, Signal, TALK, ToHome, Usage, Words, decode, encode,
};
use std::fs;

pub const WHICH: &str = "/tmp/lie";
pub const SAID: &str = "/tmp/said";
/// What the forgery aims at: pids of a program of root's and of home's daemon, and a file's device, number, size and
/// time.
pub const TARGETS: &str = "/tmp/targets";
/// Forged frames that end the link, one a run.
pub const ENDING: [&str; 15] = [
    "no-row",
    "body-row",
    "host-row",
    "come-home-row",
    "offsets",
    "pointers",
    "many-outs",
    "data",
    "kind",
    "reply",
    "talk",
    "empty",
    "signal-0",
    "signal-65",
    "signal-short",
];
/// Forged images on the way home, one a run.
pub const IMAGES: [&str; 9] = [
    "image-ours",
    "image-kernels",
    "image-offer",
    "image-layout",
    "image-state",
    "image-pages",
    "image-short",
    "image-long",
    "image-kinds",
];

pub type Lie = &'static str;

/// The chosen forgery, if it changes an image.
pub fn chosen() -> Option<Lie> {
    let which = fs::read_to_string(WHICH).unwrap_or_default();
    IMAGES.into_iter().find(|l| *l == which.trim())
}

struct Liar<'a> {
    to: &'a Middle,
    tid: HomeTid,
    seq: u32,
}

impl Liar<'_> {
    fn call(&mut self, tid: HomeTid, packed: Packed) {
        self.seq += 1;
        let data = packed.data.clone();
        let call = Call {
            tid,
            seq: FORGED + self.seq,
            flags: 0,
            mask: 0,
            packed,
        };
        self.to.send(CALL, &[call_head(&call), data].concat());
    }

    /// A call in the process's own name; returns home's result.
    fn call_home(&mut self, nr: i64, args: [u64; 6], path: Option<(u8, &str)>) -> Option<i64> {
        let mut packed = Packed {
            nr: nr as u16,
            args,
            ..Packed::default()
        };
        if let Some((at, path)) = path {
            packed.data = [path.as_bytes(), b"\0"].concat();
            packed.arg_ptrs = 1 << at;
        }
        self.call(self.tid, packed);
        self.to.answer(FORGED + self.seq).map(|a| a.0)
    }

    fn send(&self, m: &ToHome) {
        self.to.send(TALK, &encode(m));
    }
}

pub fn run(to: &Middle, tid: HomeTid) {
    let which = fs::read_to_string(WHICH).unwrap_or_default();
    let targets = fs::read_to_string(TARGETS).unwrap_or_default();
    let targets: Vec<u64> = targets
        .split_whitespace()
        .filter_map(|w| w.parse().ok())
        .collect();
    let mut liar = Liar { to, tid, seq: 0 };
    let said = match which.trim() {
        "rights" => forbidden_objects(&mut liar, targets[0]),
        "strangers" => {
            for stranger in [
                1,
                -1,
                0,
                i32::MIN,
                i32::MAX,
                targets[0] as i32,
                targets[1] as i32,
            ] {
                unknown_processes(&mut liar, stranger);
            }
            "said".into()
        }
        "itself" => false_claims(&mut liar, &targets),
        one if ENDING.contains(&one) => {
            fatal_frame(&mut liar, one);
            "said".into()
        }
        _ => return,
    };
    // Rename, so that a reader sees the whole file or none.
    fs::write(format!("{SAID}.part"), said).expect("a file");
    fs::rename(format!("{SAID}.part"), SAID).expect("a file");
}

const SECRET: &str = "/tmp/secret";

/// Calls that the table permits, on objects that the user may not access: home's kernel refuses them.
fn forbidden_objects(liar: &mut Liar, other: u64) -> String {
    let here = libc::AT_FDCWD as u64;
    let rdwr = libc::O_RDWR as u64;
    let all = [
        liar.call_home(
            libc::SYS_openat,
            [here, 0, rdwr, 0, 0, 0],
            Some((1, SECRET)),
        ),
        liar.call_home(
            libc::SYS_openat,
            [here, 0, 0, 0, 0, 0],
            Some((1, "/etc/shadow")),
        ),
        liar.call_home(libc::SYS_unlinkat, [here, 0, 0, 0, 0, 0], Some((1, SECRET))),
        liar.call_home(libc::SYS_chmod, [0, 0o777, 0, 0, 0, 0], Some((0, SECRET))),
        liar.call_home(libc::SYS_kill, [other, 9, 0, 0, 0, 0], None),
        liar.call_home(libc::SYS_tgkill, [other, other, 9, 0, 0, 0], None),
        liar.call_home(libc::SYS_setuid, [0; 6], None),
        liar.call_home(libc::SYS_setresuid, [0; 6], None),
    ];
    format!("{all:?}")
}

fn key(dev: u64, ino: u64) -> FileKey {
    FileKey {
        dev,
        ino,
        size: 7,
        ctime_ns: 0,
    }
}

fn signal(sig: i32) -> Signal {
    let mut info = vec![0u8; 128];
    info[..4].copy_from_slice(&sig.to_le_bytes());
    Signal(info)
}

const MUCH: CpuTime = CpuTime {
    user_ns: u64::MAX,
    system_ns: u64::MAX,
};

/// Messages in the name of processes that do not exist.
fn unknown_processes(liar: &mut Liar, number: i32) {
    let (pid, tid) = (HomePid::of_home(number), HomeTid::of_home(number));
    for nr in [libc::SYS_getppid, libc::SYS_kill, libc::SYS_close] {
        let packed = Packed {
            nr: nr as u16,
            args: [1, 9, 0, 0, 0, 0],
            ..Packed::default()
        };
        liar.call(tid, packed);
    }
    let (seq, mv, info) = (FORGED, u64::MAX, signal(9));
    let all = [
        ToHome::Fork {
            tid,
            seq,
            flags: u64::MAX,
            exit_signal: 9,
            thread: false,
        },
        ToHome::Fork {
            tid,
            seq,
            flags: 0,
            exit_signal: -1,
            thread: true,
        },
        ToHome::Ignored {
            pid,
            tid,
            ignored: u64::MAX,
            heard: u64::MAX,
            away: MUCH,
            thread_away: MUCH,
        },
        ToHome::ThreadExit { pid, tid },
        ToHome::Default {
            pid,
            tid,
            sig: 9,
            info,
            away: MUCH,
        },
        ToHome::ComeHome {
            pid,
            tid,
            stay: Stay::NoRoom,
            why: "x".repeat(1 << 20),
            about: Some(HomePid::of_home(1)),
        },
        ToHome::Map {
            tid,
            seq,
            args: [u64::MAX; 6],
        },
        ToHome::Ahead {
            pid,
            seq,
            fd: 0,
            from: None,
            len: u32::MAX,
        },
        ToHome::Stands {
            pid,
            list: vec![(0, u64::MAX); 10_000],
            over: vec![-1, i32::MAX],
        },
        ToHome::Offsets {
            pid,
            list: vec![(0, u64::MAX); 10_000],
        },
        ToHome::Reads {
            list: [
                libc::SYS_read,
                libc::SYS_pread64,
                libc::SYS_lseek,
                libc::SYS_write,
            ]
            .map(|nr| ServedRead {
                tid: pid.leader(),
                nr: nr as u16,
                args: [0, u64::MAX, u64::MAX, u64::MAX, 0, 0],
                ret: i64::MAX,
            })
            .to_vec(),
        },
        seen_elsewhere(seq, "../../../tmp/secret"),
        ToHome::Freezing { mv, pid, seq },
        ToHome::Ready {
            mv,
            bytes: u64::MAX,
            away: MUCH,
        },
        ToHome::Failed {
            mv,
            stay: Stay::Busy,
            detail: String::new(),
        },
        ToHome::Thawed { mv },
        ToHome::Thawed { mv: 1 },
        ToHome::Warmed { mv: 2 },
        ToHome::Nudge { tid, seq },
        ToHome::Words(Words {
            pid,
            at: 0x1000,
            bytes: vec![0x41; 1 << 20],
        }),
        ToHome::Usage {
            list: vec![usage(pid); 10_000],
        },
        ToHome::Exit {
            pid,
            code: 0,
            away: MUCH,
        },
        ToHome::Died { pid, sig: 9 },
    ];
    all.iter().for_each(|m| liar.send(m));
}

/// The answer to a question about a shared mount that home has not asked.
fn seen_elsewhere(seq: u32, name: &str) -> ToHome {
    let file = ProofFile {
        name: name.into(),
        content: vec![0; 1 << 20],
        identity: FileIdentity::default(),
    };
    let seen = MountSeen {
        magic: 0xef53,
        relaxed: false,
        kernel: String::new(),
        found: file.clone(),
        written: file,
    };
    let seen = Ok(Box::new(seen));
    ToHome::MountSeen { seq, seen }
}

fn usage(pid: HomePid) -> Usage {
    Usage {
        pid,
        away: MUCH,
        rss_kib: u64::MAX,
        busy_percent: 255,
        files: FileCounts {
            posted: u64::MAX,
            reads: u64::MAX,
            ..FileCounts::default()
        },
    }
}

/// False messages in the process's own name.
fn false_claims(liar: &mut Liar, targets: &[u64]) -> String {
    let (pid, tid, seq) = (liar.tid.of_leader(), liar.tid, FORGED);
    let private = libc::MAP_PRIVATE as u64;
    let fixed = private | libc::MAP_FIXED as u64;
    let anonymous = fixed | libc::MAP_ANONYMOUS as u64;
    let map = |args| ToHome::Map { tid, seq, args };
    let words = |at| {
        ToHome::Words(Words {
            pid,
            at,
            bytes: vec![0x41; 8192],
        })
    };
    let all = [
        map([0x6a00_0000_0000, 4096, 7, fixed, 0, 0]),
        map([0x1000_0000, 4096, 7, anonymous, u64::MAX, 0]),
        map([u64::MAX - 4095, u64::MAX, 7, fixed, 0, u64::MAX]),
        map([0, u64::MAX, 3, private, 1 << 40, 1]),
        ToHome::Fetch {
            seq,
            key: key(targets[2], targets[3]),
        },
        ToHome::Fetch {
            seq,
            key: key(u64::MAX, u64::MAX),
        },
        ToHome::Ahead {
            pid,
            seq,
            fd: -1,
            from: None,
            len: u32::MAX,
        },
        ToHome::Ahead {
            pid,
            seq,
            fd: i32::MAX,
            from: None,
            len: u32::MAX,
        },
        ToHome::Stands {
            pid,
            list: vec![(0, u64::MAX), (-7, 1)],
            over: vec![i32::MIN; 10_000],
        },
        ToHome::Offsets {
            pid,
            list: vec![(0, u64::MAX), (-7, 1), (i32::MAX, 0)],
        },
        seen_elsewhere(1, &"f".repeat(32)),
        words(0),
        words(u64::MAX - 4096),
        words(0x6a00_0000_0000),
        words(0xffff_ffff_ff60_0000),
        ToHome::Usage {
            list: vec![usage(pid); 10_000],
        },
        ToHome::Nudge { tid, seq },
        ToHome::Freezing { mv: 7, pid, seq },
        ToHome::Default {
            pid,
            tid,
            sig: libc::SIGCHLD,
            info: signal(9),
            away: MUCH,
        },
    ];
    all.iter().for_each(|m| liar.send(m));
    // Whether home still answers: it serves on, or the program has ended.
    let said = liar.call_home(libc::SYS_getppid, [0; 6], None);
    format!("{:?}", said.map(|pid| pid > 0))
}

/// One frame that no real host sends.
fn fatal_frame(liar: &mut Liar, which: &str) {
    let fine = |nr: i64| Packed {
        nr: nr as u16,
        ..Packed::default()
    };
    let out = Out {
        off: 0,
        len: u32::MAX,
        rule: OutRule::Always,
    };
    let packed = match which {
        "no-row" => fine(0xffff),
        "body-row" => fine(libc::SYS_munmap),
        "host-row" => fine(libc::SYS_clone),
        "come-home-row" => fine(libc::SYS_ptrace),
        "offsets" => Packed {
            relocs: vec![u32::MAX],
            ..fine(libc::SYS_getppid)
        },
        "pointers" => Packed {
            args: [u64::MAX; 6],
            arg_ptrs: 255,
            ..fine(libc::SYS_read)
        },
        "many-outs" => Packed {
            outs: vec![out; 60_000],
            ..fine(libc::SYS_read)
        },
        "data" => {
            // A length larger than the data that follows.
            let call = Call {
                tid: liar.tid,
                seq: FORGED,
                flags: 255,
                mask: u64::MAX,
                packed: fine(libc::SYS_getppid),
            };
            let mut head = call_head(&call);
            let at = head.len() - 4;
            head[at..].copy_from_slice(&u32::MAX.to_le_bytes());
            return liar.to.send(CALL, &head);
        }
        "kind" => return liar.to.send(99, b"what"),
        "reply" => return liar.to.send(REPLY, &[0; 16]),
        "talk" => return liar.to.send(TALK, &[0xff; 4096]),
        "empty" => return liar.to.send(TALK, &[]),
        signals => {
            let (sig, info) = match signals {
                "signal-0" => (0, signal(0)),
                "signal-65" => (65, signal(65)),
                _ => (libc::SIGTERM, Signal(vec![15])),
            };
            let (pid, tid, away) = (liar.tid, liar.tid, CpuTime::default());
            return liar.send(&ToHome::Default {
                pid: pid.of_leader(),
                tid,
                sig,
                info,
                away,
            });
        }
    };
    liar.call(liar.tid, packed);
}

/// Changes a frame of an image that goes home.
pub fn image(lie: Lie, kind: u8, body: &mut Vec<u8>) {
    // The format encodes small numbers in few bytes: set upper bits make them other numbers, or invalid.
    let spoil = |body: &mut Vec<u8>| body.iter_mut().step_by(7).for_each(|b| *b ^= 0x55);
    match (lie, kind) {
        ("image-offer", bulk::OFFER)
        | ("image-layout", bulk::LAYOUT)
        | ("image-state", bulk::STATE) => spoil(body),
        // The addresses of pages.
        ("image-pages", bulk::PAGES) => body.iter_mut().take(24).for_each(|b| *b ^= 0x55),
        ("image-short", bulk::STATE | bulk::LAYOUT) => body.truncate(body.len() / 2),
        ("image-long", bulk::STATE | bulk::LAYOUT) => body.extend([0x41; 1 << 16]),
        ("image-kinds", bulk::END) => *body = vec![0xff; 64],
        // Sorted and page-aligned, but outside the address space of programs.
        ("image-ours", bulk::LAYOUT) => foreign(body, 0x6a00_0000_0000),
        ("image-kernels", bulk::LAYOUT) => foreign(body, 0xffff_8000_0000_0000),
        _ => {}
    }
}

fn foreign(body: &mut Vec<u8>, at: u64) {
    let mut layout: Layout = decode(body, "layout").expect("an honest host's");
    let i = layout.areas.iter().take_while(|a| a.end <= at).count();
    let mut area = layout.areas[0].clone();
    (area.start, area.end) = (at, at + 4096);
    layout.areas.insert(i, area);
    *body = encode(&layout);
}
