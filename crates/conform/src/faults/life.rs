//! One program of a fault campaign: started, moved around, disturbed as planned, judged.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use armento_migrate::phase::Failpoint;

use crate::faults::farm::{FAULTS, Farm, VIA};
use crate::faults::plan::{Fault, Life, NODES, What};

/// Rounds of the program: two to three seconds on an otherwise idle processor.
pub const ROUNDS: u32 = 120;
/// The files that it leaves, each written from beginning to end.
pub const FILES: [&str; 4] = ["out", "log", "reader", "children"];
/// Limits are 3 s (hosts) and 30 s (home); a program that takes longer than all of them hangs. On a full machine a life
/// takes twenty times as long.
const HANG: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(15);
/// Failpoints after which a process runs elsewhere.
const ARRIVED: [Failpoint; 3] = [
    Failpoint::HomeThawed,
    Failpoint::OnwardThawed,
    Failpoint::ReturnDropped,
];
const KILLED: i32 = 137;

/// The result of a program.
pub struct Ended {
    pub moves: u64,
    /// Failpoints passed, on both sides, with their counts.
    pub points: BTreeMap<String, u64>,
    /// Faults that took effect.
    pub met: Vec<Fault>,
    pub died: bool,
    /// What is wrong with that.
    pub wrong: Option<String>,
}

pub struct Stage<'a> {
    pub farm: &'a Farm,
    /// The program's path in the nodes.
    pub program: &'a Path,
    /// The content of its files after a native run.
    pub native: &'a BTreeMap<&'static str, String>,
    pub keep: &'a Path,
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

struct Running<'a> {
    stage: &'a Stage<'a>,
    life: &'a Life,
    child: Child,
    started: Instant,
    /// The id of its tree, once it has one.
    tree: Option<String>,
    waiting: Vec<Fault>,
    /// With their files, which disappear when the faults take effect.
    applied: Vec<(Fault, Vec<PathBuf>)>,
}

impl Stage<'_> {
    /// From start to end. `deadly`: whether something has happened since that moment that may kill programs.
    pub fn live(&self, life: &Life, deadly: impl Fn(Instant) -> bool) -> Result<Ended> {
        let started = Instant::now();
        let mut r = Running {
            stage: self,
            life,
            child: self.start(life)?,
            started,
            tree: None,
            waiting: life.faults.clone(),
            applied: Vec::new(),
        };
        let code = r.follow()?;
        let points = r.points();
        let gone = |f: &&(Fault, Vec<PathBuf>)| f.1.iter().any(|file| !file.exists());
        let met: Vec<Fault> = r.applied.iter().filter(gone).map(|f| f.0.clone()).collect();
        let may_die = life.cable || met.iter().any(|f| f.what.deadly()) || deadly(started);
        let wrong = r.judge(code, may_die);
        if wrong.is_some() {
            r.keep(&met);
        }
        r.clear();
        Ok(Ended {
            moves: ARRIVED.iter().filter_map(|p| points.get(p.name())).sum(),
            points,
            met,
            died: code == Some(KILLED),
            wrong,
        })
    }

    fn start(&self, life: &Life) -> Result<Child> {
        let n = life.number;
        let via = match life.cable {
            true => format!("export {VIA};"),
            false => String::new(),
        };
        let script = format!(
            "mkdir -p /tmp/lives/{n} {FAULTS}/{n} && cd /tmp/lives/{n} || exit 99; {via} export ARMENTO_FAULTS={FAULTS}/{n} \
             ARMENTO_KEEPER_LOG=/tmp/lives/{n}/keeper.log; \
             armento run --storm {} --seed {} {} {ROUNDS} >out 2>err; exit $?",
            life.storm_ms,
            life.storm_seed,
            self.program.display()
        );
        let mut c = self.farm.shell(0, &script);
        c.stdout(Stdio::null()).stderr(Stdio::null());
        c.spawn().context("cannot start a program in its node")
    }
}

