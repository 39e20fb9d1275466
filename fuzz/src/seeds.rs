//! The first inputs of the corpus: messages in their own encoding. `fuzz-seeds` writes them below `corpus/`.

use armento_abi::{NR_LIMIT, Out, OutRule, Packed, describe};
use armento_client::api::{
    Action, Answer, Ask, Body, CheckpointOrder, Dest, HistoryQuery, HostUp, KeepStep, KeeperHello,
    Line, Order, RecoverStep, Report, SafeWish,
};
use armento_client::encode as line;
use armento_gossip::{Entry, Tick, Vector};
use armento_link::{Badge, Role, Token};
use armento_migrate::files::Like;
use armento_migrate::image::area::{Flags, GROWS, NO_RESERVE};
use armento_migrate::image::areas::memfd_name;
use armento_migrate::image::vdso::Vdso;
use armento_migrate::image::{Accept, Area, Head, Kind, Layout, Mm, State, ThreadState};
use armento_model::{
    CpuTime, ENGINE_VERSION, FileIdentity, Hint, HomePid, HomeTid, NodeName, Stay, TreeId,
};
use armento_noded::peer::{AdmitAsk, PeerAnswer, PeerAsk, Question, Replied, Reply};
use armento_wire::call::{CALL, Call, REPLY, call_head, reply_head};
use armento_wire::codec::{Codec, Shrink};
use armento_wire::pages::{Holds, PAGE, Part, head, plain_head};
use armento_wire::sockets::{EndId, Meeting, Recall, SocketNews, SocketOrder};
use armento_wire::talk::{
    Beginning, DirectFile, FileKey, Hello, MountSeen, ObjectId, Posted, ProofFile, Purpose,
    ServedRead, Signal, TALK, ToHome, ToHost, Whither, encode,
};
use armento_wire::write_frame;

