//! The control group hierarchies mounted on this machine, and this process's group in each.

use std::fs;
use std::path::{Path, PathBuf};

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    pub mount: PathBuf,
    /// The group in which a lab's group is made.
    pub base: PathBuf,
    /// Version 1: its mount options that name controllers, e.g. `cpu,cpuacct`. Version 2: none.
    pub v1: Option<String>,
    pub controllers: Vec<String>,
}

impl Hierarchy {
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|c| c == controller)
    }
}

/// All mounted hierarchies, from /proc.
pub fn hierarchies() -> Vec<Hierarchy> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    parse(&mounts, &own, &|mount| {
        fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default()
    })
}

fn parse(mounts: &str, own: &str, v2_controllers: &dyn Fn(&Path) -> String) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let (mut left, mut right) = (left.split(' '), right.split(' '));
        let (Some(root), Some(mount)) = (left.nth(3), left.next()) else {
            continue;
        };
        let (Some(fs), Some(options)) = (right.next(), right.nth(1)) else {
            continue;
        };
        let mount = PathBuf::from(mount);
        let one = match fs {
            "cgroup2" => {
                let controllers = v2_controllers(&mount)
                    .split_whitespace()
                    .map(str::to_owned)
                    .collect();
                Hierarchy {
                    base: mount.clone(),
                    mount,
                    v1: None,
                    controllers,
                }
            }
            "cgroup" => {
                let controllers: Vec<String> = options
                    .split(',')
                    .filter(|o| {
                        !matches!(*o, "rw" | "ro" | "xattr" | "clone_children") && !o.contains('=')
                    })
                    .map(str::to_owned)
                    .collect();
                if controllers.is_empty() {
                    continue; // a named hierarchy such as systemd's
                }
                let base = own_group(own, &controllers[0], root, &mount);
                Hierarchy {
                    mount,
                    base,
                    v1: Some(controllers.join(",")),
                    controllers,
                }
            }
            _ => continue,
        };
        if !found.iter().any(|h| h.controllers == one.controllers) {
            found.push(one);
        }
    }
    found
}

/// Directory of this process's group, for a hierarchy mounted at `mount` with `root` as its top.
fn own_group(own: &str, controller: &str, root: &str, mount: &Path) -> PathBuf {
    let path = own.lines().find_map(|l| {
        let mut parts = l.splitn(3, ':');
        let names = parts.nth(1)?;
        names
            .split(',')
            .any(|n| n == controller)
            .then(|| parts.next())?
    });
    // A group outside the visible part (`/../x`), or none: the visible top.
    let below = path
        .and_then(|p| Path::new(p).strip_prefix(root).ok())
        .unwrap_or(Path::new(""));
    if below.components().any(|c| c.as_os_str() == "..") {
        mount.into()
    } else {
        mount.join(below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found() {
        let v1 = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
                  35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                  40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";
        let own = "4:memory:/a/b\n1:cpu,cpuacct:/\n0::/\n";
        let got = parse(v1, own, &|_| String::new());
        assert_eq!(got.len(), 2);
        assert_eq!(got[0].v1.as_deref(), Some("cpu,cpuacct"));
        assert!(got[0].has("cpu") && got[0].base == Path::new("/sys/fs/cgroup/cpu"));
        assert_eq!(got[1].base, Path::new("/sys/fs/cgroup/memory/a/b"));

        let v2 = "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n";
        let got = parse(v2, "0::/user.slice\n", &|_| "cpuset cpu io memory".into());
        assert_eq!(got.len(), 1);
        assert!(got[0].has("memory") && got[0].v1.is_none());
        assert_eq!(got[0].base, Path::new("/sys/fs/cgroup"));
    }

    #[test]
    fn groups_outside_the_view_fall_back_to_the_top() {
        let mount = Path::new("/sys/fs/cgroup/cpu");
        let check = |own: &str, root: &str, want: &str| {
            assert_eq!(own_group(own, "cpu", root, mount), Path::new(want), "{own}");
        };
        check("1:cpu:/docker/x/y", "/docker/x", "/sys/fs/cgroup/cpu/y");
        check("1:cpu:/../z", "/", "/sys/fs/cgroup/cpu");
        check("1:cpu:/z", "/docker", "/sys/fs/cgroup/cpu");
        check("", "/", "/sys/fs/cgroup/cpu");
    }
}
