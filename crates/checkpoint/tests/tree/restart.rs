//! Trees that are made again.

use crate::run::{
    Dir, Tree, assert_same, python, restart, settled, signal, state, wait_until, write,
};
use armento_checkpoint::home::{Description, Home, Kind};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;

/// Everything that one process may have.
const ONE: &str = r#"
import ctypes, fcntl, resource, select, socket, struct, tempfile
libc = ctypes.CDLL(None)
open('data','wb').write(bytes(10000))
def to(fd, n):
    os.dup2(fd, n, inheritable=False); os.close(fd); return n
a = to(os.open('data', os.O_RDWR), 20); os.lseek(a, 4711, 0)
os.dup2(a, 21)
b = to(os.open('log', os.O_WRONLY|os.O_APPEND|os.O_CREAT, 0o640), 22); os.write(b, b'line\n')
to(os.open('.', os.O_RDONLY|os.O_DIRECTORY), 23)
to(os.open('/dev/urandom', os.O_RDONLY), 24)
to(os.open('data', os.O_PATH), 25)
r, w = os.pipe(); to(r, 26); to(w, 27); os.write(27, b'waiting'*500); os.write(27, b'!')
fcntl.fcntl(27, 1031, 1<<20)
os.set_blocking(26, False)
e = to(os.eventfd(7, os.EFD_SEMAPHORE), 28)
t = libc.timerfd_create(1, 0); to(t, 29)
libc.timerfd_settime(29, 0, struct.pack('qqqq', 60, 5, 500000, 0), None)
mask = struct.pack('Q', 1<<(signal.SIGUSR1-1)) + bytes(120)
to(libc.signalfd(-1, mask, 0), 30)
p = select.epoll(); n = p.fileno(); os.dup2(n, 31, inheritable=False); q = select.epoll.fromfd(31)
q.register(26, select.EPOLLIN|select.EPOLLET); q.register(28, select.EPOLLIN); p.close()
x, y = socket.socketpair(); x.send(b'to y'); y.send(b'to x!'); os.dup2(x.detach(), 32); os.dup2(y.detach(), 33)
x, y = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET); os.dup2(x.detach(), 34); os.dup2(y.detach(), 35)
m = to(os.memfd_create('some memory', os.MFD_ALLOW_SEALING), 38)
os.write(m, b'in memory'); os.ftruncate(m, 3<<30); os.pwrite(m, b'far away', (2<<30) + 5); os.pwrite(m, b'last', (3<<30) - 4)
to(os.open('/proc/self/fd/38', os.O_RDONLY), 39); os.lseek(39, 99, 0); os.dup2(38, 40)
fcntl.fcntl(m, 1033, 2|4|8)
to(os.memfd_create('none'), 41)
i = to(libc.inotify_init1(0), 42); os.mkdir('watched')
for path in [b'data', b'watched', b'/etc']: n = libc.inotify_add_watch(42, path, 0x2 | 0x100 | 0x200)
libc.inotify_rm_watch(42, 2); os.set_blocking(42, False)
try: os.read(42, 4096)
except OSError: pass
os.set_blocking(42, True); open('watched/unseen', 'w')
for n in range(3, 20):
    try: os.close(n)
    except OSError: pass
fcntl.flock(22, fcntl.LOCK_EX)
fcntl.lockf(20, fcntl.LOCK_EX, 100, 50); fcntl.lockf(20, fcntl.LOCK_SH, 10, 500)
os.mkfifo('fifo'); f = os.open('fifo', os.O_RDWR); os.dup2(f, 36); os.close(f); os.write(36, b'in the fifo')
r, w = os.pipe(); os.dup2(r, 37); os.close(r); os.close(w)
os.umask(0o027); os.mkdir('sub'); os.chdir('sub')
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 4000)); resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.nice(5); open('/proc/self/oom_score_adj','w').write('321')
print('ready', os.getpid(), flush=True)
"#;

fn kind_at(home: &Home, fd: i32) -> &Description {
    let all = &home.processes[0].descriptors;
    let of = all.iter().find(|d| d.fd == fd).unwrap();
    &home.descriptions[of.description as usize]
}