/// Target, name, bytes.
pub type Seed = (&'static str, String, Vec<u8>);

pub fn all() -> Vec<Seed> {
    let parts = [
        calls(),
        talk(),
        bulk(),
        image(),
        packs(),
        loads(),
        control(),
        words(),
        nfs(),
        follow(),
    ];
    parts.into_iter().flatten().collect()
}

fn seed(target: &'static str, name: &str, bytes: impl Into<Vec<u8>>) -> Seed {
    (target, name.to_owned(), bytes.into())
}

fn tagged(tag: u8, bytes: &[u8]) -> Vec<u8> {
    [&[tag], bytes].concat()
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    write_frame(&mut all, kind, &[body]).expect("short, into memory");
    all
}

fn packed(nr: i64, args: [u64; 6], data: &[u8], arg_ptrs: u8) -> Packed {
    Packed {
        nr: nr as u16,
        args,
        data: data.to_vec(),
        arg_ptrs,
        ..Packed::default()
    }
}

fn calls() -> Vec<Seed> {
    // libc's numbers are those of the table.
    let (write, read, select, writev) = (1, 0, 23, 20);
    let mut reads = packed(read, [3, 0, 64, 0, 0, 0], b"", 0b10);
    reads.outs.push(Out {
        off: 0,
        len: 64,
        rule: OutRule::RetBytes { skip: 0 },
    });
    let mut wait = packed(select, [1, 0, 0, 0, 8, 0], &[1; 24], 0b10000);
    wait.relocs.clear();
    let mut parts = packed(writev, [1, 0, 1, 0, 0, 0], &[0; 32], 0b10);
    parts.data[8] = 4;
    parts.data[0] = 16;
    parts.relocs.push(0);
    let list = [
        ("write", packed(write, [1, 0, 5, 0, 0, 0], b"hello", 0b10)),
        ("read", reads),
        ("select", wait),
        ("writev", parts),
    ];
    let one = |(name, packed): (&str, Packed)| {
        let c = Call {
            tid: HomeTid::of_home(812),
            seq: 7,
            flags: 1,
            mask: 0x4000,
            packed,
        };
        let bytes = [call_head(&c), c.packed.data.clone()].concat();
        let framed = frame(CALL, &bytes);
        [
            seed("call", name, bytes),
            ("frames", format!("call-{name}"), framed),
        ]
    };
    let mut all: Vec<Seed> = list.into_iter().flat_map(one).collect();
    let reply = [&reply_head(HomeTid::of_home(812), 7, 5)[..], b"bytes"].concat();
    all.push(seed("call", "reply", reply.clone()));
    all.push(seed("frames", "reply", frame(REPLY, &reply)));
    all
}

fn key() -> FileKey {
    FileKey {
        dev: 0xfe_0000_0010,
        ino: 77,
        size: 8192,
        ctime_ns: -1,
    }
}

fn proof() -> ProofFile {
    ProofFile {
        name: "00ff".repeat(8),
        content: vec![7; 32],
        identity: FileIdentity {
            ino: 77,
            size: 32,
            mtime: (1_760_000_000, 5),
            mode: 0o100_600,
            uid: 1000,
            handle: vec![1, 0, 0, 0, 9, 9],
        },
    }
}

fn talk() -> Vec<Seed> {
    let hello = Hello {
        engine: ENGINE_VERSION,
        tree: TreeId(0xab),
        purpose: Purpose::Bring(3),
        monotonic_ns: 1 << 40,
    };
    let (pid, tid) = (HomePid::of_home(812), HomeTid::of_home(813));
    let home = [
        ToHome::Fork {
            tid,
            seq: 1,
            flags: 17,
            exit_signal: 17,
            thread: false,
        },
        ToHome::Default {
            pid,
            tid,
            sig: 11,
            info: Signal(vec![1; 128]),
            away: CpuTime::default(),
        },
        ToHome::ComeHome {
            pid,
            tid,
            stay: Stay::Busy,
            why: "io_uring_setup".into(),
            about: Some(HomePid::of_home(1)),
        },
        ToHome::Map {
            tid,
            seq: 2,
            args: [0, 4096, 3, 2, 5, 0],
        },
        ToHome::Fetch { seq: 3, key: key() },
        ToHome::Stands {
            pid,
            list: vec![(3, 1 << 33)],
            over: vec![4],
        },
        ToHome::Offsets {
            pid,
            list: vec![(3, 1 << 33), (5, 0)],
        },
        ToHome::Reads {
            list: vec![ServedRead {
                tid,
                nr: 0,
                args: [3, 0x7000, 2048, 0, 0, 0],
                ret: 2048,
            }],
        },
        ToHome::MountSeen {
            seq: 6,
            seen: Ok(Box::new(MountSeen {
                magic: 0xef53,
                relaxed: false,
                kernel: "2f6e0b1c".into(),
                found: proof(),
                written: proof(),
            })),
        },
        ToHome::MountSeen {
            seq: 7,
            seen: Err("it does not declare the mount".into()),
        },
        ToHome::Socket(SocketNews::Met {
            end: EndId::new(9, 1),
            failed: Some("no way".into()),
        }),
        ToHome::Socket(SocketNews::Held {
            end: EndId::new(9, 1),
        }),
        ToHome::Socket(SocketNews::Recall {
            end: EndId::new(9, 0),
            why: Recall::Call,
        }),
        ToHome::Socket(SocketNews::Ended {
            end: EndId::new(9, 0),
            sent: 7,
            tail: b"fg".to_vec(),
            received: 3,
            unread: b"c".to_vec(),
        }),
        ToHome::Alive,
    ];
    let host = [
        ToHost::Signal {
            pid,
            tid: None,
            info: Signal(vec![2; 128]),
        },
        ToHost::Mapped {
            seq: 2,
            ret: -22,
            key: Some(key()),
            stay: Some(Stay::SharedMemory),
        },
        ToHost::FileBytes {
            seq: 3,
            off: 0,
            bytes: b"#!/bin/sh".to_vec(),
            end: true,
        },
        ToHost::End,
        ToHost::Warm {
            mv: 4,
            files: vec![key(), key()],
        },
        ToHost::Send {
            mv: 4,
            pid,
            to: Whither::Host {
                addr: "10.0.0.2:4000".into(),
                expect: "{}".into(),
            },
        },
        ToHost::Limits {
            pid,
            limits: vec![(3, 8 << 20, u64::MAX)],
        },
        ToHost::Nice {
            list: vec![(tid, 10)],
        },
        ToHost::Descriptor {
            tid,
            seq: 9,
            fd: 3,
            writes: 1 << 20,
            stat: vec![0; 144],
            begin: Some(Beginning {
                directory: false,
                bytes: b"#!/bin/sh".to_vec(),
                end: true,
            }),
            device: None,
        },
        ToHost::Posted(Posted {
            calls: 1,
            bytes: 4096,
        }),
        ToHost::Directory {
            path: b"/usr".to_vec(),
            id: (1, 2),
            guarded: false,
            names: b"\x04lib\0".to_vec(),
        },
        ToHost::Link {
            path: b"/lib".to_vec(),
            target: b"usr/lib".to_vec(),
        },
        ToHost::WorkingDirectory {
            pid,
            seq: 9,
            path: b"/usr".to_vec(),
            id: (1, 2),
        },
        ToHost::ForgetAll,
        ToHost::ForgetNames {
            below: Vec::new(),
            files: Vec::new(),
        },
        ToHost::Attributes {
            path: b"/usr".to_vec(),
            birth: true,
            list: Vec::new(),
        },
        ToHost::PostFailed {
            pid,
            fd: 3,
            errno: 5,
        },
        ToHost::TellReads { pid, fd: 3 },
        ToHost::Direct {
            tid,
            seq: 9,
            fd: 3,
            file: DirectFile {
                mount: b"/data".to_vec(),
                path: b"set/part.1".to_vec(),
                flags: 2,
                identity: proof().identity,
            },
        },
        ToHost::ProveMount {
            seq: 6,
            mount: b"/data".to_vec(),
            name: proof().name,
        },
        ToHost::Socket(SocketOrder::Meet {
            end: EndId::new(9, 0),
            pid: HomePid::of_home(7),
            fd: 4,
            meeting: Meeting::Dial {
                addr: "10.0.0.2:7718".into(),
                expect: "{}".into(),
            },
        }),
        ToHost::Socket(SocketOrder::Go {
            end: EndId::new(9, 0),
            window: 1 << 16,
            first: b"ab".to_vec(),
            theirs: 3,
            nonblocking: true,
        }),
        ToHost::Socket(SocketOrder::End {
            end: EndId::new(9, 1),
        }),
        ToHost::MountProved {
            mount: b"/data".to_vec(),
            name: proof().name,
        },
    ];
    let mut all = vec![seed("talk", "hello", tagged(0, &encode(&hello)))];
    let mut stream = Vec::new();
    for (i, m) in home.iter().enumerate() {
        all.push(seed("talk", &format!("home-{i}"), tagged(1, &encode(m))));
        stream.extend(frame(TALK, &encode(m)));
    }
    for (i, m) in host.iter().enumerate() {
        all.push(seed("talk", &format!("host-{i}"), tagged(2, &encode(m))));
        stream.extend(frame(TALK, &encode(m)));
    }
    all.push(seed("frames", "talk", stream));
    all
}

fn bulk() -> Vec<Seed> {
    let part = |at, len, holds| Part {
        at,
        len,
        holds,
        huge: false,
    };
    let parts = [
        part(0x40_0000, PAGE, Holds::Bytes),
        part(0x60_0000, 9 * PAGE, Holds::Zeros),
        part(
            0x50_0000,
            PAGE,
            Holds::Like {
                at: 0x40_0000,
                sum: 7,
            },
        ),
    ];
    let raw: Vec<u8> = (0..PAGE).map(|i| (i / 100) as u8).collect();
    let mut shrink = Shrink::default();
    let mut all = Vec::new();
    for (name, codec) in [("lz4", Codec::Lz4), ("zstd", Codec::Zstd)] {
        let mut body = Vec::new();
        head(&parts, (codec, raw.len()), &mut body);
        body.extend_from_slice(shrink.shrink(codec, &raw).expect("it repeats itself"));
        all.push(seed("pages", name, body));
    }
    let mut plain = plain_head(&[(0x40_0000, 8), (0x50_0000, 4)]);
    plain.extend_from_slice(b"pagebytes123");
    all.push(seed("pages", "plain", plain));
    all.push(seed("pages", "none", plain_head(&[])));
    all
}

fn areas() -> Vec<Area> {
    let area = |start: u64, pages: u64, prot, kind, flags| Area {
        start,
        end: start + pages * 4096,
        prot,
        kind,
        flags,
    };
    let file = Kind::File {
        key: key(),
        off: 4096,
        shared: false,
    };
    let object = ObjectId { dev: 1, ino: 9 };
    let shared = Kind::Shared { object, off: 0 };
    let none = Flags::default();
    vec![
        area(0x40_0000, 2, 5, file, none),
        area(0x60_0000, 16, 3, Kind::Anon, NO_RESERVE),
        area(0x7f00_0000_0000, 4, 1, shared, none),
        area(0x7ffc_0000_0000, 33, 3, Kind::Stack, GROWS),
    ]
}

fn image() -> Vec<Seed> {
    let mm = Mm {
        fields: [0x40_0000; 11],
        auxv: vec![0; 64],
        vdso: Some(Vdso {
            first: 0x7fff_0000_0000,
            code: 0x7fff_0000_4000,
            end: 0x7fff_0000_6000,
            digest: 5,
        }),
    };
    let head = Head {
        since: None,
        engine: ENGINE_VERSION,
        pid: HomePid::of_home(812),
        tids: vec![HomeTid::of_home(812), HomeTid::of_home(813)],
        command: "perl -e 1".into(),
        areas: areas(),
        brings: vec![ObjectId { dev: 1, ino: 9 }],
        persistent: vec![],
        mm: mm.clone(),
        need_kib: 4096,
        processor: Default::default(),
    };
    let accept = Accept {
        files: vec![key()],
        precopy: true,
        postcopy: true,
        vdso: true,
    };
    let like = Like {
        key: FileKey {
            size: 2 << 20,
            ..key()
        },
        path: "/usr/lib/x86_64-linux-gnu/libc.so.6".into(),
        digest: [7; 32],
    };
    let layout = Layout {
        areas: areas(),
        dropped: vec![(0x60_1000, 0x60_2000)],
        later: vec![(0x60_2000, 0x60_3000)],
    };
    let mut fewer = layout.clone();
    fewer.areas.remove(1);
    fewer.areas[0].prot = 1;
    let thread = ThreadState {
        tid: HomeTid::of_home(812),
        regs: (0..27).collect(),
        xstate: vec![1; 16],
        robust: (0x60_0000, 24),
        rseq: (0x60_0040, 32, 0x5305_3053),
        name: "perl".into(),
        until: Some(1 << 40),
        again: true,
        ..ThreadState::default()
    };
    let state = State {
        threads: vec![thread],
        actions: vec![[1, 0, 0, 0]; 64],
        mm,
        zeros: vec![(0x60_3000, 0x60_4000)],
        pending: vec![(Some(HomeTid::of_home(812)), Signal(vec![3; 128]))],
        overruns: vec![(1, 2)],
        itimers: Default::default(),
        signalfds: 0,
        limits: vec![(3, 1 << 20, 1 << 23)],
        persona: 0,
        membarrier: 1 << 4,
        names: Vec::new(),
        guards: vec![(0x7000_0000, 0x7000_1000)],
        cpu: Default::default(),
        vdso: vec![0x7f; 64],
    };
    let (was, is) = (encode(&fewer), encode(&layout));
    // Two halves of one input: the shorter is padded, which postcard ignores.
    let mut both = was;
    both.resize(is.len().max(both.len()), 0);
    both.extend(&is);
    vec![
        seed("image", "head", tagged(0, &encode(&head))),
        seed("image", "accept", tagged(1, &encode(&accept))),
        seed("image", "alike", tagged(4, &encode(&vec![like]))),
        seed("image", "layout", tagged(2, &encode(&layout))),
        seed("image", "state", tagged(3, &encode(&state))),
        seed("layout", "both", both),
    ]
}

/// Every shape of arguments in the table, once, pointing into the body's memory.
fn packs() -> Vec<Seed> {
    const ADDRESS: u64 = 1 << 62;
    let mut memory = Vec::new();
    // Words that are addresses, counts and text in turn: each shape reads valid data.
    for i in 0..12u64 {
        memory.extend((0x10_0000 + i * 24).to_le_bytes());
        memory.extend((1 + i).to_le_bytes());
        memory.extend(*b"/tmp/ab\0");
    }
    let one = |nr: u16, name: &str, args: [u64; 6]| {
        let mut bytes = nr.to_le_bytes().to_vec();
        bytes.extend(16i64.to_le_bytes());
        args.iter().for_each(|a| bytes.extend(a.to_le_bytes()));
        bytes.extend(&memory);
        ("pack", name.to_owned(), bytes)
    };
    let row = |r: &armento_abi::Row| {
        let args = std::array::from_fn(|i| match r.args.get(i) {
            Some(armento_abi::Arg::Val | armento_abi::Arg::Fd) | None => 2,
            Some(_) => ADDRESS + 24 * i as u64,
        });
        one(r.nr, r.name, args)
    };
    let mut seen = Vec::new();
    let mut fresh = |r: &&armento_abi::Row| {
        let new = !seen.contains(&r.args);
        seen.push(r.args);
        new
    };
    let mut all: Vec<Seed> = describe().filter(&mut fresh).map(row).collect();
    all.push(one(NR_LIMIT as u16, "no-such-call", [0; 6]));
    all
}

fn loads() -> Vec<Seed> {
    let name = |s: &str| -> NodeName { s.parse().expect("a name") };
    let mut v = Vector::new(name("n3"), 9);
    let mut mine = Entry::new(name("n3"), 9);
    (mine.load, mine.runnable, mine.cores) = (250, 3, 2);
    mine.version = "0.1.0".into();
    mine.cpu.vendor = "GenuineIntel".into();
    v.set_own(mine, Tick(1000));
    let full = v.message_for(&name("n2"), Tick(1200));
    let bytes = postcard::to_stdvec(&full).expect("plain data");
    vec![seed("gossip", "one", bytes), seed("gossip", "nothing", "")]
}

const SAFE: SafeWish = SafeWish {
    every_s: 30,
    exact: false,
    remote_s: Some(600),
};

fn control() -> Vec<Seed> {
    let name: NodeName = "n2".parse().expect("a name");
    let hello = KeeperHello {
        tree: TreeId(1),
        keeper: 9,
        root: 10,
        above: vec![1],
        uid: 1000,
        command: "make -j\u{7f}".into(),
        pinned: Some(name.clone()),
        stay: false,
        storm: false,
        common: Some(Default::default()),
        begins_here: true,
        hint: Some(Hint::Cpu),
        safe: Some(SAFE),
        safe_chosen: true,
        build: Default::default(),
    };
    let refusal = armento_client::api::Refusal {
        code: "no-such-node".into(),
        message: "n9".into(),
        hint: "armento nodes".into(),
    };
    let bodies = [
        Body::Ask(Ask::Nodes),
        Body::Ask(Ask::Checkpoint(CheckpointOrder {
            pids: vec![4711, 4712],
            file: "/home/u/model.ckpt".into(),
            overwrite: true,
            with_files: false,
        })),
        Body::Ask(Ask::Safe {
            pid: 4711,
            safe: Some(SAFE),
        }),
        Body::Order(Order::Safe {
            ticket: 7,
            safe: None,
            by_user: true,
        }),
        Body::Order(Order::BecomeProgram {
            path: "/usr/bin/armento".into(),
            dev: 259,
            ino: 4711,
        }),
        Body::Ask(Ask::Migrate {
            pid: 812,
            to: Dest::Node(name.clone()),
        }),
        Body::Ask(Ask::Keep(hello)),
        Body::Ok(Answer::Placed {
            node: Some(name.clone()),
        }),
        Body::Err(refusal),
        Body::Order(Order::Recall { ticket: 4 }),
        Body::Report(Report::Placed { pid: 812 }),
        Body::Ask(Ask::Act {
            secret: "5ec2e7".into(),
        }),
        Body::Ask(Ask::Do {
            home: name.clone(),
            action: Action::Renice { pid: 812, nice: 5 },
        }),
        Body::Ask(Ask::Invite { session_s: 3600 }),
        Body::Ask(Ask::KeepAway {
            at: Some(name.clone()),
            step: KeepStep::Part {
                offset: 0,
                data: "00ff".into(),
            },
        }),
        Body::Ask(Ask::Recover {
            id: "n1-0000000000000001".into(),
            recover: RecoverStep::Read { offset: 5 },
        }),
        Body::Ask(Ask::History {
            query: HistoryQuery::default(),
            farm: true,
        }),
    ];
    let mut all = Vec::new();
    for (i, body) in bodies.into_iter().enumerate() {
        let l = Line { v: 1, id: 7, body };
        let text = line(&l).expect("short");
        all.push(seed("control", &format!("line-{i}"), tagged(b'l', &text)));
    }
    let admit = AdmitAsk {
        tree: TreeId(1),
        pid: HomePid::of_home(5),
        uid: 1000,
        need_kib: 1 << 20,
        engine: ENGINE_VERSION,
    };
    let ask = Question {
        v: 1,
        ask: PeerAsk::Admit(admit),
    };
    let control = Question {
        v: 1,
        ask: PeerAsk::Control {
            secret: "5ec2e7".into(),
        },
    };
    let keep = Question {
        v: 1,
        ask: PeerAsk::Keep {
            tree: TreeId(1),
            uid: 1000,
            name: "u".into(),
            step: KeepStep::Begin {
                size: 9,
                sha256: "00".into(),
                command: "perl".into(),
                boot: "b".into(),
                dead_ms: 30_000,
            },
        },
    };
    let reply = Replied {
        v: 1,
        reply: Reply::Ok(PeerAnswer::Clock { realtime_ns: -5 }),
    };
    let up = HostUp {
        port: 4000,
        host: 9,
    };
    let text = |v: Result<Vec<u8>, _>| -> Vec<u8> {
        let v: Result<Vec<u8>, armento_client::LineError> = v;
        v.expect("short")
    };
    all.push(seed("control", "ask", tagged(b'q', &text(line(&ask)))));
    all.push(seed(
        "control",
        "remote",
        tagged(b'q', &text(line(&control))),
    ));
    all.push(seed("control", "keep", tagged(b'q', &text(line(&keep)))));
    all.push(seed("control", "reply", tagged(b'r', &text(line(&reply)))));
    all.push(seed("control", "up", tagged(b'u', &text(line(&up)))));
    let toml = "cname = \"n1\"\nlisten = \"0.0.0.0:7117\"\nfreeze_ms = 1000\ndead_ms = 3000\nsend_to = [\"n2\"]\n";
    all.push(seed("control", "config", toml));
    all
}

fn words() -> Vec<Seed> {
    let token = Token {
        ca_sha256: [0xab; 32],
        id: "0badcafe".into(),
        secret: "00112233445566778899aabbccddeeff".into(),
    };
    let badge = Badge {
        node: "n1".parse().expect("a name"),
        tree: Some((TreeId(0xab), 1000)),
        role: Role::Host,
    };
    let object = ObjectId { dev: 1, ino: 9 }.name();
    let maps = format!(
        "00400000-00401000 r-xp 00001000 fe:10 77                         /bin/a b (deleted)\n\
         7f0000000000-7f0000001000 rw-s 00000000 00:01 9 /memfd:{object} (deleted)\n\
         7f0000002000-7f0000003000 r--p 00000000 00:01 8 /memfd:{} (deleted)\n\
         7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n\
         7fff00000000-7fff00002000 r-xp 00000000 00:00 0                          [vdso]\n",
        memfd_name(&key(), false)
    );
    let smaps =
        "00400000-00401000 rw-p 00000000 00:00 0 \nSize: 4 kB\nVmFlags: rd wr mr mw me ac sl \n";
    let status = "Name:\tperl\nState:\tS (sleeping)\nTgid:\t812\nPPid:\t1\nTracerPid:\t0\nUid:\t0\t0\t0\t0\n\
        Threads:\t1\nNSpid:\t812\t7\nVmRSS:\t 100 kB\nSigBlk:\t0000000000000000\nSeccomp:\t0\n";
    vec![
        seed("names", "token", token.to_string()),
        seed("names", "badge", badge.dns_name()),
        seed("names", "node", "n1"),
        seed("names", "object", format!("/memfd:{object} (deleted)")),
        seed("names", "rate", "250mbit"),
        seed("proc", "maps", maps),
        seed("proc", "smaps", smaps),
        seed("proc", "status", status),
        seed("proc", "self", "/proc/self/task/7/maps"),
    ]
}

fn nfs() -> Vec<Seed> {
    let all = crate::nfs::seeds().into_iter();
    all.map(|(name, bytes)| ("nfs", name, bytes)).collect()
}

fn follow() -> Vec<Seed> {
    let all = crate::follow::seeds().into_iter();
    all.map(|(name, bytes)| ("follow", name, bytes)).collect()
}
