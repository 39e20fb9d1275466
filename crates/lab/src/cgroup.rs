//! Speed and memory of nodes, by control groups of version 1 or 2.
//!
//! A lab owns one group `armento-lab-NAME.NODE` per hierarchy and node, below the group it was started in (version 1)
//! or at the root (version 2, which allows no processes beside child groups). No group holds all nodes of a lab: such a
//! group would have processes on several processors, and other groups on one of those processors may then starve.
//! KERNEL: from 6.13 on (6d71a9c61604), and in 6.18.44; fixed by 101f3498b4bd (docs/kernel-notes.md, "Control
//! groups").

use crate::disk;
use crate::hierarchy::{Hierarchy, hierarchies};
use crate::spec::{NodePlan, PERIOD_MS, Plan};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Prefix of the groups of labs, by which they are found even if the state directory is lost.
pub const PREFIX: &str = "armento-lab-";

/// Groups are searched to this depth; Armento makes none deeper.
const DEPTH_MAX: usize = 12;

/// KERNEL: `min_cfs_quota_period`, the smallest quota, microseconds.
const QUOTA_MIN_US: u64 = 1000;

/// Weight of a node against everything else on the machine: ten ordinary groups.
const SHARES_V1: &str = "10240";
const WEIGHT_V2: &str = "1000";

/// `(quota, period)` in microseconds of a node of `cores` cores, each of `speed`; `None`: no limit but its processors.
/// Without a period it is [`PERIOD_MS`], longer where the quota would be below the kernel's smallest.
fn quota(speed: f64, cores: usize, period_ms: Option<u32>) -> Option<(u64, u64)> {
    if speed >= 1.0 {
        return None;
    }
    let power = speed * cores as f64;
    let period = u64::from(period_ms.unwrap_or(PERIOD_MS)) * 1000;
    let period = period.max((QUOTA_MIN_US as f64 / power).ceil() as u64);
    Some((
        ((period as f64 * power).round() as u64).max(QUOTA_MIN_US),
        period,
    ))
}

/// The groups of one lab.
#[derive(Debug)]
pub struct Groups {
    name: String,
    period_ms: Option<u32>,
    disk: Option<u64>,
    cpu: Option<Hierarchy>,
    cpuset: Option<Hierarchy>,
    memory: Option<Hierarchy>,
    /// Version 1: accounts CPU time; in version 2 `cpu` does.
    cpuacct: Option<Hierarchy>,
    /// Throttles disks: `blkio` in version 1, `io` in version 2.
    blkio: Option<Hierarchy>,
}

impl Groups {
    /// Chooses the hierarchies; makes nothing yet.
    pub fn find(plan: &Plan) -> Result<Groups> {
        let all = hierarchies();
        let with = |c: &str| all.iter().find(|h| h.has(c)).cloned();
        let groups = Groups {
            name: format!("{PREFIX}{}", plan.name),
            period_ms: plan.period_ms,
            disk: plan.disk,
            cpu: with("cpu"),
            cpuset: with("cpuset"),
            memory: with("memory"),
            cpuacct: with("cpuacct").filter(|h| h.v1.is_some()),
            blkio: with("blkio").or_else(|| with("io")),
        };
        if groups.cpu.is_none() && plan.nodes.iter().any(|n| n.speed < 1.0) {
            bail!(
                "no cgroup controller `cpu`, so no node can be slower than a core\n\
                 hint: mount -t cgroup2 none /sys/fs/cgroup, or use --speed 1.0"
            );
        }
        if groups.memory.is_none() && plan.nodes.iter().any(|n| n.mem.is_some()) {
            bail!(
                "no cgroup controller `memory`\nhint: leave --mem out, or boot with cgroup_enable=memory"
            );
        }
        if groups.blkio.is_none() && groups.disk.is_some() {
            bail!("no cgroup controller `blkio` or `io` throttles disks\nhint: leave --disk out");
        }
        let channels = plan.nodes.iter().any(|n| n.disk_channel.is_some());
        if channels && groups.blkio.as_ref().is_some_and(|h| h.v1.is_none()) {
            bail!(
                "nodes cannot share a storage channel by control groups of version 2\nhint: leave --disk-channels out"
            );
        }
        Ok(groups)
    }