pub fn one_process() {
    let dir = Dir::new();
    let mut tree = Tree::start(&mut python(&dir, ONE));
    let home = tree.home();
    let p = &home.processes[0];
    assert_eq!((p.umask, p.nice, p.oom_score_adj), (0o027, 5, 321));
    assert_eq!((p.limits[7].soft, p.limits[7].hard), (300, 4000));
    assert!(p.cwd.to_string().ends_with("/sub"));
    let shared = |fd| {
        p.descriptors
            .iter()
            .find(|d| d.fd == fd)
            .unwrap()
            .description
    };
    assert_eq!(shared(20), shared(21));
    assert_eq!(kind_at(&home, 20).offset, 4711);
    assert_ne!(kind_at(&home, 22).flags & libc::O_APPEND as u32, 0);
    assert!(kind_at(&home, 22).flock.is_some());
    assert_eq!(p.locks.len(), 2);
    assert!(matches!(kind_at(&home, 0).kind, Kind::Device { .. }));
    assert!(matches!(&kind_at(&home, 1).kind, Kind::Outside { stds, .. } if stds == &[1]));
    assert!(matches!(
        kind_at(&home, 28).kind,
        Kind::Event {
            count: 7,
            semaphore: true
        }
    ));
    assert!(
        matches!(kind_at(&home, 31).kind, Kind::Epoll { ref watched, .. } if watched.len() == 2)
    );
    let Kind::Pipe { pipe } = kind_at(&home, 26).kind else {
        panic!("{:?}", kind_at(&home, 26));
    };
    let pipe = &home.pipes[pipe as usize];
    assert_eq!((pipe.waiting.len(), pipe.capacity), (3501, 1 << 20));
    let Kind::Socket { pair, .. } = kind_at(&home, 32).kind else {
        panic!("{:?}", kind_at(&home, 32));
    };
    let waiting: Vec<String> = home.pairs[pair as usize]
        .waiting
        .iter()
        .map(|w| w.to_string())
        .collect();
    assert_eq!(waiting, ["to x!", "to y"]);
    let Kind::Memory { memory } = kind_at(&home, 39).kind else {
        panic!("{:?}", kind_at(&home, 39));
    };
    let memory = &home.memory[memory as usize];
    assert_eq!((memory.size, memory.seals), (3 << 30, 2 | 4 | 8));
    assert_eq!(
        (shared(38) == shared(40), shared(38) == shared(39)),
        (true, false)
    );
    let Kind::Inotify { watches, waiting } = &kind_at(&home, 42).kind else {
        panic!("{:?}", kind_at(&home, 42));
    };
    let watches: Vec<String> = watches
        .iter()
        .map(|w| format!("{} {}", w.number, w.path))
        .collect();
    let data = dir.at("data").canonicalize().unwrap();
    assert_eq!(watches, [format!("1 {}", data.display()), "3 /etc".into()]);
    assert!(!waiting);
    let marked = p.close_on_exec();
    assert!(
        marked.contains(&20) && marked.contains(&31) && !marked.contains(&21),
        "{marked:?}"
    );
    // Captured once more: looking changed nothing.
    assert_same(&tree.home(), &home);
    write(&home, &dir.at("c"));
    tree.kill();
    let again = Tree::spawn(&mut restart(&dir.at("c"), &["new"]));
    let root = again.pids[0];
    let again = settled(again, root, 1, "34 ");
    assert_same(&home, &again.home());
    let content = fs::File::open(format!("/proc/{root}/fd/38")).unwrap();
    for (at, text) in [
        (0, "in memory"),
        ((2 << 30) + 5, "far away"),
        ((3 << 30) - 4, "last"),
    ] {
        let mut bytes = vec![0; text.len()];
        content.read_exact_at(&mut bytes, at).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), text);
    }
    // Its holes are none of memory.
    assert!(content.metadata().unwrap().blocks() < 64);
}

/// A root with a child in a group of its own, one in a session of its own with a child of before and one of after, and an
/// orphan; they share a pipe and the offset of a file.
const TREE: &str = r#"
r, w = os.pipe(); os.set_inheritable(r, True); os.set_inheritable(w, True); os.write(w, b'hello')
open('data','wb').write(bytes(1000)); d = os.open('data', os.O_RDONLY); os.lseek(d, 123, 0)
up = os.pipe()
def child(f, tell=True):
    pid = os.fork()
    if pid == 0:
        f()
        if tell: os.write(up[1], b'%d\n' % os.getpid())
        os.close(up[0]); os.close(up[1])
        signal.pause()
    return pid
def group(): os.setpgid(0, 0); os.close(r); os.chdir('/')
def session():
    child(lambda: os.umask(0o077))
    os.setsid(); os.close(w); os.nice(3)
    child(lambda: os.lseek(d, 5, 1))
