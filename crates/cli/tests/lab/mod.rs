//! A lab with daemons that the test starts, with its own settings and failpoints.

use armento_lab::{Lab, Link, Spec};
use std::fs;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const ARMENTO: &str = env!("CARGO_BIN_EXE_armento");
/// A tree freezes and ends this long after it has lost its home, milliseconds.
const CONFIG: &str = "allow_root = true\nfreeze_ms = 1500\ndead_ms = 4000\n";
/// Longest wait for any event.
pub const LONG: Duration = Duration::from_secs(60);

/// A lab with a farm whose daemons and hosts have failpoints. The lab ends with this value, and with this process
/// however that ends.
pub struct Farm {
    pub name: String,
    nodes: Vec<String>,
    _lab: Lab,
}

impl Farm {
    /// `mem`: memory of a node, MiB.
    pub fn up(what: &str, mem: Option<u64>) -> Option<Farm> {
        Farm::with(what, mem, 1.0)
    }

    /// As [`Farm::up`], with nodes that have `speed` of a processor.
    pub fn with(what: &str, mem: Option<u64>, speed: f64) -> Option<Farm> {
        Farm::of(3, what, mem, speed)
    }

    /// The same with so many nodes.
    pub fn of(count: usize, what: &str, mem: Option<u64>, speed: f64) -> Option<Farm> {
        let root =
            fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0\t"));
        if !root {
            println!("skipped: {what} needs root (namespaces, mounts, control groups)");
            return None;
        }
        let name = format!("f{}-{what}", std::process::id());
        let spec = Spec {
            name: name.clone(),
            nodes: count,
            speeds: vec![speed],
            mem: mem.map(|mib| mib << 20),
            link: Link::None,
            farm: false,
            exe: Some(ARMENTO.into()),
            ..Spec::default()
        };
        let _lab = Lab::up(spec).expect("a lab");
        let nodes: Vec<String> = (1..=count).map(|n| format!("n{n}")).collect();
        let farm = Farm { name, nodes, _lab };
        for node in &farm.nodes {
            let make = format!(
                "mkdir -p /etc/armento /tmp/faults; chmod 777 /tmp/faults; printf '{CONFIG}' > /etc/armento/config.toml"
            );
            farm.sh(node, &make);
        }
        let listen = "--listen $(hostname -i | cut -d' ' -f1):7717";
        let said = farm.sh("n1", &format!("armento farm init --name n1 {listen}"));
        let (_, join) = said.split_once("armento join ").expect("the join command");
        let join = join.lines().next().expect("a line").to_owned();
        farm.daemon("n1");
        for node in &farm.nodes[1..] {
            farm.sh(
                node,
                &format!("armento join {join} --same-machine --name {node} {listen}"),
            );
            farm.daemon(node);
        }
        let alive = || {
            farm.sh("n1", "armento nodes --json")
                .matches("\"alive\"")
                .count()
                == farm.nodes.len()
        };
        until("all nodes", alive);
        Some(farm)
    }

    pub fn daemon(&self, node: &str) {
        self.daemon_behind(node, "");
    }

    /// `before`: command prefix. Waits for the end of a daemon that is terminating: otherwise the new daemon would
    /// refuse to start beside it, and then there is none.
    pub fn daemon_behind(&self, node: &str, before: &str) {
        until("the end of the daemon before", || {
            !self
                .run(node, "pgrep -f '[a]rmento node$'")
                .status
                .success()
        });
        self.start(node, before);
        let up = || self.run(node, "armento nodes").status.success();
        until("the daemon", up);
    }

    /// Starts a daemon and does not wait until it answers.
    pub fn start(&self, node: &str, before: &str) {
        let start = format!(
            "ARMENTO_FAULTS=/tmp/faults setsid {before} armento node >/tmp/node.log 2>&1 </dev/null &"
        );
        self.sh(node, &start);
    }

    pub fn run(&self, node: &str, script: &str) -> Output {
        Command::new(ARMENTO)
            .args([
                "lab", "exec", "--name", &self.name, node, "--", "sh", "-c", script,
            ])
            .stdin(Stdio::null())
            .output()
            .expect("armento runs")
    }

    pub fn sh(&self, node: &str, script: &str) -> String {
        let out = self.run(node, script);
        assert!(out.status.success(), "{node}: {script}: {out:?}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

/// A failed test prints the logs of daemons and hosts as well.
impl Drop for Farm {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for node in &self.nodes {
            let said = self.run(
                node,
                "tail -n 40 /tmp/node.log /var/lib/armento/hosts/*.log",
            );
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            println!("{node} of {}:\n{said}", self.name);
        }
    }
}

/// Whether this is `make test-all`.
pub fn is_long() -> bool {
    std::env::var_os("ARMENTO_LONG_TESTS").is_some()
}

/// As [`is_long`]; prints that the test is skipped when not.
pub fn long() -> bool {
    let long = is_long();
    if !long {
        println!("skipped: takes minutes; `make test-all` runs it");
    }
    long
}

pub fn until(what: &str, happened: impl FnMut() -> bool) {
    let in_time = within(LONG, happened);
    assert!(in_time, "{what} did not happen");
}

/// Whether it happened within `limit`.
pub fn within(limit: Duration, mut happened: impl FnMut() -> bool) -> bool {
    let limit = Instant::now() + limit;
    while !happened() {
        if Instant::now() >= limit {
            return false;
        }
        sleep(Duration::from_millis(50));
    }
    true
}
