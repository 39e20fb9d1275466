//! Nodes that do not answer, servers that end, streams that break.

use crate::farm::proxy::Proxy;
use crate::farm::{Mounted, isolated, options};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn errno<T>(r: std::io::Result<T>) -> Option<i32> {
    r.err().and_then(|e| e.raw_os_error())
}

/// The deadline, and half as much again for a busy machine.
const BOUND: Duration = Duration::from_secs(10);

#[test]
fn unknown_nodes_are_no_names() {
    if !isolated("lost::unknown_nodes_are_no_names") {
        return;
    }
    let m = Mounted::new("unknown", options());
    assert_eq!(errno(fs::metadata(m.point.join("n9"))), Some(libc::ENOENT));
    assert_eq!(
        errno(fs::metadata(m.point.join("n2").join("none"))),
        Some(libc::ENOENT)
    );
    assert_eq!(errno(fs::write(m.point.join("x"), "x")), Some(libc::EROFS));
    assert_eq!(
        errno(fs::create_dir(m.point.join("n2").join("x"))),
        Some(libc::EROFS)
    );
}

#[test]
fn lost_node_is_an_error_in_bounded_time_and_comes_back() {
    if !isolated("lost::lost_node_is_an_error_in_bounded_time_and_comes_back") {
        return;
    }
    let m = Mounted::new("lost", options());
    fs::write(m.native("a"), "here").expect("written");
    assert_eq!(fs::read_to_string(m.far("a")).expect("read"), "here");
    let mut open = File::open(m.far("a")).expect("opened");
    m.farm.lose("n2", true);
    let began = Instant::now();
    assert_eq!(errno(fs::metadata(m.far("b"))), Some(libc::EHOSTUNREACH));
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    // It is known by now.
    let began = Instant::now();
    assert_eq!(errno(fs::write(m.far("b"), "x")), Some(libc::EHOSTUNREACH));
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert!(open.read(&mut [0; 1]).is_err() || open.stream_position().is_ok());
    m.farm.lose("n2", false);
    let began = Instant::now();
    while fs::metadata(m.far("a")).is_err() {
        assert!(began.elapsed() < BOUND, "it does not come back");
    }
    open.seek(SeekFrom::Start(0)).expect("sought");
    let mut text = String::new();
    open.read_to_string(&mut text).expect("read again");
    assert_eq!(text, "here");
}

#[test]
fn open_files_outlive_their_server() {
    if !isolated("lost::open_files_outlive_their_server") {
        return;
    }
    // A new server has to start within it, on a busy machine, too.
    let patient = armento_mfs::Options {
        deadline: Duration::from_secs(20),
        ..options()
    };
    let m = Mounted::new("outlive", patient);
    let kept = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(m.far("kept"))
        .expect("opened");
    kept.write_all_at(b"one", 0).expect("written");
    kept.sync_all().expect("on disk");
    let replaced = File::create(m.far("replaced")).expect("made");
    let gone = File::create(m.far("gone")).expect("made");
    fs::remove_file(m.far("gone")).expect("removed");
    fs::remove_file(m.native("replaced")).expect("removed");
    fs::write(m.native("replaced"), "another").expect("written");
    m.farm.kill_servers("n2");
    // What is still sent to the server that ended is lost with it: the next test's.
    m.await_disconnected();
    let mut text = [0; 3];
    kept.write_all_at(b"two", 3).expect("written again");
    kept.sync_all().expect("on disk");
    kept.read_exact_at(&mut text, 3).expect("read again");
    assert_eq!(&text, b"two");
    assert_eq!(fs::read(m.native("kept")).expect("read"), b"onetwo");
    assert_eq!(
        errno((&gone).write_all(b"x").and_then(|()| gone.sync_all())),
        Some(libc::ESTALE)
    );
    assert_eq!(
        errno(
            (&replaced)
                .write_all(b"x")
                .and_then(|()| replaced.sync_all())
        ),
        Some(libc::ESTALE)
    );
    assert_eq!(fs::read(m.native("replaced")).expect("read"), b"another");
}

#[test]
fn posted_writes_that_end_with_their_server_are_an_error() {
    if !isolated("lost::posted_writes_that_end_with_their_server_are_an_error") {
        return;
    }
    let patient = armento_mfs::Options {
        deadline: Duration::from_secs(20),
        ..options()
    };
    let m = Mounted::new("posted", patient);
    let f = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(m.far("f"))
        .expect("opened");
    f.write_all_at(b"one", 0).expect("written");
    f.sync_all().expect("on disk");
    // It takes nothing any more, and the mount does not know that yet.
    m.farm.stop("n2", true);
    f.write_all_at(b"two", 3).expect("posted");
    m.farm.kill_servers("n2");
    assert_eq!(errno(f.sync_all()), Some(libc::EIO), "the new server's");
    assert_eq!(fs::read(m.native("f")).expect("read"), b"one");
    // It was said once, and the file goes on.
    f.write_all_at(b"new", 3).expect("written again");
    f.sync_all().expect("on disk");
    assert_eq!(fs::read(m.native("f")).expect("read"), b"onenew");
}

#[test]
fn a_server_that_does_not_answer_holds_nobody() {
    if !isolated("lost::a_server_that_does_not_answer_holds_nobody") {
        return;
    }
    let m = Mounted::new("silent", options());
    fs::write(m.far("a"), "x").expect("written");
    m.farm.stop("n2", true);
    let began = Instant::now();
    let e = errno(fs::metadata(m.far("b")));
    assert!(matches!(e, Some(libc::EHOSTUNREACH)), "{e:?}");
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    m.farm.stop("n2", false);
    let began = Instant::now();
    while fs::metadata(m.far("a")).is_err() {
        assert!(began.elapsed() < BOUND, "it does not come back");
    }
}

#[test]
fn broken_streams_lose_nothing() {
    if !isolated("lost::broken_streams_lose_nothing") {
        return;
    }
    let m = Mounted::new("broken", options());
    let proxy = Proxy::start();
    *m.farm.via.lock().expect("no panic") = Some(proxy.addr.clone());
    fs::create_dir(m.far("d")).expect("made");
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        let cutter = s.spawn(|| {
            let mut cuts = 0;
            while !over.load(Ordering::Relaxed) {
                // Not a synchronisation: how long the streams live.
                std::thread::sleep(Duration::from_millis(60));
                cuts += proxy.cut();
            }
            cuts
        });
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(m.far("log"))
            .expect("opened");
        let mut unlinked = File::create(m.far("unlinked")).expect("made");
        fs::remove_file(m.far("unlinked")).expect("removed");
        for i in 0..400 {
            writeln!(&log, "{i}").expect("appended");
            writeln!(unlinked, "{i}").expect("written");
            let p = m.far(&format!("d/{i}"));
            fs::write(&p, i.to_string()).expect("written");
            fs::rename(&p, m.far(&format!("d/x{i}"))).expect("renamed once");
        }
        log.sync_all().expect("on disk");
        unlinked.sync_all().expect("on disk");
        over.store(true, Ordering::Relaxed);
        let cuts = cutter.join().expect("no panic");
        assert!(cuts > 2, "{cuts} cuts");
    });
    let want: String = (0..400).map(|i| format!("{i}\n")).collect();
    assert_eq!(
        fs::read_to_string(m.native("log")).expect("read"),
        want,
        "each line once"
    );
    for i in 0..400 {
        let p = m.native(&format!("d/x{i}"));
        assert_eq!(fs::read_to_string(p).expect("read"), i.to_string());
    }
    assert_eq!(fs::read_dir(m.native("d")).expect("listed").count(), 400);
}
