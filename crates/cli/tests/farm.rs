//! The verbs of the farm as a user types them, with daemons as processes of their own.

mod mpi;
mod paper;
mod play;
mod top;

use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ARMENTO: &str = env!("CARGO_BIN_EXE_armento");
/// Longest wait for any event.
const LONG: Duration = Duration::from_secs(20);

/// The directory and daemon of one node; the daemon dies with this value.
struct Node {
    dir: PathBuf,
    daemon: Option<Child>,
}

impl Node {
    fn new() -> Node {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cli-{}-{n}", std::process::id());
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&dir).expect("directory");
        Node { dir, daemon: None }
    }

    fn command(&self, program: &str) -> Command {
        let mut c = Command::new(program);
        c.env("ARMENTO_STATE", self.dir.join("state"))
            .env("ARMENTO_SOCKET", self.dir.join("sock"))
            .stdin(Stdio::null());
        c
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(ARMENTO)
            .args(args)
            .output()
            .expect("armento runs")
    }

    /// Standard output of a command that succeeds.
    fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{args:?}: {err}");
        assert_eq!(err, "", "{args:?}");
        String::from_utf8(out.stdout).expect("text")
    }

    /// Standard error of a command that fails as Armento does: one line, one hint.
    fn fails(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert_eq!(out.status.code(), Some(125), "{args:?}");
        assert!(out.stdout.is_empty(), "{args:?}");
        let err = String::from_utf8(out.stderr).expect("text");
        let lines: Vec<&str> = err.lines().collect();
        assert_eq!(lines.len(), 2, "{err}");
        assert!(
            lines[0].starts_with("armento: ") && lines[1].starts_with("hint: "),
            "{err}"
        );
        err
    }

    /// Starts the daemon; the kernel kills it if this test dies.
    fn start(&mut self) {
        let log = File::create(self.dir.join("log")).expect("log");
        let daemon = self
            .command("setpriv")
            .args(["--pdeathsig", "KILL", ARMENTO, "node"])
            .stderr(log)
            .spawn()
            .expect("setpriv of util-linux");
        self.daemon = Some(daemon);
        until("the daemon answers", || {
            self.run(&["nodes"]).status.success()
        });
    }

    /// Kills the daemon with SIGKILL.
    fn kill(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().expect("kill");
            daemon.wait().expect("wait");
        }
    }

    fn nodes(&self) -> Vec<Value> {
        let doc: Value = serde_json::from_str(&self.ok(&["nodes", "--json"])).expect("JSON");
        assert_eq!(doc["schema"], "armento.nodes/1");
        doc["nodes"].as_array().expect("nodes").clone()
    }

    fn sees(&self, name: &str, state: &str) {
        until(&format!("{name} {state}"), || {
            let nodes = self.nodes();
            nodes
                .iter()
                .any(|n| n["name"] == name && n["state"] == state)
        });
    }

    /// Makes a farm; returns the arguments of the join command it prints.
    fn init(&self, name: &str) -> Vec<String> {
        let said = self.ok(&["farm", "init", "--name", name, "--listen", "127.0.0.1:0"]);
        let (_, join) = said.split_once("armento join ").expect("the join command");
        let line = join.lines().next().expect("a line");
        line.split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn until(what: &str, mut look: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !look() {
        assert!(Instant::now() < end, "{what} did not happen");
        thread::sleep(Duration::from_millis(30));
    }
}

/// What `farm list` shows at `node`.
fn tokens(node: &Node) -> Vec<Value> {
    let doc: Value = serde_json::from_str(&node.ok(&["farm", "list", "--json"])).expect("JSON");
    assert_eq!(doc["schema"], "armento.invitations/1");
    doc["tokens"].as_array().expect("tokens").clone()
}

#[test]
fn tokens_are_listed_removed_and_rotated() {
    let (mut n1, n2) = (Node::new(), Node::new());
    let join = n1.init("n1");
    let [first, addr] = &join[..] else {
        panic!("{join:?}")
    };
    let made = n1.ok(&["farm", "invite", "--hours", "1", "--uses", "1", "--json"]);
    let made: Value = serde_json::from_str(&made).expect("JSON");
    let (id, token) = (&made["id"], made["token"].as_str().expect("a token"));
    assert_eq!(made["command"], format!("armento join {token} {addr}"));
    let all = tokens(&n1);
    assert_eq!(all.len(), 2, "{all:?}");
    let second = all.iter().find(|t| t["id"] == *id).expect("listed");
    assert_eq!(
        (&second["state"], &second["uses_left"]),
        (&json!("valid"), &json!(1))
    );
    let shown = n1.ok(&["farm", "list"]);
    assert!(!shown.contains(token), "the secret is not shown");

    let id = id.as_str().expect("an id");
    n1.ok(&["farm", "remove", "--token", id]);
    assert!(
        n1.fails(&["farm", "remove", "--token", id])
            .contains("there is no token")
    );
    assert_eq!(tokens(&n1).len(), 1);

    n1.start();
    let plan = n1.ok(&["farm", "rotate", "--dry-run"]);
    assert!(plan.contains("make these tokens invalid"), "{plan}");
    assert_eq!(tokens(&n1).len(), 1, "--dry-run changes nothing");
    n1.ok(&["farm", "rotate"]);
    assert_eq!(tokens(&n1).len(), 0);
    let listen = ["--listen", "127.0.0.1:0", "--same-machine", "--name", "n2"];
    let words = |token: &str| -> Vec<String> {
        let all = ["join", token, addr].into_iter().chain(listen);
        all.map(str::to_owned).collect()
    };
    let old = words(first);
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    assert!(n2.fails(&old).contains("does not know this token"));
    let new = n1.ok(&["farm", "invite"]);
    let new = new.split_whitespace().nth(2).expect("a token");
    let new = words(new);
    let new: Vec<&str> = new.iter().map(String::as_str).collect();
    assert!(n2.ok(&new).contains("n2"));
}

#[test]
fn farm_is_made_joined_and_left_by_command() {
    let (mut n1, mut n2) = (Node::new(), Node::new());
    let join = n1.init("n1");
    let [token, addr] = &join[..] else {
        panic!("{join:?}")
    };
    n1.start();
    let args = |name: &'static str| {
        [
            "join",
            token,
            addr,
            "--name",
            name,
            "--listen",
            "127.0.0.1:0",
            "--same-machine",
        ]
    };
    assert!(n2.fails(&args("n1")).contains("`n1` already"));
    assert!(n2.ok(&args("n2")).contains("n2"));
    assert!(
        n2.fails(&args("n3"))
            .contains("already; nothing was changed")
    );
    n2.start();
    n1.sees("n2", "alive");
    n2.sees("n1", "alive");
    // A second daemon of a node fails and names the running one.
    let second = n2.fails(&["node"]);
    assert!(second.contains("another daemon (pid "), "{second}");
    n2.kill();
    n1.sees("n2", "down");
    n2.start();
    n1.sees("n2", "alive");
    assert!(n1.ok(&["nodes"]).contains("n1*"));
    let ps: Value = serde_json::from_str(&n1.ok(&["ps", "--all", "--json"])).expect("JSON");
    assert_eq!(ps["schema"], "armento.ps/1");
    assert_eq!(ps["procs"].as_array().map(Vec::len), Some(0));
    assert!(
        n1.fails(&["migrate", "2147483647", "n2"])
            .contains("no process")
    );
    assert!(n1.fails(&["why", "2147483647"]).contains("no process"));
    let me = std::process::id().to_string();
    let why: Value = serde_json::from_str(&n1.ok(&["why", &me, "--json"])).expect("JSON");
    assert_eq!(
        (&why["schema"], &why["place"]),
        (&"armento.why/1".into(), &"n1".into())
    );
    n2.ok(&["leave"]);
    assert!(n2.fails(&["node"]).contains("no farm"));
    until("n2 is gone", || n1.nodes().len() == 1);
}

