//! A call made directly and the same call made through the table must have equal results: this process acts as the
//! body, and its own kernel as home.

use armento_abi::{pack, unpack};

use crate::sys::{Mapping, Own, syscall};

const SIZE: usize = 64 << 10;

/// Makes a call as a deputy would, in a data area of its own.
fn forwarded(nr: u64, args: &[u64; 6]) -> i64 {
    let plan = pack(nr, args, &mut Own, SIZE).expect("packs");
    plan.packed.check(SIZE).expect("holds together");
    let mut area = Mapping::new(SIZE);
    area.bytes().fill(0xdd);
    let base = area.addr();
    plan.packed.copy_to(base, area.bytes());
    let ret = syscall(nr, plan.packed.args_at(base));
    let mut reply = Vec::new();
    plan.packed.collect(ret, area.bytes(), &mut reply);
    unpack(&plan, ret, &reply, &mut Own)
}

/// The memory before a call: bytes at offsets.
type Layout<'a> = &'a [(usize, Vec<u8>)];

/// Arguments are numbers, offsets into the memory, or the unreadable page after it.
#[derive(Clone, Copy, Debug)]
enum A {
    N(i64),
    At(usize),
    Hole,
}

fn resolve(memory: &Mapping, args: &[A]) -> [u64; 6] {
    let mut all = [0; 6];
    for (to, arg) in all.iter_mut().zip(args) {
        *to = match *arg {
            A::N(n) => n as u64,
            A::At(off) => memory.addr() + off as u64,
            A::Hole => memory.hole(),
        };
    }
    all
}

/// Makes the call both ways on equal memory; both results and memories must be equal. `again` restores what the call
/// consumed.
fn check(nr: libc::c_long, args: &[A], layout: Layout, again: &mut dyn FnMut()) -> i64 {
    let mut run = |through: &dyn Fn(u64, &[u64; 6]) -> i64| {
        again();
        let mut memory = Mapping::new(8192);
        memory.bytes().fill(0xee);
        for (at, bytes) in layout {
            memory.put(*at, bytes);
        }
        let ret = through(nr as u64, &resolve(&memory, args));
        (ret, memory.bytes().to_vec())
    };
    let straight = run(&|nr, args| syscall(nr, *args));
    let packed = run(&forwarded);
    assert_eq!(packed.0, straight.0, "call {nr} with {args:?}");
    let differs = packed.1.iter().zip(&straight.1).position(|(a, b)| a != b);
    assert_eq!(differs, None, "call {nr} with {args:?} at this offset");
    straight.0
}

fn text(at: usize, s: &str) -> (usize, Vec<u8>) {
    (at, [s.as_bytes(), b"\0"].concat())
}

fn words(at: usize, words: &[u64]) -> (usize, Vec<u8>) {
    (at, words.iter().flat_map(|w| w.to_le_bytes()).collect())
}

