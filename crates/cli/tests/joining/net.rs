//! A lab without a farm: its nodes make and join one as an administrator would.

use armento_lab::{Lab, Link, Spec};
use std::fs;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const ARMENTO: &str = env!("CARGO_BIN_EXE_armento");
/// Longest wait for any event.
const LONG: Duration = Duration::from_secs(60);

pub struct Net {
    name: String,
    lab: Lab,
}

impl Net {
    pub fn up(what: &str, nodes: usize) -> Option<Net> {
        let root =
            fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0\t"));
        if !root {
            println!("skipped: {what} needs root (namespaces, mounts, control groups)");
            return None;
        }
        let name = format!("j{}-{what}", std::process::id());
        let spec = Spec {
            name: name.clone(),
            nodes,
            speeds: vec![1.0],
            link: Link::None,
            farm: false,
            exe: Some(ARMENTO.into()),
            ..Spec::default()
        };
        let lab = Lab::up(spec).expect("a lab");
        let net = Net { name, lab };
        for (n, node) in (1..).zip(net.nodes()) {
            // Each node counts as a machine of its own.
            net.sh(&node, &format!("printf '%032x\\n' {n}7 > /etc/machine-id"));
        }
        Some(net)
    }

    pub fn nodes(&self) -> Vec<String> {
        self.lab.nodes().iter().map(|n| n.name.clone()).collect()
    }

    /// The address that the lab gave to n1, n2, …
    pub fn addr(&self, n: usize) -> String {
        self.lab.node(n).addr.clone()
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

    /// Standard error of a command that fails as Armento does: one line, one hint, with these words.
    pub fn fails(&self, node: &str, script: &str, words: &[&str]) -> String {
        let out = self.run(node, script);
        assert_eq!(out.status.code(), Some(125), "{script}: {out:?}");
        assert!(out.stdout.is_empty(), "{script}: {out:?}");
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        let lines: Vec<&str> = err.lines().collect();
        assert_eq!(lines.len(), 2, "{script}: {err}");
        assert!(
            lines[0].starts_with("armento: ") && lines[1].starts_with("hint: "),
            "{err}"
        );
        for word in words {
            assert!(err.contains(word), "{script}: no `{word}` in: {err}");
        }
        err
    }

    /// A join that is refused, after which neither side has recorded the other.
    pub fn refuses(&self, node: &str, script: &str, words: &[&str]) {
        self.fails(node, script, words);
        self.sh(node, "test ! -e /var/lib/armento/farm.json");
        if self.run("n1", "armento nodes").status.success() {
            let nodes = self.sh("n1", "armento nodes --json");
            assert_eq!(nodes.matches("\"name\"").count(), 1, "{script}: {nodes}");
        }
    }

    /// `before`: command prefix.
    pub fn daemon(&self, node: &str, before: &str) {
        self.start(node, before);
        until("the daemon", || {
            self.run(node, "armento nodes").status.success()
        });
    }

    pub fn start(&self, node: &str, before: &str) {
        self.sh(
            node,
            &format!("setsid {before} armento node >/tmp/node.log 2>&1 </dev/null &"),
        );
    }

    pub fn stop(&self, node: &str) {
        let stop = "p=$(cat /var/lib/armento/lock); kill $p; while kill -0 $p 2>/dev/null; do sleep 0.01; done";
        self.sh(node, stop);
    }

    /// Makes a farm on n1; returns `TOKEN ADDRESS` as printed.
    pub fn init(&self, options: &str) -> String {
        let said = self.sh("n1", &format!("armento farm init --name n1 {options}"));
        let (_, join) = said.split_once("armento join ").expect("the join command");
        join.lines().next().expect("a line").to_owned()
    }

    pub fn sees(&self, node: &str, other: &str, words: &[&str]) {
        until(&format!("{node} sees {other} {words:?}"), || {
            let out = self.sh(node, "armento nodes");
            let line = out.lines().find(|l| l.starts_with(other));
            line.is_some_and(|l| words.iter().all(|w| l.contains(w)))
        });
    }
}

/// A failed test prints the logs of the daemons as well.
impl Drop for Net {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for node in self.nodes() {
            let said = self.run(&node, "tail -n 40 /tmp/node.log");
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            println!("{node} of {}:\n{said}", self.name);
        }
    }
}

pub fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let limit = Instant::now() + LONG;
    while !happened() {
        assert!(Instant::now() < limit, "{what} did not happen");
        sleep(Duration::from_millis(50));
    }
}