    /// Makes the group of one node. After: returns the directories that its processes must join.
    pub fn create(&self, node: &NodePlan, mem: Option<u64>) -> Result<Vec<PathBuf>> {
        let mut dirs = Vec::new();
        if let Some(h) = &self.cpu {
            let dir = self.child(h, &node.name, "cpu")?;
            set_speed(h, &dir, node, self.period_ms)?;
            dirs.push(dir);
        }
        // Without cpusets, affinity alone keeps a node on its CPU.
        if let Some(h) = &self.cpuset
            && let Ok(dir) = self.child(h, &node.name, "cpuset")
            && set_cpus(h, &dir, &node.cpus).is_ok()
        {
            dirs.push(dir);
        }
        if let Some(h) = &self.cpuacct {
            dirs.extend(self.child(h, &node.name, "cpuacct").ok());
        }
        match (&self.memory, mem) {
            (Some(h), Some(bytes)) => {
                let dir = self.child(h, &node.name, "memory")?;
                set_memory(h, &dir, bytes)?;
                dirs.push(dir);
            }
            // Without a limit, too: groups that a node's daemon makes below its group are removed with the lab.
            (Some(h), None) => dirs.extend(self.child(h, &node.name, "memory").ok()),
            (None, _) => {}
        }
        if let (Some(h), Some(rate)) = (&self.blkio, self.disk) {
            let controller = if h.v1.is_some() { "blkio" } else { "io" };
            let group = match node.disk_channel {
                Some(n) => format!("channel{n}"),
                None => node.name.clone(),
            };
            let dir = self.child(h, &group, controller)?;
            for (file, text) in disk::throttle(h.v1.is_some(), rate)? {
                put(&dir, file, &text).context("the kernel does not throttle a disk")?;
            }
            dirs.push(dir);
        }
        dirs.sort();
        dirs.dedup();
        Ok(dirs)
    }

    fn child(&self, h: &Hierarchy, node: &str, controller: &str) -> Result<PathBuf> {
        let dir = h.base.join(format!("{}.{node}", self.name));
        if h.v1.is_none() {
            enable(&h.base, controller)?;
        }
        mkdir(&dir)?;
        match (controller, &h.v1) {
            ("cpu", Some(_)) => put(&dir, "cpu.shares", SHARES_V1)?,
            ("cpu", None) => put(&dir, "cpu.weight", WEIGHT_V2)?,
            ("cpuset", Some(_)) => inherit_cpuset(&h.base, &dir)?,
            _ => {}
        }
        Ok(dir)
    }
}

fn enable(dir: &Path, controller: &str) -> Result<()> {
    put(dir, "cgroup.subtree_control", &format!("+{controller}")).with_context(|| {
        format!(
            "controller `{controller}` cannot be used below {}\n\
             hint: in a container, run it with its own cgroup namespace and no process in the top group",
            dir.display()
        )
    })
}

fn set_speed(h: &Hierarchy, dir: &Path, node: &NodePlan, period_ms: Option<u32>) -> Result<()> {
    match quota(node.speed, node.cores, period_ms) {
        Some(limit) => put_quota(dir, h.v1.is_none(), limit),
        None => Ok(()),
    }
}

fn put_quota(dir: &Path, v2: bool, (quota, period): (u64, u64)) -> Result<()> {
    if v2 {
        return put(dir, "cpu.max", &format!("{quota} {period}"));
    }
    put(dir, "cpu.cfs_period_us", &period.to_string())?;
    put(dir, "cpu.cfs_quota_us", &quota.to_string())
}