def member(): os.setpgid(0, g)
def orphan():
    os.setsid()
    if os.fork(): os._exit(0)
    os.setsid()
g = child(group); os.setpgid(g, g) if os.getpgid(g) != g else None
child(member)
child(session)
o = child(orphan); os.waitpid(o, 0)
os.close(up[1]); lines = b''
while more := os.read(up[0], 100): lines += more
os.close(up[0])
print('ready', os.getpid(), lines.decode().replace('\n', ' '), flush=True)
"#;

fn start_tree(dir: &Dir) -> (Tree, Home) {
    let tree = Tree::start(&mut python(dir, TREE));
    let home = tree.home();
    assert_eq!(home.processes.len(), 7);
    let offsets: Vec<u64> = home
        .descriptions
        .iter()
        .map(|d| d.offset)
        .filter(|n| *n > 0)
        .collect();
    assert_eq!(
        offsets,
        [128],
        "one description of the file in all processes"
    );
    assert_eq!(home.pipes.len(), 1);
    assert_eq!(home.pipes[0].waiting, b"hello");
    let leaders = home.processes.iter().filter(|p| p.sid == p.pid).count();
    assert_eq!(leaders, 2);
    write(&home, &dir.at("c"));
    (tree, home)
}

/// The orphan is nobody's child in the tree: found by what it waits with.
fn with_orphan(tree: &mut Tree, root: i32, home: &Home) {
    let orphan = home
        .processes
        .iter()
        .find(|p| p.parent.is_none() && p.pid != home.processes[0].pid);
    let line = orphan
        .unwrap()
        .argv
        .iter()
        .map(|w| w.0.clone())
        .collect::<Vec<_>>()
        .join(&0);
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<i32>().ok())
        else {
            continue;
        };
        let own = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let ours = own.strip_suffix(b"\0").is_some_and(|own| own == line);
        if ours && pid != root && !tree.pids.contains(&pid) {
            tree.pids.push(pid);
        }
    }
}

fn made_again(tree: Tree, root: i32, home: &Home) -> Tree {
    let mut again = settled(tree, root, 6, "34 ");
    with_orphan(&mut again, root, home);
    again.stop();
    again
}

pub fn tree_new() {
    let dir = Dir::new();
    let (mut tree, home) = start_tree(&dir);
    tree.kill();
    let again = Tree::spawn(&mut restart(&dir.at("c"), &["new"]));
    let root = again.pids[0];
    let again = made_again(again, root, &home);
    let found = again.home();
    assert_eq!(
        found.processes[0].pid, root,
        "the root keeps the caller's number"
    );
    assert_same(&home, &found);
}

pub fn tree_same() {
    if !may_choose_numbers() {
        println!("skipped: CAP_CHECKPOINT_RESTORE is needed to choose process numbers");
        return;
    }
    let dir = Dir::new();
    let (mut tree, home) = start_tree(&dir);
    let output = restart(&dir.at("c"), &["same"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let root = home.processes[0].pid;
    assert!(
        said.contains(&format!("process number {root} is used by python3")),
        "{said}"
    );
    assert!(said.contains("--pid new"), "{said}");
    tree.kill();
    let again = Tree::spawn(&mut restart(&dir.at("c"), &["same"]));
    let caller = again.pids[0];
    let mut again = made_again(again, root, &home);
    let found = again.home();
    let numbers = |h: &Home| -> Vec<[i32; 2]> {
        let mut all: Vec<_> = h
            .processes
            .iter()
            .map(|p| [p.pid, p.parent.map_or(0, |_| p.ppid)])
            .collect();
        all.sort_unstable();
        all
    };
    assert_eq!(numbers(&home), numbers(&found));
    assert_eq!(found.processes[0].ppid, caller);
    assert_same(&home, &found);
    // The calling process stops and ends as the root does.
    wait_until("the caller stops with the root", || {
        state(caller) == Some('T')
    });
    signal(caller, libc::SIGCONT);
    wait_until("the root goes on with the caller", || {
        state(root) == Some('S')
    });
    signal(root, libc::SIGKILL);
    assert_eq!(again.root.wait().unwrap().signal(), Some(libc::SIGKILL));
}

pub fn may_choose_numbers() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("CapEff:"))
        .unwrap();
    let set = u64::from_str_radix(line.trim(), 16).unwrap();
    set >> 40 & 1 == 1 || set >> 21 & 1 == 1
}