/// A file of ten bytes, removed on drop.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("armento-abi-{}-{name}", std::process::id()));
        std::fs::write(&path, b"0123456789").expect("writes");
        Scratch(path)
    }

    fn text(&self, at: usize) -> (usize, Vec<u8>) {
        text(at, self.0.to_str().expect("utf-8"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The file may be gone already.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn nothing() {}

#[test]
fn file_calls_match_native() {
    use A::{At, Hole, N};
    let scratch = Scratch::new("files");
    let path = [scratch.text(0)];
    let dir = -100;
    let same = |nr, args: &[A]| check(nr, args, &path, &mut nothing);
    assert_eq!(same(libc::SYS_stat, &[At(0), At(4096)]), 0);
    assert_eq!(same(libc::SYS_stat, &[At(0), Hole]), -14);
    assert_eq!(same(libc::SYS_stat, &[Hole, At(4096)]), -14);
    assert_eq!(same(libc::SYS_stat, &[N(0), At(4096)]), -14);
    assert_eq!(same(libc::SYS_stat, &[At(100), At(4096)]), -36); // no NUL: ENAMETOOLONG
    assert_eq!(
        same(libc::SYS_newfstatat, &[N(dir), At(0), At(8192 - 144), N(0)]),
        0
    );
    assert_eq!(
        same(libc::SYS_newfstatat, &[N(dir), At(0), At(8192 - 143), N(0)]),
        -14
    );
    assert_eq!(
        same(libc::SYS_statx, &[N(dir), At(0), N(0), N(0x7ff), At(4096)]),
        0
    );
    assert_eq!(same(libc::SYS_access, &[At(0), N(4)]), 0);
    assert_eq!(same(libc::SYS_readlink, &[At(0), At(4096), N(100)]), -22);
    assert!(same(libc::SYS_getcwd, &[At(4096), N(4096)]) > 0);
    assert_eq!(same(libc::SYS_getcwd, &[At(4096), N(1)]), -34);
    assert_eq!(same(libc::SYS_utimensat, &[N(dir), Hole, N(0), N(0)]), -14);
    assert_eq!(same(libc::SYS_write, &[N(-1), Hole, N(5)]), -9);
    assert_eq!(same(libc::SYS_uname, &[At(0)]), 0);
    assert_eq!(same(libc::SYS_uname, &[Hole]), -14);
    let link = [text(0, "/proc/self/exe")];
    let ret = check(
        libc::SYS_readlink,
        &[At(0), At(100), N(4096)],
        &link,
        &mut nothing,
    );
    assert!(ret > 0);
}

#[test]
fn reads_and_writes_match_native() {
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;

    use A::{At, Hole, N};
    let scratch = Scratch::new("io");
    let open = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&scratch.0);
    let mut file = open.expect("opens");
    let fd = N(file.as_raw_fd().into());
    let iov = |memory: &[(u64, u64)]| -> Vec<u64> {
        memory.iter().flat_map(|&(base, len)| [base, len]).collect()
    };
    let mut again = || {
        file.set_len(0).expect("truncates");
        file.seek(SeekFrom::Start(0)).expect("seeks");
        file.write_all(b"0123456789").expect("writes");
        file.seek(SeekFrom::Start(2)).expect("seeks");
    };
    let mut same = |nr, args: &[A], layout: Layout| check(nr, args, layout, &mut again);
    assert_eq!(same(libc::SYS_read, &[fd, At(5), N(100)], &[]), 8);
    assert_eq!(same(libc::SYS_read, &[fd, At(5), N(3)], &[]), 3);
    assert_eq!(same(libc::SYS_read, &[fd, At(5), N(0)], &[]), 0);
    assert_eq!(same(libc::SYS_read, &[fd, Hole, N(0)], &[]), 0);
    assert_eq!(same(libc::SYS_read, &[fd, Hole, N(3)], &[]), -14);
    assert_eq!(same(libc::SYS_read, &[fd, At(8190), N(5)], &[]), 2);
    assert_eq!(same(libc::SYS_read, &[fd, N(0), N(3)], &[]), -14);
    assert_eq!(same(libc::SYS_read, &[fd, At(0), N(-1)], &[]), -14);
    assert_eq!(same(libc::SYS_pread64, &[fd, At(5), N(100), N(4)], &[]), 6);
    assert_eq!(
        same(libc::SYS_pread64, &[fd, At(5), N(100), N(-1)], &[]),
        -22
    );
    assert_eq!(same(libc::SYS_write, &[fd, At(5), N(100)], &[]), 100);
    assert_eq!(same(libc::SYS_write, &[fd, At(8190), N(100)], &[]), 2);
    assert_eq!(same(libc::SYS_write, &[fd, Hole, N(100)], &[]), -14);
    assert_eq!(same(libc::SYS_write, &[fd, Hole, N(0)], &[]), 0);
    assert_eq!(same(libc::SYS_writev, &[fd, N(0), N(0)], &[]), 0);
    assert_eq!(same(libc::SYS_writev, &[fd, Hole, N(2)], &[]), -14);
    assert_eq!(same(libc::SYS_writev, &[fd, At(0), N(1025)], &[]), -22);
    let negative = [words(0, &iov(&[(0, u64::MAX)]))];
    assert_eq!(same(libc::SYS_readv, &[fd, At(0), N(1)], &negative), -22);
    let offset = [words(0, &[3])];
    let copied = same(
        libc::SYS_copy_file_range,
        &[fd, At(0), fd, At(8), N(2), N(0)],
        &offset,
    );
    assert!(copied < 0); // the second offset is beyond any file
    assert!(same(libc::SYS_lseek, &[fd, N(0), N(1)], &[]) == 2);
    let lock = [(0, vec![0; 32])];
    assert_eq!(same(libc::SYS_fcntl, &[fd, N(5), At(0)], &lock), 0);
    assert_eq!(same(libc::SYS_fcntl, &[fd, N(5), Hole], &lock), -14);
    assert_eq!(same(libc::SYS_ioctl, &[fd, N(0x5401), At(0)], &[]), -25);
    assert_eq!(same(libc::SYS_ioctl, &[fd, N(0x541b), At(0)], &[]), 0);
    assert_eq!(same(libc::SYS_ioctl, &[fd, N(2), At(0)], &[]), 0); // FIGETBSZ
}

#[test]
fn scattered_reads_match_native() {
    use std::os::fd::AsRawFd;
    let scratch = Scratch::new("scatter");
    let file = std::fs::File::open(&scratch.0).expect("opens");
    let mut memory = Mapping::new(4096);
    let (at, hole) = (memory.addr(), memory.hole());
    let check = |memory: &mut Mapping, segments: &[u64], want: i64| {
        let count = segments.len() as u64 / 2;
        let mut seen = Vec::new();
        for through in [syscall as fn(u64, [u64; 6]) -> i64, |nr, args| {
            forwarded(nr, &args)
        }] {
            memory.bytes().fill(0xee);
            let (_, bytes) = words(0, segments);
            let iov = memory.put(0, &bytes);
            let args = [file.as_raw_fd() as u64, iov, count, 0, 0, 0];
            let ret = through(libc::SYS_preadv as u64, args);
            assert_eq!(ret, want, "{segments:x?}");
            seen.push(memory.bytes().to_vec());
        }
        assert_eq!(seen[0], seen[1]);
    };
    check(&mut memory, &[at + 100, 3, at + 200, 0, at + 300, 4], 7);
    check(&mut memory, &[at + 100, 3, at + 300, 400], 10);
    check(&mut memory, &[at + 100, 3, 0, 4], 3);
    check(&mut memory, &[0, 4, at + 100, 3], -14);
    check(&mut memory, &[at + 100, 3, hole, 4], 3);
    check(&mut memory, &[hole, 4], -14);
    check(&mut memory, &[hole - 2, 4], 2);
}

#[test]
fn waiting_calls_match_native() {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use A::{At, Hole, N};
    let (mut near, far) = UnixStream::pair().expect("a pair");
    near.write_all(b"x").expect("writes");
    let raw = far.as_raw_fd();
    let n = N(i64::from(raw) + 1);
    let set = [words(0, &[1 << raw, 7, 7]), words(64, &[1, 0])];
    let same = |nr, args: &[A], layout: Layout| check(nr, args, layout, &mut nothing);
    assert_eq!(
        same(libc::SYS_select, &[n, At(0), N(0), N(0), N(0)], &set),
        1
    );
    assert_eq!(
        same(libc::SYS_select, &[n, Hole, N(0), N(0), N(0)], &set),
        -14
    );
    assert_eq!(
        same(libc::SYS_select, &[N(-1), At(0), N(0), N(0), N(0)], &set),
        -22
    );
    assert_eq!(
        same(libc::SYS_select, &[n, At(0), N(0), N(0), Hole], &set),
        -14
    );
    let many = N(1 << 20);
    let zero = [words(0, &[0, 0])];
    assert_eq!(
        same(libc::SYS_select, &[many, N(0), N(0), N(0), At(0)], &zero),
        0
    );
    assert_eq!(
        same(
            libc::SYS_pselect6,
            &[n, N(0), N(0), N(0), At(0), N(0)],
            &zero
        ),
        0
    );
    let poll = [words(0, &[raw as u64 | 1 << 32]), words(64, &[1, 0])];
    assert_eq!(same(libc::SYS_poll, &[At(0), N(1), N(0)], &poll), 1);
    assert_eq!(same(libc::SYS_poll, &[Hole, N(1), N(0)], &poll), -14);
    assert_eq!(
        same(libc::SYS_ppoll, &[At(0), N(1), N(0), N(0), N(8)], &poll),
        1
    );
    let short = [words(0, &[0, 1000])];
    assert_eq!(same(libc::SYS_nanosleep, &[At(0), N(0)], &short), 0);
    assert_eq!(same(libc::SYS_nanosleep, &[At(0), At(0)], &short), 0);
    assert_eq!(same(libc::SYS_nanosleep, &[Hole, N(0)], &short), -14);
    let wrong = [words(0, &[0, 1_000_000_000])];
    assert_eq!(same(libc::SYS_nanosleep, &[At(0), N(0)], &wrong), -22);
    assert_eq!(
        same(
            libc::SYS_clock_nanosleep,
            &[N(1), N(0), At(0), N(0)],
            &short
        ),
        0
    );
    assert_eq!(
        same(libc::SYS_wait4, &[N(-1), At(0), N(1), At(8)], &[]),
        -10
    );
    let children = [N(0), N(0), At(0), N(5), At(64)];
    assert_eq!(same(libc::SYS_waitid, &children, &[]), -10);
}

#[test]
fn socket_calls_match_native() {
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsRawFd;

    use A::{At, Hole, N};
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let fd = N(listener.as_raw_fd().into());
    let len = |n: u32| [(0, n.to_le_bytes().to_vec())];
    let same = |nr, args: &[A], layout: Layout| check(nr, args, layout, &mut nothing);
    for room in [0, 2, 8, 16, 128, 4000] {
        assert_eq!(
            same(libc::SYS_getsockname, &[fd, At(64), At(0)], &len(room)),
            0
        );
    }
    assert_eq!(
        same(libc::SYS_getsockname, &[fd, At(64), At(0)], &len(u32::MAX)),
        -22
    );
    assert_eq!(
        same(libc::SYS_getsockname, &[fd, Hole, At(0)], &len(16)),
        -14
    );
    assert_eq!(
        same(libc::SYS_getsockname, &[fd, At(64), Hole], &len(16)),
        -14
    );
    assert_eq!(
        same(libc::SYS_getsockname, &[fd, At(64), N(0)], &len(16)),
        -14
    );
    assert_eq!(
        same(libc::SYS_getpeername, &[fd, At(64), At(0)], &len(16)),
        -107
    );
    let option = |option| [fd, N(1), N(option), At(64), At(0)];
    for room in [0, 2, 4, 60] {
        assert_eq!(same(libc::SYS_getsockopt, &option(3), &len(room)), 0);
    }
    assert_eq!(same(libc::SYS_getsockopt, &option(9999), &len(4)), -92);
    let set = [(0, 1u32.to_le_bytes().to_vec())];
    assert_eq!(
        same(libc::SYS_setsockopt, &[fd, N(1), N(2), At(0), N(4)], &set),
        0
    );
    assert_eq!(
        same(libc::SYS_setsockopt, &[fd, N(1), N(2), Hole, N(4)], &set),
        -14
    );
    assert_eq!(
        same(libc::SYS_setsockopt, &[fd, N(1), N(2), At(0), N(-1)], &set),
        -22
    );
    assert_eq!(same(libc::SYS_connect, &[fd, At(0), N(129)], &set), -22);
    assert_eq!(same(libc::SYS_accept, &[N(-1), N(0), N(0)], &[]), -9);

    let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
    let own = socket.local_addr().expect("bound");
    let fd = N(socket.as_raw_fd().into());
    let mut again = || {
        socket.send_to(b"datagram", own).expect("sends");
    };
    let mut same = |args: &[A], layout: Layout| check(libc::SYS_recvfrom, args, layout, &mut again);
    assert_eq!(
        same(&[fd, At(64), N(100), N(0), At(32), At(0)], &len(16)),
        8
    );
    assert_eq!(same(&[fd, At(64), N(3), N(0), At(32), At(0)], &len(6)), 3);
    assert_eq!(same(&[fd, At(64), N(3), N(0x20), N(0), N(0)], &[]), 8); // MSG_TRUNC
}

#[test]
fn message_calls_match_native() {
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
    let own = socket.local_addr().expect("bound");
    let fd = socket.as_raw_fd() as u64;
    let mut memory = Mapping::new(8192);
    let at = memory.addr();
    let mut seen = Vec::new();
    for through in [syscall as fn(u64, [u64; 6]) -> i64, |nr, args| {
        forwarded(nr, &args)
    }] {
        memory.bytes().fill(0xee);
        memory.put(256, &words(0, &[at + 512, 3, at + 600, 100]).1);
        memory.put(288, &words(0, &[at + 800, 4]).1);
        for (i, iov, count) in [(0, 256, 2), (1, 288, 1)] {
            let hdr = [at + 400 + i * 30, 30, at + iov, count, at + 900, 64, 0, 0];
            memory.put(64 * i as usize, &words(0, &hdr).1);
        }
        socket.send_to(b"0123456789", own).expect("sends");
        socket.send_to(b"abc", own).expect("sends");
        let ret = through(libc::SYS_recvmmsg as u64, [fd, at, 2, 0, 0, 0]);
        assert_eq!(ret, 2);
        socket.send_to(b"again", own).expect("sends");
        let one = through(libc::SYS_recvmsg as u64, [fd, at, 0, 0, 0, 0]);
        assert_eq!(one, 5);
        seen.push(memory.bytes().to_vec());
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(&seen[0][512..516], b"aga\xee");
}
