//! One case: a program blocks, is wait_until_in_call in the call, is moved and woken, and its results are compared.

use super::{Row, root};
use crate::lab::{Farm, within};
use armento_client::api::{Answer, Ask, Dest, SOCKET};
use armento_client::{AskError, Session};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const ARMENTO: &str = env!("CARGO_BIN_EXE_armento");
/// Longest wait for any event.
const LONG: Duration = Duration::from_secs(60);
/// The time limit of `armento migrate`.
const MOVE: Duration = Duration::from_secs(130);
/// Time between the test's last check of the call and the last move of a call that a time-out ends. The call may end
/// this much later and still count as resumed with its remaining time.
const LATE: Duration = Duration::from_secs(4);
/// Interval between checks: an event must be noticed at once.
const LOOK: Duration = Duration::from_millis(5);
/// A call has waited at least this long before its remaining time is checked.
const BREATH: Duration = Duration::from_secs(1);
const WRITE: u64 = 1;
const RESTART_SYSCALL: u64 = 219;
const EPOLL_PWAIT: u64 = 281;
const EPOLL_PWAIT2: u64 = 441;

/// What ends the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Event,
    Signal,
    Restart,
    Expire,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Event, Kind::Signal, Kind::Restart, Kind::Expire];

    fn word(self) -> &'static str {
        match self {
            Kind::Event => "event",
            Kind::Signal => "signal",
            Kind::Restart => "restart",
            Kind::Expire => "expire",
        }
    }
}

pub struct Case {
    pub row: Row,
    pub kind: Kind,
    /// All ways, or one of them.
    all: bool,
}

impl Case {
    pub fn new(row: Row, kind: Kind, all: bool) -> Case {
        Case { row, kind, all }
    }

    fn ways(&self) -> &'static [Way] {
        let one = self.row.number % WAYS.len();
        if self.all { &WAYS } else { &WAYS[one..=one] }
    }
}

/// How a program is started, where it then is, and where it is sent while it blocks.
struct Way {
    run: &'static str,
    at: &'static str,
    to: &'static [&'static str],
}

const NATIVE: Way = Way {
    run: "",
    at: "n1",
    to: &[],
};
const WAYS: [Way; 2] = [
    Way {
        run: "armento run --stay",
        at: "n1",
        to: &["n2", "n3", "n1"],
    },
    Way {
        run: "armento run --on n2",
        at: "n2",
        to: &["n1", "n3", "n2"],
    },
];

/// The lines that the program has printed so far.
#[derive(Default)]
struct Said {
    lines: Vec<String>,
    over: bool,
}

struct Running<'a> {
    player: &'a mut Player,
    case: &'a Case,
    child: Child,
    stdin: ChildStdin,
    said: Arc<Mutex<Said>>,
    pid: u32,
    at: &'static str,
}

pub struct Player {
    lab: String,
    /// Roots of the nodes, in their order.
    roots: [PathBuf; 3],
    session: Session,
    pub moves: u32,
}

type Checked<T> = Result<T, String>;

impl Player {
    pub fn new(farm: &Farm) -> Player {
        let roots = ["n1", "n2", "n3"].map(|n| root(farm, n));
        let socket = roots[0].join(SOCKET.trim_start_matches('/'));
        Player {
            lab: farm.name.clone(),
            session: Session::connect_to(&socket).expect("the daemon"),
            roots,
            moves: 0,
        }
    }