#[test]
fn impossible_commands_say_why() {
    let alone = Node::new();
    for verb in ["nodes", "ps"] {
        assert!(alone.fails(&[verb]).contains("does not answer"));
    }
    assert!(
        alone
            .fails(&["migrate", "1", "home"])
            .contains("armento node")
    );
    assert!(alone.fails(&["node"]).contains("no farm"));
    assert!(alone.fails(&["leave"]).contains("no farm"));
    assert!(alone.fails(&["farm", "token"]).contains("no farm"));
    assert!(
        alone
            .fails(&["join", "K10x", "127.0.0.1:1"])
            .contains("armento1K")
    );
    let nowhere = format!("armento1K{}::aa:bb", "ab".repeat(32));
    let unreached = alone.fails(&["join", &nowhere, "127.0.0.1:1", "--name", "n1"]);
    assert!(unreached.contains("does not answer"), "{unreached}");
    assert!(
        alone
            .fails(&["farm", "init", "--name", "N_1"])
            .contains("N_1")
    );
    let listen = alone.fails(&["farm", "init", "--name", "n1", "--listen", "10.0.0.300"]);
    assert!(listen.contains("`10.0.0.300` is no address"), "{listen}");
    let config = alone.dir.join("bad.toml");
    fs::write(&config, "polcy = \"mosix\"").expect("config");
    let bad = alone.run(&["node", "--config", &config.display().to_string()]);
    assert_eq!(bad.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&bad.stderr).contains("polcy"));
}

#[test]
fn tokens_expire() {
    let (mut n1, n2) = (Node::new(), Node::new());
    let join = n1.init("n1");
    n1.start();
    let made = n1.ok(&["farm", "token", "--hours", "0"]);
    let expired = made.split_whitespace().nth(2).expect("token").to_owned();
    let refused = n2.fails(&["join", &expired, &join[1], "--name", "n2"]);
    assert!(
        refused.contains("expired") && refused.contains("farm invite"),
        "{refused}"
    );
    let wrong = format!("{}0", join[0]);
    assert!(
        n2.fails(&["join", &wrong, &join[1], "--name", "n2"])
            .contains("does not know")
    );
    // Another farm's address: the secret is not sent.
    let mut other = Node::new();
    let theirs = other.init("o1");
    other.start();
    let foreign = n2.fails(&["join", &join[0], &theirs[1], "--name", "n2"]);
    assert!(foreign.contains("the secret was not sent"), "{foreign}");
}

#[test]
fn help_and_usage_errors_are_formatted() {
    let n = Node::new();
    assert!(n.ok(&["--help"]).contains("armento farm init"));
    assert!(n.ok(&["--version"]).contains(env!("CARGO_PKG_VERSION")));
    let wrong = n.run(&["nodez"]);
    assert_eq!(wrong.status.code(), Some(125));
    // A reader that closes the pipe causes neither panic nor error message.
    let mut head = n
        .command(ARMENTO)
        .arg("--help")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("spawn");
    drop(head.stdout.take());
    let out = head.wait_with_output().expect("wait");
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
}
