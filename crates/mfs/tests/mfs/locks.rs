//! Locks between mounts and a node's own processes, and what others change.

use crate::farm::{Mounted, isolated, options};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BOUND: Duration = Duration::from_secs(10);

/// A process that takes a lock with this script, says `got`, and holds it until its input ends.
fn holder(script: &str, file: &Path) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut c = Command::new("python3")
        .arg("-c")
        .arg(format!("import fcntl,sys,os\nf=open(sys.argv[1],'r+b')\n{script}\nprint('got',flush=True)\nsys.stdin.read()\n"))
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("python3");
    let out = BufReader::new(c.stdout.take().expect("output"));
    (c, out)
}

fn wait_got(out: &mut BufReader<std::process::ChildStdout>) {
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "got\n");
}

/// Whether a lock is refused at once.
fn refused(script: &str, file: &Path) -> bool {
    let out = Command::new("python3")
        .arg("-c")
        .arg(format!("import fcntl,sys\nf=open(sys.argv[1],'r+b')\ntry:\n {script}\nexcept OSError as e:\n print(e.errno)\n"))
        .arg(file)
        .output()
        .expect("python3");
    String::from_utf8_lossy(&out.stdout).trim() == libc::EAGAIN.to_string()
}

const RANGE: &str = "fcntl.lockf(f,fcntl.LOCK_EX,10,5)";
const RANGE_NOW: &str = "fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB,10,5)";
const OTHER_RANGE_NOW: &str = "fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB,10,15)";
const SHARED_NOW: &str = "fcntl.lockf(f,fcntl.LOCK_SH|fcntl.LOCK_NB,1,14)";
const WHOLE: &str = "fcntl.flock(f,fcntl.LOCK_EX)";
const WHOLE_NOW: &str = "fcntl.flock(f,fcntl.LOCK_EX|fcntl.LOCK_NB)";

#[test]
fn locks_hold_between_the_mount_and_the_node() {
    if !isolated("locks::locks_hold_between_the_mount_and_the_node") {
        return;
    }
    let m = Mounted::new("locks", options());
    fs::write(m.native("f"), "x").expect("written");
    let (native, far) = (m.native("f"), m.far("f"));
    for (a, b) in [(&native, &far), (&far, &native), (&far, &far)] {
        let (mut c, mut out) = holder(RANGE, a);
        wait_got(&mut out);
        assert!(refused(RANGE_NOW, b) && refused(SHARED_NOW, b));
        assert!(!refused(OTHER_RANGE_NOW, b), "another range");
        assert!(!refused(WHOLE_NOW, b), "locks of both kinds are apart");
        drop(c.stdin.take());
        c.wait().expect("ended");
        assert!(!refused(RANGE_NOW, b), "it ended with the process");
        let (mut c, mut out) = holder(WHOLE, a);
        wait_got(&mut out);
        assert!(refused(WHOLE_NOW, b));
        assert!(!refused(RANGE_NOW, b));
        drop(c.stdin.take());
        c.wait().expect("ended");
        assert!(!refused(WHOLE_NOW, b));
    }
}

#[test]
fn who_waits_for_a_lock_gets_it_or_can_be_killed() {
    if !isolated("locks::who_waits_for_a_lock_gets_it_or_can_be_killed") {
        return;
    }
    let m = Mounted::new("waits", options());
    fs::write(m.native("f"), "x").expect("written");
    for script in [RANGE, WHOLE] {
        let (mut first, mut out) = holder(script, &m.native("f"));
        wait_got(&mut out);
        let (mut killed, _out) = holder(script, &m.far("f"));
        let (mut second, mut second_out) = holder(script, &m.far("f"));
        // Not a synchronisation: both should be waiting, and need not.
        std::thread::sleep(Duration::from_millis(300));
        let began = Instant::now();
        killed.kill().expect("a signal");
        killed.wait().expect("it ended");
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "a killed process waits on"
        );
        drop(first.stdin.take());
        first.wait().expect("ended");
        wait_got(&mut second_out);
        assert!(refused(
            if script == RANGE {
                RANGE_NOW
            } else {
                WHOLE_NOW
            },
            &m.native("f")
        ));
        drop(second.stdin.take());
        second.wait().expect("ended");
    }
}