/// Changes the speed of the cores of a running node; `groups` are the node's.
pub fn change_speed(
    groups: &[PathBuf],
    speed: f64,
    cores: usize,
    period_ms: Option<u32>,
) -> Result<()> {
    let with = |file: &str| groups.iter().find(|dir| dir.join(file).exists());
    let (v1, v2) = (with("cpu.cfs_quota_us"), with("cpu.max"));
    let Some(dir) = v1.or(v2) else {
        bail!("the lab has no control group for speed")
    };
    match quota(speed, cores, period_ms) {
        Some(limit) => put_quota(dir, v1.is_none(), limit),
        None if v1.is_some() => put(dir, "cpu.cfs_quota_us", "-1"),
        None => put(dir, "cpu.max", "max"),
    }
}

fn set_cpus(h: &Hierarchy, dir: &Path, cpus: &[usize]) -> Result<()> {
    let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
    put(dir, "cpuset.cpus", &list.join(","))?;
    if h.v1.is_none() {
        return Ok(());
    }
    let mems = fs::read_to_string(dir.join("cpuset.mems"))?;
    if mems.trim().is_empty() {
        bail!("{} has no memory nodes", dir.display())
    } else {
        Ok(())
    }
}

fn set_memory(h: &Hierarchy, dir: &Path, bytes: u64) -> Result<()> {
    let bytes = bytes.to_string();
    if h.v1.is_none() {
        put(dir, "memory.max", &bytes)?;
        let _ = put(dir, "memory.swap.max", "0"); // absent without swap
        return Ok(());
    }
    put(dir, "memory.limit_in_bytes", &bytes)?;
    let _ = put(dir, "memory.memsw.limit_in_bytes", &bytes); // absent without swap accounting
    Ok(())
}

/// KERNEL: a new version 1 cpuset is empty and takes no process before both files are set.
fn inherit_cpuset(from: &Path, to: &Path) -> Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let value = fs::read_to_string(from.join(file))?;
        if fs::read_to_string(to.join(file))?.trim().is_empty() {
            put(to, file, value.trim())?;
        }
    }
    Ok(())
}

fn mkdir(dir: &Path) -> Result<()> {
    match fs::create_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.with_context(|| format!("cannot make the control group {}", dir.display())),
    }
}

fn put(dir: &Path, file: &str, value: &str) -> Result<()> {
    let path = dir.join(file);
    fs::write(&path, value).with_context(|| format!("cannot write `{value}` to {}", path.display()))
}

/// CPU time that all processes in these groups of one node have used so far, microseconds.
pub fn used_us(dirs: &[PathBuf]) -> Option<u64> {
    let v1 = |dir: &PathBuf| {
        let text = fs::read_to_string(dir.join("cpuacct.usage")).ok()?;
        Some(text.trim().parse::<u64>().ok()? / 1000)
    };
    let v2 = |dir: &PathBuf| {
        let text = fs::read_to_string(dir.join("cpu.stat")).ok()?;
        let line = text.lines().find_map(|l| l.strip_prefix("usage_usec "))?;
        line.trim().parse().ok()
    };
    dirs.iter().find_map(|dir| v1(dir).or_else(|| v2(dir)))
}

/// Puts the calling process into these groups.
pub fn join(dirs: &[PathBuf]) -> Result<()> {
    dirs.iter().try_for_each(|d| put(d, "cgroup.procs", "0"))
}

/// The groups of all labs' nodes on this machine, of any process, each with its lab's name.
pub fn all_labs() -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for h in hierarchies() {
        walk(&h.mount, DEPTH_MAX, &mut |dir| {
            let lab = lab_of(dir);
            let deeper = lab.is_none();
            found.extend(lab.map(|lab| (lab, dir.to_owned())));
            deeper
        });
    }
    found
}

/// The groups of the lab `name`.
pub fn of_lab(name: &str) -> Vec<PathBuf> {
    let all = all_labs().into_iter();
    all.filter(|(lab, _)| lab == name).map(|(_, d)| d).collect()
}

/// The lab that a group belongs to; names of labs have no dot.
fn lab_of(dir: &Path) -> Option<String> {
    let full = dir.file_name()?.to_str()?.strip_prefix(PREFIX)?;
    let lab = full.split_once('.').map_or(full, |(lab, _)| lab);
    Some(lab.to_owned())
}

