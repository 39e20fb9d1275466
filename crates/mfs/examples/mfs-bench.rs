//! The bars of MFS, in one run: `mfs-bench DIR` measures in DIR, natively and through a mount below it, beside TCP on
//! the loopback between two threads. Medians of interleaved rounds.

#[path = "../tests/mfs/farm/mod.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod farm;

use armento_mfs::Mount;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const FILES: usize = 2000;
const ROUNDS: usize = 5;
const BIG: usize = 512 << 20;

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

fn per_call(n: usize, mut f: impl FnMut(usize)) -> f64 {
    let began = Instant::now();
    (0..n).for_each(&mut f);
    began.elapsed().as_secs_f64() * 1e6 / n as f64
}

/// µs for 100 bytes there and back.
fn round_trip() -> f64 {
    let l = TcpListener::bind("127.0.0.1:0").expect("listen");
    let at = l.local_addr().expect("an address");
    let echo = std::thread::spawn(move || {
        let (mut s, _) = l.accept().expect("accepted");
        s.set_nodelay(true).expect("an option");
        let mut b = [0; 100];
        while s.read_exact(&mut b).is_ok() {
            s.write_all(&b).expect("sent");
        }
    });
    let mut s = TcpStream::connect(at).expect("connected");
    s.set_nodelay(true).expect("an option");
    let mut b = [0; 100];
    let us = per_call(10_000, |_| {
        s.write_all(&b).expect("sent");
        s.read_exact(&mut b).expect("received");
    });
    drop(s);
    echo.join().expect("no panic");
    us
}

/// MB/s of TCP from memory into a file.
fn tcp_to_file(path: &Path) -> f64 {
    let l = TcpListener::bind("127.0.0.1:0").expect("listen");
    let at = l.local_addr().expect("an address");
    let send = std::thread::spawn(move || {
        let mut s = TcpStream::connect(at).expect("connected");
        let b = vec![7; 1 << 20];
        for _ in 0..BIG >> 20 {
            s.write_all(&b).expect("sent");
        }
    });
    let (mut s, _) = l.accept().expect("accepted");
    let mut f = File::create(path).expect("made");
    let mut b = vec![0; 1 << 20];
    let began = Instant::now();
    loop {
        match s.read(&mut b).expect("received") {
            0 => break,
            n => f.write_all(&b[..n]).expect("written"),
        }
    }
    let speed = BIG as f64 / 1e6 / began.elapsed().as_secs_f64();
    send.join().expect("no panic");
    speed
}

fn write_big(path: &Path) -> f64 {
    let b = vec![7; 1 << 20];
    let began = Instant::now();
    let mut f = File::create(path).expect("made");
    for _ in 0..BIG >> 20 {
        f.write_all(&b).expect("written");
    }
    drop(f);
    BIG as f64 / 1e6 / began.elapsed().as_secs_f64()
}

fn read_big(path: &Path) -> f64 {
    let mut b = vec![0; 1 << 20];
    let began = Instant::now();
    let mut f = File::open(path).expect("opened");
    while f.read(&mut b).expect("read") > 0 {}
    BIG as f64 / 1e6 / began.elapsed().as_secs_f64()
}

#[derive(Default)]
struct Figures(Vec<(&'static str, Vec<f64>)>);

impl Figures {
    fn add(&mut self, what: &'static str, v: f64) {
        match self.0.iter_mut().find(|(w, _)| *w == what) {
            Some((_, all)) => all.push(v),
            None => self.0.push((what, vec![v])),
        }
    }
}

fn round(native: &Path, far: &Path, f: &mut Figures, i: usize) {
    f.add("TCP round trip, us", round_trip());
    let dir = format!("d{i}");
    fs::create_dir(native.join(&dir)).expect("made");
    let name = |k: usize| format!("{dir}/{k}");
    for k in 0..FILES {
        fs::write(native.join(name(k)), [1; 4096]).expect("written");
    }
    let _ = fs::metadata(far.join(&dir));
    let stat = |p: PathBuf| {
        fs::metadata(p).expect("stat");
    };
    f.add("stat, us", per_call(FILES, |k| stat(far.join(name(k)))));
    f.add(
        "stat again, us",
        per_call(FILES, |k| stat(far.join(name(k)))),
    );
    f.add(
        "stat native, us",
        per_call(FILES, |k| stat(native.join(name(k)))),
    );
    let open = |p: PathBuf| drop(File::open(p).expect("opened"));
    f.add(
        "open+close, us",
        per_call(FILES, |k| open(far.join(name(k)))),
    );
    let direct = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(far.join("big"))
        .expect("opened");
    let mut page = Aligned([0; 4096]);
    f.add(
        "read 4 KiB, us",
        per_call(FILES, |k| {
            direct
                .read_exact_at(&mut page.0, (k * 7919 % 10_000 * 4096) as u64)
                .expect("read");
        }),
    );
    let (a, b) = (
        File::open(far.join("small")).expect("opened"),
        File::open(native.join("small")).expect("opened"),
    );
    a.read_exact_at(&mut page.0, 0).expect("read");
    f.add(
        "cached read 4 KiB, us",
        per_call(FILES * 5, |_| {
            a.read_exact_at(&mut page.0, 0).expect("read")
        }),
    );
    f.add(
        "native read 4 KiB, us",
        per_call(FILES * 5, |_| {
            b.read_exact_at(&mut page.0, 0).expect("read")
        }),
    );
    f.add("TCP into a file, MB/s", tcp_to_file(&native.join("tcp")));
    f.add("write, MB/s", write_big(&far.join("w")));
    // Other pages than those that the write left: the file is made natively.
    write_big(&native.join(format!("r{i}")));
    // A file that was just changed is not kept.
    std::thread::sleep(Duration::from_millis(50));
    f.add("read, MB/s", read_big(&far.join(format!("r{i}"))));
    f.add("read again, MB/s", read_big(&far.join(format!("r{i}"))));
    f.add("read native, MB/s", read_big(&native.join(format!("r{i}"))));
    for x in ["tcp", "w", &format!("r{i}")] {
        fs::remove_file(native.join(x)).expect("removed");
    }
}

#[repr(align(4096))]
struct Aligned([u8; 4096]);

fn main() {
    farm::serve_if_asked();
    let Some(dir) = std::env::args().nth(1).map(PathBuf::from) else {
        eprintln!("usage: mfs-bench DIR");
        std::process::exit(2);
    };
    let (native, point) = (dir.join("data"), dir.join("mfs"));
    fs::create_dir_all(&native).expect("made");
    fs::create_dir_all(&point).expect("made");
    let farm = farm::Loop::new(&[("n1", "/"), ("n2", "/")], &[]);
    let options = armento_mfs::Options {
        deadline: Duration::from_secs(10),
        cache: true,
    };
    let mount = Mount::start(&point, farm, options).expect("mounted");
    let far = point
        .join("n2")
        .join(native.strip_prefix("/").expect("an absolute path"));
    fs::write(native.join("big"), vec![3; 64 << 20]).expect("written");
    fs::write(native.join("small"), [3; 8192]).expect("written");
    let mut f = Figures::default();
    for i in 0..ROUNDS {
        round(&native, &far, &mut f, i);
    }
    for (what, v) in f.0 {
        println!("{what:24} {:9.1}   {v:.1?}", median(v.clone()));
    }
    println!("{:?}", mount.stats());
    mount.unmount().expect("unmounted");
    fs::remove_dir_all(&dir).expect("removed");
}
