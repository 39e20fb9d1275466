//! The farm of a fault campaign: nodes with daemons that the campaign starts, and can kill, freeze and disconnect.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::faults::plan::{DEAD_MS, FREEZE_MS, NODES, NodeFault};

/// Directory of failpoint files in each node.
pub const FAULTS: &str = "/tmp/faults";
/// Longest wait for daemons that start.
const UP_MAX: Duration = Duration::from_secs(30);
/// Where each node's faulty proxy listens. Hosts connect to each other through theirs; keepers, if the life has
/// `cable`.
pub const VIA: &str = "ARMENTO_DIAL_VIA=127.0.0.1:7000";
const FAULTS_OF_CABLES: &str = "reset,close,delay,stall,repeat";
/// When the next fault comes: for a keeper's links within the first megabytes or some seconds; for those between hosts,
/// which live as long as a move, earlier.
const CABLES: [&str; 2] = [
    "--bytes 2000..4000000 --every 300..6000 --pause 1..500",
    "--bytes 1000..1000000 --every 5..300 --pause 1..100",
];

/// KERNEL: tc-bpf(8), linux/pkt_cls.h: the program `ret 2` (TC_ACT_SHOT) drops each frame.
fn drop_frames(way: &str) -> String {
    format!(
        "tc qdisc add dev eth0 clsact && tc filter add dev eth0 {way} protocol all prio 1 bpf da bytecode '1,6 0 0 2'"
    )
}
const NO_DROPS: &str = "tc qdisc del dev eth0 clsact";
const SLOW: &str = "tc qdisc add dev eth0 root tbf rate 2mbit burst 3200 limit 60000";
const NOT_SLOW: &str = "tc qdisc del dev eth0 root";
/// Disks that can be filled: the daemon's, and the one of large files that are to be sent. They are small. Programs of the
/// campaign are on the one that is hidden.
pub const DISKS: &str = "mkdir -p /run/programs /var/lib/armento && mount --bind /var/tmp /run/programs && \
                         mount -t tmpfs -o size=48m,mode=755 disk /var/lib/armento && \
                         mount -t tmpfs -o size=48m,mode=1777 disk /var/tmp && for d in /run/programs/armento-guests-*; do \
                         mkdir -p /var/tmp/${d##*/} && mount --bind $d /var/tmp/${d##*/} || exit 1; done";
const FILL: &str = "for d in /var/lib/armento /var/tmp; do dd if=/dev/zero of=$d/full bs=64k 2>/dev/null; done; true";
const EMPTY: &str = "rm -f /var/lib/armento/full /var/tmp/full";

pub struct Farm {
    armento: PathBuf,
    pub name: String,
    /// The ancestor of all processes of each node, by its pid here.
    inits: Vec<u32>,
    seed: u64,
    /// Held while a fault of the node lasts.
    faulty: [Mutex<()>; NODES],
}