    /// Compares all ways with a native run.
    pub fn case(&mut self, case: &Case) -> Checked<()> {
        let native = self
            .run(case, &NATIVE)
            .map_err(|e| format!("native: {e}"))?;
        let mut wrong = Vec::new();
        for way in case.ways() {
            let name = format!("begun at {}", way.at);
            match self.run(case, way) {
                Ok(got) if got == native => {}
                Ok(got) => wrong.push(format!("{name}: {got:?} instead of {native:?}")),
                Err(e) => wrong.push(format!("{name}: {e}")),
            }
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong.join("; ")),
        }
    }

    fn run(&mut self, case: &Case, way: &Way) -> Checked<Vec<String>> {
        let mut c = Command::new(ARMENTO);
        let (row, word) = (&case.row, case.kind.word());
        let program = format!(
            "exec {} /tmp/blocked/b{} {} {word}",
            way.run, row.number, row.name
        );
        c.args([
            "lab", "exec", "--name", &self.lab, "n1", "--", "sh", "-c", &program,
        ]);
        let c = c
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut child = c.spawn().map_err(|e| e.to_string())?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let said = Arc::new(Mutex::new(Said::default()));
        let (to, from) = (said.clone(), BufReader::new(stdout.ok_or("no output")?));
        std::thread::spawn(move || {
            let lock = || to.lock().unwrap_or_else(PoisonError::into_inner);
            from.lines()
                .map_while(Result::ok)
                .for_each(|l| lock().lines.push(l));
            lock().over = true;
        });
        let mut r = Running {
            player: self,
            case,
            child,
            stdin: stdin.ok_or("no input")?,
            said,
            pid: 0,
            at: way.at,
        };
        let result = r.play(way);
        let lines = r.lines();
        result.map_err(|e| format!("{e}; it printed {lines:?}"))?;
        // Lines of the other process come at any time.
        let (other, own): (Vec<_>, Vec<_>) = lines.into_iter().partition(|l| l.starts_with('~'));
        let all = own.into_iter().chain(other);
        Ok(all
            .filter(|l| !l.starts_with('#') && !l.starts_with("~#"))
            .collect())
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // Killing `lab exec` kills its command.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running<'_> {
    fn lines(&self) -> Vec<String> {
        self.said
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .lines
            .clone()
    }

    fn has(&self, line: &str) -> bool {
        self.lines().iter().any(|l| l == line)
    }

    fn until(&self, what: &str, mut happened: impl FnMut() -> bool) -> Checked<()> {
        let over = || {
            self.said
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .over
        };
        let mut ended = false;
        let limit = Instant::now() + LONG;
        let mut happened = || {
            ended = over();
            happened() || ended
        };
        let mut is = happened();
        while !is && Instant::now() < limit {
            std::thread::sleep(LOOK);
            is = happened();
        }
        match (is, ended && !self.has("# returned")) {
            (true, false) => Ok(()),
            (true, true) => Err(format!("it ended before {what}")),
            (false, _) => Err(format!("{what} did not happen; it is {}", self.state())),
        }
    }

    fn command(&mut self, word: &str) -> Checked<()> {
        writeln!(self.stdin, "{word}").map_err(|e| format!("{word}: {e}"))
    }

    fn play(&mut self, way: &Way) -> Checked<()> {
        let mut pid = None;
        let number = |l: &String| l.strip_prefix("# ")?.parse::<u32>().ok();
        self.until("its first line", || {
            pid = self.lines().iter().find_map(number);
            pid.is_some()
        })?;
        self.pid = pid.unwrap_or_default();
        self.wait_until_in_call()?;
        self.command("mark")?;
        self.moves(way)?;
        if self.case.row.twice() {
            self.command("wake")?;
            self.until("a part", || self.has("~# done"))?;
            self.wait_until_in_call()?;
            self.moves(way)?;
        }
        match self.case.kind {
            Kind::Event => self.command("wake")?,
            Kind::Expire => {
                std::thread::sleep(LATE);
                // One more move, so that the call must resume with its remaining time.
                if let (false, [first, ..]) = (self.case.row.stays(), way.to) {
                    self.move_to(first)?;
                }
                self.command("late")?;
            }
            Kind::Signal | Kind::Restart => {
                if self.case.row.timed() {
                    std::thread::sleep(BREATH);
                }
                self.command("signal")?;
                self.until("a handler", || self.has("# handled"))?;
                self.until("an end, or the call again", || {
                    self.has("# returned") || self.is_in_call()
                })?;
                if !self.has("# returned") {
                    self.moves(way)?;
                    self.command("wake")?;
                }
            }
        }
        self.until("its return", || self.has("# returned"))?;
        self.command("end")?;
        let over = || matches!(self.child.try_wait(), Ok(Some(_)));
        // The last line may not have reached the reading thread yet.
        let said = || {
            self.said
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .over
        };
        if !within(LONG, over) || !within(LONG, said) {
            return Err("its process did not end".into());
        }
        match self.child.wait().map(|s| s.code()) {
            Ok(Some(0)) => Ok(()),
            other => Err(format!("it ended with {other:?}")),
        }
    }

    fn moves(&mut self, way: &Way) -> Checked<()> {
        for node in way.to {
            if self.case.row.stays() {
                self.refused(node)?;
            } else {
                self.move_to(node)?;
            }
        }
        Ok(())
    }

    fn order(&mut self, node: &str) -> Result<Answer, AskError> {
        let to = match node {
            "n1" => Dest::Home,
            name => Dest::Node(name.parse().expect("a node's name")),
        };
        let pid = self.pid.try_into().expect("a process");
        self.player.session.ask(Ask::Migrate { pid, to }, MOVE)
    }

    fn move_to(&mut self, node: &'static str) -> Checked<()> {
        match self.order(node) {
            Ok(Answer::Moved { .. }) => self.player.moves += 1,
            other => {
                return Err(format!(
                    "{} to {node}: {other:?}; it is {}",
                    self.at,
                    self.state()
                ));
            }
        }
        self.at = node;
        self.wait_until_in_call()
    }

    fn refused(&mut self, node: &str) -> Checked<()> {
        match self.order(node) {
            Err(AskError::Refused(_)) => self.wait_until_in_call(),
            Ok(_) if node == self.at => self.wait_until_in_call(),
            other => Err(format!("it should stay: {node}: {other:?}")),
        }
    }

    fn wait_until_in_call(&mut self) -> Checked<()> {
        if self.case.row.comes() {
            self.at = "n1";
        }
        self.until(&format!("the call at {}", self.at), || self.is_in_call())
    }

    /// Whether the process is in its call, on the node where it should be.
    fn is_in_call(&self) -> bool {
        let home = self.player.roots[0].join(format!("proc/{}", self.pid));
        let deputy = self.waits(&home);
        if self.at == "n1" {
            return deputy;
        }
        (deputy || self.case.row.here()) && self.body().is_some_and(|b| self.waits(&b))
    }

    fn state(&self) -> String {
        let call = |p: &Path| fs::read_to_string(p.join("syscall")).unwrap_or_default();
        let home = call(&self.player.roots[0].join(format!("proc/{}", self.pid)));
        let body = self.body().map(|b| call(&b));
        let names: Vec<_> = (1..=3).map(|node| self.named(node)).collect();
        let at = self.at;
        format!("at {at}: home in {home:?}, body in {body:?}; its number has {names:?}")
    }

    /// KERNEL: proc(5), /proc/PID/syscall. A signal handler of the program writes a line; that is not the call.
    fn waits(&self, process: &Path) -> bool {
        let text = fs::read_to_string(process.join("syscall")).unwrap_or_default();
        let mut words = text.split(' ');
        let nr = words.next().and_then(|w| w.parse::<u64>().ok());
        // The rest of a partial write may be written with write(2).
        let row = &self.case.row;
        if row.stays() && text.starts_with("-1 ") {
            // The host holds a parent that has called vfork.
            return true;
        }
        // A call with its time limit in memory resumes as the call with the limit in a register.
        let nr_on = match row.nr {
            EPOLL_PWAIT2 => EPOLL_PWAIT,
            nr => nr,
        };
        let calls = [row.nr, nr_on, RESTART_SYSCALL, WRITE];
        let says = nr == Some(WRITE) && words.next() == Some("0x1");
        !says && nr.is_some_and(|nr| calls.contains(&nr))
    }

    /// /proc directory of the process with its pid and name on the node where it should be.
    fn body(&self) -> Option<PathBuf> {
        let node: usize = self.at[1..].parse().ok()?;
        let name = format!("b{}", self.case.row.number);
        let mut all = self.named(node).into_iter();
        all.find(|p| p.1 == name).map(|p| p.0)
    }

    /// All processes at `node` with that pid in their innermost namespace, with their names.
    fn named(&self, node: usize) -> Vec<(PathBuf, String)> {
        let proc = self.player.roots[node - 1].join("proc");
        let last = self.pid.to_string();
        let named = |p: PathBuf| {
            let status = fs::read_to_string(p.join("status")).ok()?;
            let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name));
            let number = field("NSpid:")?.split_whitespace().last()?;
            let name = field("Name:\t")?.to_owned();
            (number == last).then_some((p, name))
        };
        let all = fs::read_dir(proc).into_iter().flatten().flatten();
        all.filter_map(|e| named(e.path())).collect()
    }
}
