//! A thread without rights gets leases on root's file through a lease holder; writers do not wait for it.

use armento_leases::{Holder, Leased, breaks, find_by, serve, settle, socket, wanted};
use rustix::fs::Uid;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

const NOBODY: u32 = 65534;
/// KERNEL: /proc/sys/fs/lease-break-time is 45 s: a writer that waits for a client would wait so long.
const SOON: Duration = Duration::from_secs(20);

struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open_descriptors(of: &File) -> usize {
    let id = |m: std::fs::Metadata| (m.dev(), m.ino());
    let wanted = id(of.metadata().expect("metadata"));
    let all = std::fs::read_dir("/proc/self/fd").expect("fds").flatten();
    all.filter(|e| std::fs::metadata(e.path()).is_ok_and(|m| id(m) == wanted))
        .count()
}

/// Takes a lease once the holder is there.
fn leased(file: &File) -> Leased {
    let until = Instant::now() + SOON;
    loop {
        if let Some(l) = Leased::take(file.try_clone().expect("duplicated")) {
            return l;
        }
        assert!(Instant::now() < until, "no lease");
        thread::sleep(Duration::from_millis(5));
    }
}

fn write(path: &Path) {
    let path = path.to_owned();
    let (done, is_done) = channel();
    thread::spawn(move || done.send(OpenOptions::new().write(true).open(path).is_ok()));
    assert_eq!(is_done.recv_timeout(SOON), Ok(true), "the writer waits");
}

#[test]
fn a_holder_takes_leases_and_ends_them_for_writers() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be a lease holder");
        return;
    }
    let dir = std::env::temp_dir().join(format!("armento-holder-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("made");
    let dir = Dir(dir);
    std::fs::set_permissions(&dir.0, PermissionsExt::from_mode(0o755)).expect("chmod");
    let (file, at) = (dir.0.join("root-s"), dir.0.join("socket"));
    std::fs::write(&file, "x").expect("written");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).expect("chmod");

    let listener = socket::listen(&at, NOBODY).expect("a socket");
    thread::spawn(|| serve(listener, Duration::from_secs(600)));
    let (told, heard) = channel();
    find_by(move || {
        let (at, told) = (at.clone(), told.clone());
        thread::spawn(move || {
            let holder = Holder::reach(&at).expect("a holder");
            holder.watch(|| {
                let _ = told.send(());
            });
        });
    });
    let path = file.clone();
    let (write_now, asked) = channel();
    let (written, is_written) = channel();
    let client = thread::spawn(move || {
        client(&path, &heard, &|| {
            write_now.send(()).expect("a writer");
            is_written.recv().expect("written");
        })
    });
    // Threads that the client starts would have its rights.
    for () in asked {
        write(&file);
        written.send(()).expect("the client waits");
    }
    client.join().expect("it ended well");
}

fn client(path: &Path, heard: &Receiver<()>, written_by_another: &dyn Fn()) {
    // KERNEL: setresuid(2), of this thread alone; its capabilities go with it.
    rustix::thread::set_thread_uid(Uid::from_raw(NOBODY)).expect("setuid");
    let f = File::open(path).expect("it may be read");
    let l = leased(&f);
    assert!(!wanted(&f) && !l.is_wanted(), "the description has it");
    let before = breaks();
    written_by_another();
    assert!(
        breaks() > before,
        "it was counted before the writer went on"
    );
    assert!(l.is_wanted());
    heard.recv_timeout(SOON).expect("it was told");
    drop(l);

    // Nothing of the holder's refers to a program's description any more.
    let l = leased(&f);
    assert!(open_descriptors(&f) >= 3, "ours, the lease's, the holder's");
    drop(l);
    assert_eq!(open_descriptors(&f), 1);
    assert!(wanted(&f), "it has no lease");

    // Files of our own are let go of in the background.
    let own = File::open(path).expect("opened");
    let l = Leased::take_own(own).expect("a lease");
    drop(l);
    settle();
    assert_eq!(open_descriptors(&f), 1);

    // What is open for writing has no lease, whoever takes it.
    assert!(Leased::take_own(File::open("/dev/null").expect("opened")).is_none());
}