fn until(what: &str, mut f: impl FnMut() -> bool) {
    let began = Instant::now();
    while !f() {
        assert!(began.elapsed() < BOUND, "{what}");
    }
}

#[test]
fn changes_on_the_node_are_seen() {
    if !isolated("locks::changes_on_the_node_are_seen") {
        return;
    }
    let m = Mounted::new("changes", options());
    fs::create_dir(m.native("d")).expect("made");
    for i in 0..200 {
        let (native, far) = (m.native(&format!("d/{i}")), m.far(&format!("d/{i}")));
        assert!(!far.exists(), "a name that is kept as absent");
        fs::write(&native, "one").expect("written");
        until("a new name", || far.exists());
        assert_eq!(fs::read_to_string(&far).expect("read"), "one");
        fs::write(&native, "three").expect("written");
        until("a new size", || {
            fs::metadata(&far).expect("stat").len() == 5
        });
        assert_eq!(
            fs::read_to_string(&far).expect("read"),
            "three",
            "close to open"
        );
        fs::rename(&native, m.native("d/other")).expect("renamed");
        until("a name that is gone", || !far.exists());
    }
    assert!(m.mount.as_ref().expect("mounted").stats().nodes[0].invalidations > 0);
}

#[test]
fn kept_attributes_need_no_call() {
    if !isolated("locks::kept_attributes_need_no_call") {
        return;
    }
    let m = Mounted::new("kept", options());
    fs::write(m.native("f"), "x").expect("written");
    let far = m.far("f");
    // The directories on the way are watched by the second time.
    for _ in 0..3 {
        fs::metadata(&far).expect("stat");
    }
    // Events of the file's making may be on their way.
    std::thread::sleep(Duration::from_millis(100));
    fs::metadata(&far).expect("stat");
    let calls = || m.mount.as_ref().expect("mounted").stats().nodes[0].calls;
    let before = calls();
    for _ in 0..1000 {
        fs::metadata(&far).expect("stat");
    }
    assert!(calls() - before < 10, "{} calls", calls() - before);
}

#[test]
fn disk_full_is_said_at_the_latest_at_close() {
    if !isolated("locks::disk_full_is_said_at_the_latest_at_close") {
        return;
    }
    let m = Mounted::new("full", options());
    let small = m.native("small");
    fs::create_dir(&small).expect("made");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4m", "small"])
        .arg(&small)
        .status();
    if !mounted.is_ok_and(|s| s.success()) {
        println!("skipped: no tmpfs can be mounted");
        return;
    }
    // The servers have the mount, too: they start when they are asked, in this namespace.
    let mut f = File::create(m.far("small/f")).expect("made");
    let mut end = Ok(());
    for _ in 0..100 {
        end = f.write_all(&[1; 100_000]);
        if end.is_err() {
            break;
        }
    }
    let e = end
        .or_else(|_| f.sync_all())
        .err()
        .and_then(|e| e.raw_os_error());
    let e = e.or_else(|| {
        f.write_all(&[1; 100_000])
            .err()
            .and_then(|e| e.raw_os_error())
    });
    assert_eq!(e, Some(libc::ENOSPC));
    drop(f);
    fs::remove_file(m.far("small/f")).expect("removed");
    let dd = Command::new("dd")
        .args(["if=/dev/zero", "bs=64k", "count=100", "status=none"])
        .arg(format!("of={}", m.far("small/g").display()))
        .output()
        .expect("dd");
    let said = String::from_utf8_lossy(&dd.stderr).into_owned();
    assert!(
        !dd.status.success() && said.contains("No space left"),
        "{said}"
    );
    let _ = Command::new("umount").arg("-l").arg(&small).status();
}

#[test]
fn bytes_beyond_four_gib_and_of_many_writers() {
    if !isolated("locks::bytes_beyond_four_gib_and_of_many_writers") {
        return;
    }
    let m = Mounted::new("large", options());
    use std::os::unix::fs::FileExt;
    let f = OpenOptions::new()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(m.far("f"))
        .expect("made");
    let far = (4u64 << 30) + 12345;
    f.write_all_at(b"beyond", far).expect("written");
    drop(f);
    let n = File::open(m.native("f")).expect("opened");
    let mut b = [0; 6];
    n.read_exact_at(&mut b, far).expect("read");
    assert_eq!(
        (&b, n.metadata().expect("stat").len()),
        (b"beyond", far + 6)
    );
}
