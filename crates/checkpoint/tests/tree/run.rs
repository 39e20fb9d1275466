//! Programs, stopped and captured; the process that becomes a tree.

use armento_checkpoint::assemble::{Board, How, assemble};
use armento_checkpoint::format::{Header, Overwrite, Reader, Writer};
use armento_checkpoint::home::{
    Bytes, Home, Kind, Options, Subject, Uncarried, capture, copy_content,
};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A directory that is removed at the end.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("armento-tree-{}-{n}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir(&dir).unwrap();
        Dir(dir)
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Processes that are killed at the end. The first one is our child.
pub struct Tree {
    pub root: Child,
    pub pids: Vec<i32>,
    /// The root's standard output.
    pub output: BufReader<ChildStdout>,
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A process that has ended is no error.
pub fn signal(pid: i32, signal: i32) {
    let (pid, signal) = (
        Pid::from_raw(pid).unwrap(),
        Signal::from_named_raw(signal).unwrap(),
    );
    let _ = kill_process(pid, signal);
}

impl Tree {
    /// Starts a program, its input /dev/null, its output a pipe to us, and waits for the line "ready PID PID…": the
    /// processes of its tree, the root first.
    pub fn start(command: &mut Command) -> Tree {
        let mut tree = Tree::spawn(command);
        let mut line = String::new();
        tree.output.read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words.first(), Some(&"ready"), "{line:?}");
        tree.pids = words[1..].iter().map(|w| w.parse().unwrap()).collect();
        tree.stop();
        tree
    }

    pub fn spawn(command: &mut Command) -> Tree {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut root = command.spawn().unwrap();
        let output = BufReader::new(root.stdout.take().unwrap());
        let pids = vec![root.id() as i32];
        Tree { root, pids, output }
    }

    pub fn stop(&self) {
        for pid in &self.pids {
            signal(*pid, libc::SIGSTOP);
        }
        for pid in &self.pids {
            wait_until(&format!("process {pid} stands still"), || {
                state(*pid) == Some('T')
            });
        }
    }

    pub fn kill(&mut self) {
        for pid in self.pids.iter().rev() {
            signal(*pid, libc::SIGKILL);
        }
        drop(self.root.kill());
        drop(self.root.wait());
        for pid in &self.pids {
            wait_until(&format!("process {pid} is gone"), || {
                !Path::new(&format!("/proc/{pid}")).exists()
            });
        }
    }

    pub fn capture(&self, options: &Options) -> Result<Home, Vec<Uncarried>> {
        let subjects: Vec<Subject> = self.pids.iter().map(|p| Subject::of(*p).unwrap()).collect();
        capture(&subjects, options)
    }

    pub fn home(&self) -> Home {
        self.capture(&Options::default()).unwrap_or_else(|all| {
            let all: Vec<String> = all.iter().map(ToString::to_string).collect();
            panic!("{}", all.join("\n"))
        })
    }
}

/// What a process does: R, S, T, … ; none when it has ended.
pub fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let state = stat.rsplit_once(") ")?.1.chars().next()?;
    (state != 'Z').then_some(state)
}

/// The kernel is asked again and again, for a minute at most.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("not so after a minute: {what}");
}

/// Writes a checkpoint without memory.
pub fn write(home: &Home, path: &Path) {
    let header = Header::here(27, "0.1.0", "n1", home.root().unwrap().pid);
    let mut w = Writer::create(path, &header, Overwrite::No).unwrap();
    w.tree(home).unwrap();
    for (key, mut copy) in home.copies_of_files().unwrap() {
        w.file(key, &mut copy).unwrap();
    }
    for (number, content) in home.open_memory().unwrap() {
        let mut one =
            |at, page: &[u8; 4096]| -> io::Result<()> { Ok(w.memory_page(number, at, page)?) };
        copy_content(&content, &mut one).unwrap();
    }
    w.finish().unwrap();
}

/// A command that becomes the tree of a checkpoint: `same`, `new`, `hold`, `put-back`.
pub fn restart(path: &Path, how: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("restart").arg(path).args(how);
    command
}

