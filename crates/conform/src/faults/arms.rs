//! The failpoint files of one program: faults are set when they are due, and what was passed is read.
//!
//! From: `life.rs`, `safe/life.rs`. Next: `migrate/src/failpoint.rs`, which reads the files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use armento_migrate::phase::Failpoint;

use crate::faults::farm::{FAULTS, Farm};
use crate::faults::plan::{Fault, NODES, What};

pub struct Arms<'a> {
    farm: &'a Farm,
    /// Of the program in its campaign.
    number: u64,
    /// The node where the program was started.
    home: usize,
    /// Until its keeper has passed it the program is not disturbed.
    behind: Option<Failpoint>,
    /// From when the times of the faults count.
    started: Instant,
    /// The id of its tree, once it has one.
    tree: Option<String>,
    waiting: Vec<Fault>,
    /// With their files, which disappear when the faults take effect.
    set: Vec<(Fault, Vec<PathBuf>)>,
}

/// A failpoint that was passed, and when (CLOCK_MONOTONIC, ms).
pub struct Passed {
    pub point: String,
    pub at_ms: f64,
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

impl<'a> Arms<'a> {
    pub fn new(
        farm: &'a Farm,
        (number, home): (u64, usize),
        faults: &[Fault],
        behind: Option<Failpoint>,
    ) -> Arms<'a> {
        Arms {
            farm,
            number,
            home,
            behind,
            started: Instant::now(),
            tree: None,
            waiting: faults.to_vec(),
            set: Vec::new(),
        }
    }

    /// The directory that a program of this number names as `ARMENTO_FAULTS`.
    pub fn directory(number: u64) -> String {
        format!("{FAULTS}/{number}")
    }

    pub fn tree(&self) -> Option<&str> {
        self.tree.as_deref()
    }

    /// The directory of failpoint files of its keeper.
    fn of_keeper(&self) -> Option<PathBuf> {
        let own = format!("{}/{}", Arms::directory(self.number), self.tree.as_ref()?);
        Some(self.farm.path(self.home, &own))
    }

    /// The same of a node's host.
    fn of_host(&self, node: usize) -> Option<PathBuf> {
        let own = format!("{FAULTS}/{}", self.tree.as_ref()?);
        Some(self.farm.path(node, &own))
    }

    fn all(&self) -> impl Iterator<Item = PathBuf> {
        let hosts = (0..NODES).filter_map(|n| self.of_host(n));
        self.of_keeper().into_iter().chain(hosts)
    }

    /// Sets the faults that are due.
    pub fn look(&mut self) {
        if self.tree.is_none() {
            let dir = self.farm.path(self.home, &Arms::directory(self.number));
            let names = fs::read_dir(dir).into_iter().flatten().flatten();
            let mut names = names.filter_map(|e| e.file_name().into_string().ok());
            self.tree = names.find(|n| n.len() == 16);
        }
        if self.tree.is_none() {
            return;
        }
        if let Some(point) = self.behind {
            if !self.has_passed(point) {
                return;
            }
            self.behind = None;
            self.started = Instant::now();
        }
        let now = self.started.elapsed().as_millis() as u64;
        let (due, later): (Vec<Fault>, _) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|f| f.at_ms <= now);
        self.waiting = later;
        for f in due {
            if !self.set(&f) {
                // It has no host yet: later.
                self.waiting.push(f);
            }
        }
    }

    fn has_passed(&self, point: Failpoint) -> bool {
        let text = self
            .of_keeper()
            .map(|dir| fs::read_to_string(dir.join("points")).unwrap_or_default());
        let is = |l: &str| {
            l.split_once(' ')
                .is_some_and(|(name, _)| name == point.name())
        };
        text.is_some_and(|text| text.lines().any(is))
    }

    /// False: nothing passes its failpoint yet.
    fn set(&mut self, f: &Fault) -> bool {
        let what = match f.what {
            What::Kill => "kill".to_owned(),
            What::Freeze { ms } => format!("freeze {}", seconds(ms)),
            What::Stall { ms } => format!("stall {}", seconds(ms)),
        };
        let places: Vec<PathBuf> = match f.home {
            true => self.of_keeper().into_iter().collect(),
            false => (0..NODES).filter_map(|n| self.of_host(n)).collect(),
        };
        let mut files = Vec::new();
        for dir in places {
            // On a node where its tree has no host yet there is no folder: then the fault is for the other ones.
            let (new, file) = (dir.join("new"), dir.join(f.file()));
            let there = fs::write(&new, &what)
                .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(0o666)))
                // Renamed, so that it appears whole.
                .and_then(|()| fs::rename(&new, &file));
            if there.is_ok() {
                files.push(file);
            }
        }
        let is_set = !files.is_empty();
        if is_set {
            self.set.push((f.clone(), files));
        }
        is_set
    }

    /// Faults that took effect.
    pub fn met(&self) -> Vec<Fault> {
        let gone = |f: &&(Fault, Vec<PathBuf>)| f.1.iter().any(|file| !file.exists());
        self.set.iter().filter(gone).map(|f| f.0.clone()).collect()
    }

    /// Failpoints passed, on all nodes, in no order.
    pub fn passed(&self) -> Vec<Passed> {
        let mut all = Vec::new();
        for dir in self.all() {
            let text = fs::read_to_string(dir.join("points")).unwrap_or_default();
            all.extend(text.lines().filter_map(|line| {
                let (point, at) = line.split_once(' ')?;
                Some(Passed {
                    point: point.into(),
                    at_ms: at.parse().ok()?,
                })
            }));
        }
        all
    }

    /// Copies what the failpoints and the hosts' logs tell.
    pub fn keep(&self, to: &Path) -> Result<()> {
        for (node, dir) in (0..NODES).filter_map(|n| Some((n, self.of_host(n)?))) {
            let points = fs::read(dir.join("points")).unwrap_or_default();
            fs::write(to.join(format!("points-n{}", node + 1)), points)?;
            let logs = self.farm.path(node, "/var/lib/armento/hosts");
            let tree = self.tree.as_deref().unwrap_or("?");
            let logs = fs::read_dir(logs).into_iter().flatten().flatten();
            for log in logs.filter(|l| l.file_name().to_string_lossy().contains(tree)) {
                let name = log.file_name().to_string_lossy().into_owned();
                fs::copy(log.path(), to.join(format!("n{}-{name}", node + 1)))?;
            }
        }
        if let Some(dir) = self.of_keeper() {
            let points = fs::read(dir.join("points")).unwrap_or_default();
            fs::write(to.join("points-keeper"), points)?;
        }
        Ok(())
    }

    /// Removes the files, which are not read any more; this also keeps the nodes' disks small.
    pub fn clear(&self) {
        let own = self.farm.path(self.home, &Arms::directory(self.number));
        for dir in self.all().chain([own]).collect::<Vec<_>>() {
            let _ = fs::remove_dir_all(dir);
        }
    }
}