impl Farm {
    /// `before`: commands that each node runs before its daemon starts.
    pub fn up(armento: &Path, seed: u64, before: &[&str]) -> Result<Farm> {
        let name = format!("faults-{}", std::process::id());
        let mut farm = Farm {
            armento: armento.into(),
            name,
            inits: Vec::new(),
            seed,
            faulty: Default::default(),
        };
        let nodes = NODES.to_string();
        let up = [
            "up",
            "--nodes",
            &nodes,
            "--no-farm",
            "--link",
            "none",
            "--speed",
            "1",
            "--json",
            "--name",
        ];
        let out = farm.lab(&up)?;
        ensure!(
            out.status.success(),
            "armento lab up failed; nothing was run\nhint: armento doctor says what this machine lacks: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        );
        let said: serde_json::Value = serde_json::from_slice(&out.stdout)?;
        let pid = |n: &serde_json::Value| n["pid"].as_u64().map(|p| p as u32);
        let nodes = said["nodes"].as_array().context("a lab has nodes")?;
        farm.inits = nodes.iter().filter_map(pid).collect();
        match farm.found(before) {
            Ok(()) => Ok(farm),
            Err(e) => {
                farm.down()?;
                Err(e)
            }
        }
    }

    fn lab(&self, words: &[&str]) -> Result<Output> {
        let mut c = Command::new(&self.armento);
        c.arg("lab").args(words).arg(&self.name);
        let out = c.stdin(Stdio::null()).output();
        out.with_context(|| format!("cannot start {}", self.armento.display()))
    }

    /// A shell in a node.
    pub fn shell(&self, node: usize, script: &str) -> Command {
        let mut c = Command::new(&self.armento);
        let name = format!("n{}", node + 1);
        c.args(["lab", "exec", "--name", &self.name, &name, "--", "sh", "-c"])
            .arg(script)
            .stdin(Stdio::null());
        c
    }

    fn sh(&self, node: usize, script: &str) -> Result<String> {
        let out = self.shell(node, script).output()?;
        if !out.status.success() {
            let why = String::from_utf8_lossy(&out.stderr).into_owned();
            bail!("n{}: `{script}` failed: {}", node + 1, why.trim());
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// A path of a node, as seen from here.
    pub fn path(&self, node: usize, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.inits[node]))
    }

    fn found(&self, before: &[&str]) -> Result<()> {
        let config = format!("allow_root = true\nfreeze_ms = {FREEZE_MS}\ndead_ms = {DEAD_MS}\n");
        let address = "--listen $(hostname -i | cut -d' ' -f1):7717";
        for node in 0..NODES {
            self.sh(
                node,
                &format!("mkdir -p /etc/armento {FAULTS} /tmp/lives; chmod 777 {FAULTS}"),
            )?;
            for script in before {
                self.sh(node, script)?;
            }
            fs::write(self.path(node, "/etc/armento/config.toml"), &config)?;
            self.cable(node)?;
        }
        let said = self.sh(0, &format!("armento farm init --name n1 {address}"))?;
        let join = said
            .split_once("armento join ")
            .context("no way to join")?
            .1;
        let join = join.lines().next().unwrap_or_default();
        for node in 0..NODES {
            if node > 0 {
                self.sh(
                    node,
                    &format!(
                        "armento join {join} --same-machine --name n{} {address}",
                        node + 1
                    ),
                )?;
            }
            self.daemon(node)?;
        }
        let limit = Instant::now() + UP_MAX;
        while self
            .sh(0, "armento nodes --json")?
            .matches("\"alive\"")
            .count()
            < NODES
        {
            ensure!(Instant::now() < limit, "the nodes do not find each other");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn cable(&self, node: usize) -> Result<()> {
        let (seed, how) = (self.seed.wrapping_add(node as u64), CABLES[node.min(1)]);
        let listen = VIA.rsplit_once('=').map_or("", |v| v.1);
        let proxy = format!(
            "setsid armento lab proxy --listen {listen} --seed {seed} --faults {FAULTS_OF_CABLES} {how} \
             >>/tmp/proxy.log 2>&1 </dev/null &"
        );
        self.sh(node, &proxy).map(drop)
    }

    fn daemon(&self, node: usize) -> Result<()> {
        let start = format!(
            "{VIA} ARMENTO_FAULTS={FAULTS} setsid sh -c 'echo $$ >/tmp/node.pid; exec armento node' >>/tmp/node.log 2>&1 </dev/null & \
             for i in $(seq 150); do armento nodes >/dev/null 2>&1 && exit 0; sleep 0.1; done; exit 1"
        );
        self.sh(node, &start).map(drop)
    }

    /// Applies it, behind another one of the node, and returns after its end.
    pub fn apply(&self, node: usize, what: NodeFault) -> Result<()> {
        let _only = self.faulty[node]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let wait = |ms| std::thread::sleep(Duration::from_millis(ms));
        match what {
            NodeFault::Daemon { down_ms } => {
                self.sh(node, "kill -9 $(cat /tmp/node.pid)")?;
                wait(down_ms);
                self.daemon(node)?;
            }
            NodeFault::DaemonFrozen { ms } => {
                self.sh(node, "kill -STOP $(cat /tmp/node.pid)")?;
                wait(ms);
                self.sh(node, "kill -CONT $(cat /tmp/node.pid)")?;
            }
            NodeFault::Frozen { ms } => {
                self.freeze(node, true)?;
                wait(ms);
                self.freeze(node, false)?;
            }
            NodeFault::Cut { ms } => {
                self.sh(node, "ip link set eth0 down")?;
                wait(ms);
                self.sh(node, "ip link set eth0 up")?;
            }
            NodeFault::Deaf { ms } => self.during(node, &drop_frames("ingress"), NO_DROPS, ms)?,
            NodeFault::Mute { ms } => self.during(node, &drop_frames("egress"), NO_DROPS, ms)?,
            NodeFault::Slow { ms } => self.during(node, SLOW, NOT_SLOW, ms)?,
            NodeFault::Full { ms } => self.during(node, FILL, EMPTY, ms)?,
            NodeFault::Off { ms } => {
                self.sh(node, "kill -9 -1; true")?;
                wait(ms);
                self.cable(node)?;
                self.daemon(node)?;
            }
            NodeFault::Killed => {
                self.sh(node, "kill -9 -1; true")?;
                self.cable(node)?;
                self.daemon(node)?;
            }
        }
        Ok(())
    }

    fn during(&self, node: usize, begin: &str, end: &str, ms: u64) -> Result<()> {
        self.sh(node, begin)?;
        std::thread::sleep(Duration::from_millis(ms));
        self.sh(node, end).map(drop)
    }

    /// With a control group, which processes inside cannot see. KERNEL: cgroups(7), freezer of either version.
    fn freeze(&self, node: usize, yes: bool) -> Result<()> {
        let of = |pid: &str, name: &str| -> Option<String> {
            let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
            groups
                .lines()
                .find_map(|l| Some(l.split_once(name)?.1.trim_end_matches('/').to_owned()))
        };
        let (file, word) = if of("self", ":freezer:").is_some() {
            let group = self.group(node);
            fs::create_dir_all(&group)
                .with_context(|| format!("cannot make {}", group.display()))?;
            self.fill_freezer(node, &group);
            let word = if yes { "FROZEN" } else { "THAWED" };
            (group.join("freezer.state"), word)
        } else {
            let group = of(&self.inits[node].to_string(), "0::")
                .context("a node without a control group")?;
            let word = if yes { "1" } else { "0" };
            (
                PathBuf::from(format!("/sys/fs/cgroup{group}/cgroup.freeze")),
                word,
            )
        };
        fs::write(&file, word).with_context(|| format!("cannot freeze by {}", file.display()))
    }

    fn group(&self, node: usize) -> PathBuf {
        PathBuf::from(format!(
            "/sys/fs/cgroup/freezer/{}-n{}",
            self.name,
            node + 1
        ))
    }

    /// Puts all processes of the node into its freezer: those in its pid namespace, and their descendants.
    fn fill_freezer(&self, node: usize, group: &Path) {
        let space = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let here = space(self.inits[node]);
        let mut all: Vec<(u32, u32)> = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|n| n.parse().ok());
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let parent = stat
                .rsplit_once(") ")
                .and_then(|(_, r)| r.split(' ').nth(1)?.parse().ok());
            all.extend(pid.zip(parent));
        }
        let mut found: Vec<u32> = all
            .iter()
            .map(|p| p.0)
            .filter(|p| space(*p) == here)
            .collect();
        let mut at = 0;
        while at < found.len() {
            let more: Vec<u32> = all
                .iter()
                .filter(|(p, of)| *of == found[at] && !found.contains(p))
                .map(|p| p.0)
                .collect();
            found.extend(more);
            at += 1;
        }
        for pid in found {
            // A process that has ended meanwhile needs no freezer.
            let _ = fs::write(group.join("cgroup.procs"), pid.to_string());
        }
    }

    /// The faults of the node's proxy so far: how often each.
    pub fn cut(&self, node: usize) -> BTreeMap<String, u64> {
        let said = fs::read_to_string(self.path(node, "/tmp/proxy.log")).unwrap_or_default();
        let faults = said.lines().filter(|l| l.starts_with("connection "));
        let mut all = BTreeMap::new();
        for word in faults.filter_map(|l| l.split(' ').next_back()) {
            *all.entry(word.to_lowercase()).or_default() += 1;
        }
        all
    }

    pub fn down(&self) -> Result<()> {
        let done = self.lab(&["down", "--name"]).map(drop);
        for node in 0..NODES {
            // It exists only if the node was ever frozen.
            let _ = fs::remove_dir(self.group(node));
        }
        done
    }
}