impl Running<'_> {
    fn folder(&self) -> PathBuf {
        let path = format!("/tmp/lives/{}", self.life.number);
        self.stage.farm.path(0, &path)
    }

    /// The directory of failpoint files of its keeper, or of a node's host.
    fn faults(&self, node: usize) -> Option<PathBuf> {
        let own = match node {
            0 => format!("{FAULTS}/{}/{}", self.life.number, self.tree.as_ref()?),
            _ => format!("{FAULTS}/{}", self.tree.as_ref()?),
        };
        Some(self.stage.farm.path(node, &own))
    }

    /// Its exit code; `None`: it hung.
    fn follow(&mut self) -> Result<Option<i32>> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                let signal = status.signal().map(|s| 128 + s);
                return Ok(status.code().or(signal));
            }
            if self.started.elapsed() > HANG {
                return Ok(None);
            }
            self.look();
            std::thread::sleep(LOOK);
        }
    }

    /// Applies due faults. Before: its tree is known, or is being looked for.
    fn look(&mut self) {
        if self.tree.is_none() {
            let dir = format!("{FAULTS}/{}", self.life.number);
            let names = fs::read_dir(self.stage.farm.path(0, &dir))
                .into_iter()
                .flatten()
                .flatten();
            let mut names = names.filter_map(|e| e.file_name().into_string().ok());
            self.tree = names.find(|n| n.len() == 16);
        }
        if self.tree.is_none() {
            return;
        }
        let now = self.started.elapsed().as_millis() as u64;
        let (due, later) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|f| f.at_ms <= now);
        self.waiting = later;
        let due: Vec<Fault> = due;
        for f in due {
            self.apply(f);
        }
    }

    fn apply(&mut self, f: Fault) {
        let what = match f.what {
            What::Kill => "kill".to_owned(),
            What::Freeze { ms } => format!("freeze {}", seconds(ms)),
            What::Stall { ms } => format!("stall {}", seconds(ms)),
        };
        let nodes = if f.home { 0..1 } else { 1..NODES };
        let mut files = Vec::new();
        for dir in nodes.filter_map(|n| self.faults(n)) {
            // On a node where its tree has no host yet there is no folder: then the fault is for the other one.
            let (new, file) = (dir.join("new"), dir.join(f.file()));
            let there = fs::write(&new, &what)
                .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(0o666)))
                // Renamed, so that it appears whole.
                .and_then(|()| fs::rename(&new, &file));
            if there.is_ok() {
                files.push(file);
            }
        }
        self.applied.push((f, files));
    }

    fn points(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for dir in (0..NODES).filter_map(|n| self.faults(n)) {
            let text = fs::read_to_string(dir.join("points")).unwrap_or_default();
            for name in text.lines() {
                *all.entry(name.to_owned()).or_default() += 1;
            }
        }
        all
    }

    fn judge(&self, code: Option<i32>, may_die: bool) -> Option<String> {
        let died = match code {
            Some(0) => false,
            Some(KILLED) if may_die => true,
            Some(KILLED) => return Some("died without a deadly fault".into()),
            Some(code) => return Some(format!("exit code {code}")),
            None => return Some(format!("no end in {} s", HANG.as_secs())),
        };
        for (name, native) in self.stage.native {
            let got = fs::read_to_string(self.folder().join(name)).unwrap_or_default();
            if got != *native && !(died && native.starts_with(&got)) {
                let same = got
                    .lines()
                    .zip(native.lines())
                    .take_while(|(a, b)| a == b)
                    .count();
                return Some(format!(
                    "{name} differs in line {}: {:?} instead of {:?}{}",
                    same + 1,
                    got.lines().nth(same),
                    native.lines().nth(same),
                    if died { "; it died" } else { "" }
                ));
            }
        }
        None
    }

    /// Copies all its files to where the user who runs the campaign can read them.
    fn keep(&self, met: &[Fault]) {
        let to = self.stage.keep.join(self.life.number.to_string());
        let copy = || -> Result<()> {
            fs::create_dir_all(&to)?;
            for name in FILES.iter().copied().chain(["err", "keeper.log"]) {
                let from = self.folder().join(name);
                if from.exists() {
                    fs::copy(from, to.join(name))?;
                }
            }
            let plan = serde_json::json!({"life": self.life, "met": met, "tree": self.tree});
            fs::write(to.join("plan.json"), serde_json::to_vec_pretty(&plan)?)?;
            for node in 0..NODES {
                if let Some(dir) = self.faults(node).filter(|d| d.exists()) {
                    let points = fs::read(dir.join("points")).unwrap_or_default();
                    fs::write(to.join(format!("points-n{}", node + 1)), points)?;
                }
                let logs = self.stage.farm.path(node, "/var/lib/armento/hosts");
                let tree = self.tree.as_deref().unwrap_or("?");
                let logs = fs::read_dir(logs).into_iter().flatten().flatten();
                for log in logs.filter(|l| l.file_name().to_string_lossy().contains(tree)) {
                    let name = log.file_name().to_string_lossy().into_owned();
                    fs::copy(log.path(), to.join(format!("n{}-{name}", node + 1)))?;
                }
            }
            Ok(())
        };
        if let Err(e) = copy() {
            eprintln!("cannot keep the evidence in {}: {e:#}", to.display());
        }
    }

    /// Removes its failpoint files, which are not read any more; this also keeps the nodes' disks small.
    fn clear(&mut self) {
        // It hangs, or is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let folders = (0..NODES).filter_map(|n| self.faults(n));
        let own = format!("{FAULTS}/{}", self.life.number);
        let own = self.stage.farm.path(0, &own);
        for dir in folders.chain([own, self.folder()]).collect::<Vec<_>>() {
            let _ = fs::remove_dir_all(dir);
        }
    }
}
