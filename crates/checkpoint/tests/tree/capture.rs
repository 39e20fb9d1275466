//! What is not carried, and what changed.

use crate::run::{Dir, Tree, python};
use armento_checkpoint::home::{Options, Subject, capture, changed, record_hashes};
use std::fs;
use std::time::{Duration, SystemTime};

pub fn uncarried() {
    let dir = Dir::new();
    let script = r#"
import ctypes, socket, tempfile, select
libc = ctypes.CDLL(None)
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); os.dup2(s.fileno(), 40)
c = socket.create_connection(s.getsockname()); os.dup2(c.fileno(), 41); port = s.getsockname()[1]
u = socket.socket(socket.AF_UNIX); u.bind('socket'); u.listen(); os.dup2(u.fileno(), 42)
m, t = os.openpty(); os.dup2(m, 45); os.dup2(t, 46)
d = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); d.bind(('127.0.0.1', 0)); os.dup2(d.fileno(), 47)
os.dup2(os.pidfd_open(os.getpid()), 48)
f = os.open('leased', os.O_RDONLY|os.O_CREAT); os.dup2(f, 49)
x, y = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); x.send(b'm'); os.dup2(y.fileno(), 50)
if os.fork() == 0: os._exit(3)
os.waitid(os.P_ALL, 0, os.WEXITED|os.WNOWAIT)
print('ready', os.getpid(), port, flush=True)
"#;
    let mut command = python(&dir, script);
    let mut tree = Tree::spawn(&mut command);
    let mut line = String::new();
    std::io::BufRead::read_line(&mut tree.output, &mut line).unwrap();
    let words: Vec<i32> = line
        .split_whitespace()
        .skip(1)
        .map(|w| w.parse().unwrap())
        .collect();
    tree.pids = vec![words[0]];
    let port = words[1];
    tree.stop();
    let refused = tree.capture(&Options::default()).unwrap_err();
    let all: Vec<String> = refused.iter().map(ToString::to_string).collect();
    let expected = [
        format!("is a TCP socket that listens at 127.0.0.1:{port}"),
        format!("is a TCP connection to 127.0.0.1:{port}"),
        "is a Unix socket that listens at socket".into(),
        "is /dev/ptmx, from which a terminal is controlled".into(),
        "is the terminal /dev/pts/".into(),
        "is a UDP socket at 127.0.0.1:".into(),
        "is a descriptor of a process (pidfd)".into(),
        "is a pair of sockets with messages in it".into(),
        "has ended and was not waited for".into(),
    ];
    for text in expected {
        assert!(
            all.iter().any(|l| l.contains(&text)),
            "{text}:\n{}",
            all.join("\n")
        );
    }
    assert!(
        all[0].starts_with(&format!("process {} (python3): ", words[0])),
        "{}",
        all[0]
    );
}

/// A look beforehand, at programs that run and change all the time: nothing is refused that stands still later.
pub fn while_running() {
    let dir = Dir::new();
    let script = r#"
import socket, threading
r, w = os.pipe(); x, y = socket.socketpair()
def busy(f):
    while True: f()
def open_close():
    fd = os.open('/etc/hostname', os.O_RDONLY); a, b = os.pipe()
    for n in (fd, a, b): os.close(n)
for f in (lambda: os.write(w, b'many bytes ' * 300), lambda: os.read(r, 1000), lambda: x.send(b'many bytes'),
          lambda: y.recv(7), open_close): threading.Thread(target=busy, args=[f], daemon=True).start()
print('ready', os.getpid(), flush=True)
"#;
    let mut tree = Tree::spawn(&mut python(&dir, script));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut tree.output, &mut line).unwrap();
    let mut filled = 0;
    for _ in 0..100 {
        let home = tree.home();
        filled += usize::from(home.pipes.iter().any(|p| !p.waiting.is_empty()));
    }
    assert!(filled > 0, "the pipe was never seen in use");
    tree.stop();
    let home = tree.home();
    assert!(!home.pairs.is_empty());
    assert_eq!(home.check(), Ok(()));
}

pub fn not_whole() {
    let dir = Dir::new();
    let script =
        "c = os.fork()\nif c == 0: signal.pause()\nprint('ready', os.getpid(), c, flush=True)\n";
    let tree = Tree::start(&mut python(&dir, script));
    let root = Subject::of(tree.pids[0]).unwrap();
    let refused = capture(&[root], &Options::default()).unwrap_err();
    let text = format!("its child {} is not part of the checkpoint", tree.pids[1]);
    assert!(refused.iter().any(|u| u.what == text), "{refused:?}");
    let gone = Subject {
        pid: i32::MAX,
        ..Subject::default()
    };
    let refused = capture(&[gone], &Options::default()).unwrap_err();
    assert_eq!(refused[0].what, "it has ended");
    assert!(capture(&[], &Options::default()).is_err());
}

pub fn changed_files() {
    let dir = Dir::new();
    let script = r#"
for n in ['kept', 'longer', 'other', 'gone']:
    open(n, 'w').write('0123456789'); os.set_inheritable(os.open(n, os.O_RDONLY), True)
print('ready', os.getpid(), flush=True)
"#;
    let tree = Tree::start(&mut python(&dir, script));
    let mut home = tree.home();
    assert_eq!(changed(&home), [""; 0]);
    record_hashes(&mut home, 1 << 30);
    assert!(home.processes[0].exe.identity.sha256.is_some());
    let copy = fs::read(dir.at("kept")).unwrap();
    fs::remove_file(dir.at("kept")).unwrap();
    fs::write(dir.at("kept"), copy).unwrap();
    fs::write(dir.at("longer"), "0123456789a").unwrap();
    fs::write(dir.at("other"), "9876543210").unwrap();
    fs::remove_file(dir.at("gone")).unwrap();
    let mut found = changed(&home);
    found.sort_unstable();
    let dir = dir.0.display();
    let expected = [
        format!("{dir}/gone is missing"),
        format!("{dir}/longer has 11 bytes, where it had 10"),
        format!("{dir}/other has another content"),
    ];
    assert_eq!(found, expected);
    let later = SystemTime::now() + Duration::from_secs(1);
    let file = fs::File::options()
        .write(true)
        .open(format!("{dir}/kept"))
        .unwrap();
    file.set_modified(later).unwrap();
    assert_eq!(changed(&home).len(), 3, "the content is the same");
}