/// Writes the checkpoint of one process: its number, the file.
pub fn save(words: &[String]) {
    let subject = Subject::of(words[0].parse().unwrap()).unwrap();
    let home = capture(&[subject], &Options::default()).unwrap();
    write(&home, Path::new(&words[1]));
}

/// The child side of [`restart`].
pub fn become_tree(words: &[String]) -> ! {
    let reader = Reader::open(Path::new(&words[0])).unwrap();
    let has = |word: &str| words.iter().any(|w| w == word);
    let contents = |key: u32| -> io::Result<Box<dyn Read + '_>> {
        let file = reader.file(key).map_err(io::Error::other)?;
        Ok(Box::new(file))
    };
    let path = std::env::var("PATH").unwrap_or_default();
    let how = How {
        same_pids: has("same"),
        environment: vec![
            CString::new(format!("PATH={path}")).unwrap(),
            CString::new("WAIT=1").unwrap(),
        ],
        contents: Some(&contents),
        memory: Some(&|number, take| reader.memory(number, take)),
        put_back: has("put-back"),
        hold: has("hold"),
    };
    let board = Board::new(reader.home()).unwrap();
    let Err(e) = assemble(reader.home(), &how, &board);
    eprintln!("{e}; {}", e.hint().unwrap_or("no hint"));
    std::process::exit(1);
}

/// Processes below this one, by the kernel.
pub fn below(pid: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = list.split_whitespace().map(|w| w.parse().unwrap());
    children
        .flat_map(|c: i32| [vec![c], below(c)].concat())
        .collect()
}

/// Waits until all processes of a restarted tree do nothing but wait, and stops them. KERNEL: proc_pid_syscall(5); pause is
/// 34 on x86-64, futex 202 (held ones).
pub fn settled(mut tree: Tree, root: i32, count: usize, call: &str) -> Tree {
    wait_until("all processes wait", || {
        tree.pids = [vec![root], below(root)].concat();
        let waits = |pid: &i32| {
            let now = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
            now.starts_with(call)
        };
        if let Some(status) = tree.root.try_wait().unwrap() {
            panic!("the restart has ended: {status}");
        }
        tree.pids.len() == count && tree.pids.iter().all(waits)
    });
    tree.stop();
    tree
}

/// A tree without what differs between two lives: numbers become places, moments nothing. Numbers that are none of the tree
/// become 0: they are those of whoever started it.
pub fn comparable(home: &Home) -> Home {
    let mut same = home.clone();
    same.taken = (0, 0);
    let place = |pid: i32| home.index(pid).map_or(0, |at| at as i32 + 1);
    for p in &mut same.processes {
        (p.pid, p.ppid, p.pgid, p.sid) = (place(p.pid), place(p.ppid), place(p.pgid), place(p.sid));
        p.descriptors.iter_mut().for_each(|d| d.cloexec = false);
        // An exec names the process after the file; the engine gives the name back.
        p.comm = Bytes::default();
    }
    for m in &mut same.memory {
        (m.dev, m.ino) = (0, 0);
    }
    for d in &mut same.descriptions {
        match &mut d.kind {
            Kind::Outside { was, .. } => was.clear(),
            Kind::Timer(t) => t.left_ns = t.left_ns.div_ceil(1_000_000_000_000),
            _ => {}
        }
    }
    same
}

/// Compares piece by piece, so that a difference is found in the message.
pub fn assert_same(one: &Home, other: &Home) {
    let (one, other) = (comparable(one), comparable(other));
    assert_eq!(one.processes.len(), other.processes.len());
    for (a, b) in one.processes.iter().zip(&other.processes) {
        assert_eq!(a, b);
    }
    for (a, b) in one.descriptions.iter().zip(&other.descriptions) {
        assert_eq!(a, b);
    }
    assert_eq!(one, other);
}

/// A Python program; restarted, it waits. Its standard error is not a pipe of ours.
pub fn python(dir: &Dir, script: &str) -> Command {
    let whole = format!(
        "import os,sys,signal,time\nif os.environ.get('WAIT'): signal.pause()\n{script}\nsignal.pause()\n"
    );
    let mut command = Command::new("python3");
    command.args(["-c", &whole]).current_dir(&dir.0);
    command.stderr(File::create(dir.at("errors")).unwrap());
    command
}