/// Processes in `dir` and below.
pub fn members(dir: &Path) -> Vec<i32> {
    let mut pids = Vec::new();
    walk(dir, DEPTH_MAX, &mut |d| {
        let text = fs::read_to_string(d.join("cgroup.procs")).unwrap_or_default();
        pids.extend(text.lines().filter_map(|l| l.parse::<i32>().ok()));
        true
    });
    pids
}

/// Removes `dir` and all groups below it. Before: no process is left in them.
pub fn remove(dir: &Path) -> io::Result<()> {
    let mut dirs = Vec::new();
    walk(dir, DEPTH_MAX, &mut |d| {
        dirs.push(d.to_owned());
        true
    });
    for d in dirs.iter().rev() {
        match fs::remove_dir(d) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// Parents before children; `visit` returns whether to go deeper.
fn walk(dir: &Path, depth: usize, visit: &mut dyn FnMut(&Path) -> bool) {
    if !dir.is_dir() || !visit(dir) || depth == 0 {
        return;
    }
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries
        .flatten()
        .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
    {
        walk(&entry.path(), depth - 1, visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_nodes_get_a_quota_the_kernel_accepts() {
        let usual = |speed| quota(speed, 1, None);
        assert_eq!(usual(1.0), None);
        assert_eq!(usual(0.25), Some((2500, 10_000)));
        assert_eq!(usual(0.1), Some((1000, 10_000)));
        assert_eq!(usual(0.01), Some((1000, 100_000)));
        assert_eq!(quota(1.0, 4, None), None);
        assert_eq!(quota(0.25, 4, None), Some((10_000, 10_000)));
        assert_eq!(quota(0.25, 1, Some(4)), Some((1000, 4000)));
        assert_eq!(quota(0.25, 2, Some(100)), Some((50_000, 100_000)));
        for s in 1..100 {
            let s = f64::from(s) / 100.0;
            let (q, p) = usual(s).unwrap();
            assert!(q >= QUOTA_MIN_US && p <= 1_000_000);
            assert!((q as f64 / p as f64 - s).abs() < 0.001, "{s}");
        }
    }

    /// Plain files replace the kernel's; tests/lab uses real ones on version 2 machines.
    #[test]
    fn version_2_files_follow_the_kernel_s_manual() {
        let top = std::env::temp_dir().join(format!("armento-cgroup-{}", std::process::id()));
        fs::create_dir(&top).unwrap();
        let h = Hierarchy {
            mount: top.clone(),
            base: top.clone(),
            v1: None,
            controllers: vec![],
        };
        let groups = Groups {
            name: "armento-lab-x".into(),
            period_ms: None,
            disk: None,
            cpu: Some(h.clone()),
            cpuset: Some(h.clone()),
            memory: Some(h),
            cpuacct: None,
            blkio: None,
        };
        let node = NodePlan {
            name: "n1".into(),
            addr: String::new(),
            second_addr: None,
            prefix: 24,
            second_prefix: 24,
            speed: 0.3,
            cores: 1,
            cpus: vec![1],
            mem: None,
            disk_channel: None,
        };
        let dirs = groups.create(&node, Some(64 << 20));
        let read = |dir: &Path, f: &str| fs::read_to_string(dir.join(f)).unwrap_or_default();
        let n1 = top.join("armento-lab-x.n1");
        let got = ["cpu.max", "cpuset.cpus", "memory.max", "memory.swap.max"].map(|f| read(&n1, f));
        let weight = read(&n1, "cpu.weight");
        let enabled = read(&top, "cgroup.subtree_control");
        fs::remove_dir_all(&top).unwrap();
        assert_eq!(lab_of(&n1).as_deref(), Some("x"));
        assert_eq!(dirs.unwrap(), [n1]);
        assert_eq!(got, ["3000 10000", "1", "67108864", "0"]);
        assert_eq!((weight.as_str(), enabled.as_str()), (WEIGHT_V2, "+memory"));
    }
}
