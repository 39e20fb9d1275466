//! Limits of the control groups above this process, v1 and v2.
//!
//! KERNEL: Documentation/admin-guide/cgroup-v1, cgroup-v2.rst. A limit holds for a group and all below, so every level
//! from the process's own group to the mounted root counts.

use std::path::{Path, PathBuf};

/// Directory of one controller's files of this process's group, and of the groups above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub v2: bool,
    /// The mount point, without a trailing slash.
    mount: String,
    /// Path below the mount point, `/` or `/a/b`.
    path: String,
}

/// Reads a file; tests supply their own files.
pub(crate) type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Memory that groups allow, KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub total_kib: u64,
    pub free_kib: u64,
}

/// Version 2: the group below its own to which a daemon moves itself, so that the groups of hosts are siblings of the
/// daemon's.
pub const OWN: &str = "daemon";

/// One controller, and the directory of this process's own group; for a group named [`OWN`] its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    pub name: &'static str,
    pub v2: bool,
    pub dir: PathBuf,
}

/// The directory in which groups with controller `name` (`cpu`, `memory`) can be made.
pub fn controller(name: &'static str) -> Option<Controller> {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    let group = Group::find(
        &read("/proc/self/cgroup"),
        &read("/proc/self/mountinfo"),
        name,
    )?;
    let dir = above_own(group.levels().next()?.into(), group.v2);
    let has = |file: &str| {
        read_to_string(dir.join(file))
            .split_whitespace()
            .any(|c| c == name)
    };
    (!group.v2 || has("cgroup.controllers")).then_some(Controller {
        name,
        v2: group.v2,
        dir,
    })
}

/// As [`controller`], below a given group of version 2 in which groups may be made.
pub fn controller_at(name: &'static str, dir: &Path) -> Option<Controller> {
    let on = read_to_string(dir.join("cgroup.controllers"));
    on.split_whitespace()
        .any(|c| c == name)
        .then(|| Controller {
            name,
            v2: true,
            dir: dir.to_owned(),
        })
}

/// The directory in which groups can be made: a daemon in the group [`OWN`] finds the groups of its hosts again.
fn above_own(dir: PathBuf, v2: bool) -> PathBuf {
    match dir.parent() {
        Some(above) if v2 && dir.ends_with(OWN) => above.into(),
        _ => dir,
    }
}

fn read_to_string(path: PathBuf) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

impl Group {
    /// The group of `controller` (`cpu`, `memory`). v1 wins where both exist: a controller is in
    /// one of them only, and only v1 names its controllers in the mount's options.
    pub fn find(cgroups: &str, mountinfo: &str, controller: &str) -> Option<Group> {
        let member = |v1: bool| {
            cgroups.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let (names, path) = (parts.next()?, parts.next()?);
                let ours = if v1 {
                    names.split(',').any(|n| n == controller)
                } else {
                    names.is_empty()
                };
                ours.then_some(path)
            })
        };
        let at = |v1: bool| {
            let path = member(v1)?;
            let mounts: Vec<Mount> = mountinfo
                .lines()
                .filter_map(Mount::parse)
                .filter(|mount| mount.shows(controller, v1))
                .collect();
            // A later mount may hide an earlier one; a mount from outside this namespace has the groups of others at
            // its root.
            let ours = mounts.iter().rfind(|mount| !mount.root.starts_with("/.."));
            ours.or(mounts.last())
                .map(|mount| Group::below(mount, path, !v1))
        };
        at(true).or_else(|| at(false))
    }

    /// A mount may show only a part of the hierarchy: `root` of it.
    fn below(mount: &Mount, path: &str, v2: bool) -> Group {
        // `/..` means that the group is outside this namespace.
        let seen = if path.starts_with("/..") { "/" } else { path };
        let inside = seen.strip_prefix(mount.root).filter(|_| mount.root != "/");
        let path = inside.unwrap_or(seen);
        Group {
            v2,
            mount: mount.point.trim_end_matches('/').to_owned(),
            path: path.to_owned(),
        }
    }

    /// Directories from this process's group up to the mount point.
    pub fn levels(&self) -> impl Iterator<Item = String> {
        let mut path = Some(self.path.trim_end_matches('/').to_owned());
        let mount = self.mount.clone();
        std::iter::from_fn(move || {
            let now = path.take()?;
            path = now.rfind('/').map(|cut| now[..cut].to_owned());
            Some(format!("{mount}{now}"))
        })
    }

    /// Thousandths of a processor that the tightest level allows; `None` without a limit.
    pub fn cpu_milli(&self, read: Read) -> Option<u64> {
        let quota = |dir: String| -> Option<u64> {
            let (quota, period) = if self.v2 {
                let text = read(&format!("{dir}/cpu.max"))?;
                let mut words = text.split_whitespace();
                (words.next()?.parse().ok()?, words.next()?.parse().ok()?)
            } else {
                let number =
                    |name: &str| read(&format!("{dir}/{name}"))?.trim().parse::<u64>().ok();
                (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
            };
            (quota * 1000).checked_div(period)
        };
        self.levels().filter_map(quota).min()
    }

    /// The tightest level of memory; `None` without a limit. `pressed`: the page cache is in use.
    pub fn memory(&self, read: Read, pressed: bool) -> Option<Allowed> {
        self.levels()
            .filter_map(|dir| self.memory_at(&dir, read, pressed))
            .min_by_key(|at| at.free_kib)
    }

    fn memory_at(&self, dir: &str, read: Read, pressed: bool) -> Option<Allowed> {
        let (limit, usage, key) = match self.v2 {
            true => ("memory.max", "memory.current", "inactive_file"),
            false => (
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            ),
        };
        let bytes = |name: &str| read(&format!("{dir}/{name}"))?.trim().parse::<u64>().ok();
        // Without a limit v1 has a number near 2^63, v2 has `max`, which is no number.
        let limit = bytes(limit).filter(|&limit| limit < 1 << 60)?;
        // Clean file pages are dropped before anything is swapped: they count as free.
        let spare = read(&format!("{dir}/memory.stat"))
            .filter(|_| !pressed)
            .and_then(|text| value(&text, key))
            .unwrap_or(0);
        let used = bytes(usage).unwrap_or(0).saturating_sub(spare);
        Some(Allowed {
            total_kib: limit / 1024,
            free_kib: limit.saturating_sub(used) / 1024,
        })
    }
}

fn value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        line.strip_prefix(key)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    })
}

/// One line of `/proc/self/mountinfo`.
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn shows(&self, controller: &str, v1: bool) -> bool {
        match v1 {
            true => self.kind == "cgroup" && self.options.split(',').any(|o| o == controller),
            false => self.kind == "cgroup2",
        }
    }

    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (place, what) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut what = what.split(' ');
        let (root, point) = (place.next()?, place.next()?);
        let (kind, _source) = (what.next()?, what.next()?);
        Some(Mount {
            root,
            point,
            kind,
            options: what.next().unwrap_or(""),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "24 22 0:21 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
        25 22 0:22 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
        26 22 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const MEMBER: &str = "4:memory:/lab/n1\n1:cpu,cpuacct:/lab/n1\n0::/\n";
    const V2: &str = "31 22 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

    fn files<'a>(list: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |path| {
            list.iter()
                .find(|(p, _)| *p == path)
                .map(|(_, text)| (*text).to_owned())
        }
    }

    #[test]
    fn tightest_quota_of_all_levels_counts() {
        let check = |cgroups, mounts, list: &[(&str, &str)], want| {
            let group = Group::find(cgroups, mounts, "cpu");
            assert_eq!(
                group.and_then(|g| g.cpu_milli(&files(list))),
                want,
                "{list:?}"
            );
        };
        let dir = "/sys/fs/cgroup/cpu";
        let (own, own_period) = (
            format!("{dir}/lab/n1/cpu.cfs_quota_us"),
            format!("{dir}/lab/n1/cpu.cfs_period_us"),
        );
        let (up, up_period) = (
            format!("{dir}/lab/cpu.cfs_quota_us"),
            format!("{dir}/lab/cpu.cfs_period_us"),
        );
        check(
            MEMBER,
            V1,
            &[(&own, "8000\n"), (&own_period, "20000\n")],
            Some(400),
        );
        check(
            MEMBER,
            V1,
            &[(&own, "-1\n"), (&own_period, "20000\n")],
            None,
        );
        let above = [
            (&*own, "8000\n"),
            (&*own_period, "20000\n"),
            (&*up, "5000"),
            (&*up_period, "20000"),
        ];
        check(MEMBER, V1, &above, Some(250));
        check(MEMBER, V1, &[(&own, "8000\n"), (&own_period, "0\n")], None);
        check(
            "0::/lab/n1\n",
            V2,
            &[("/sys/fs/cgroup/lab/n1/cpu.max", "30000 100000\n")],
            Some(300),
        );
        check(
            "0::/lab/n1\n",
            V2,
            &[("/sys/fs/cgroup/lab/n1/cpu.max", "max 100000\n")],
            None,
        );
        check("", "", &[], None);
    }

    #[test]
    fn clean_file_pages_count_as_free() {
        let check = |cgroups, mounts, list: &[(&str, &str)], want: Option<(u64, u64)>| {
            let group = Group::find(cgroups, mounts, "memory");
            let got = group.as_ref().and_then(|g| g.memory(&files(list), false));
            assert_eq!(got.map(|a| (a.total_kib, a.free_kib)), want, "{list:?}");
        };
        let at = |name: &str| format!("/sys/fs/cgroup/memory/lab/n1/{name}");
        let (limit, usage, stat) = (
            at("memory.limit_in_bytes"),
            at("memory.usage_in_bytes"),
            at("memory.stat"),
        );
        let text = "inactive_file 0\ntotal_inactive_file 1024\ntotal_inactive_file_x 9\n";
        check(
            MEMBER,
            V1,
            &[(&limit, "8192\n"), (&usage, "4096\n"), (&stat, text)],
            Some((8, 5)),
        );
        let pressed = [(&*limit, "8192"), (&*usage, "4096"), (&*stat, text)];
        let group = Group::find(MEMBER, V1, "memory").unwrap();
        let free = group.memory(&files(&pressed), true).map(|a| a.free_kib);
        assert_eq!(free, Some(4));
        check(
            MEMBER,
            V1,
            &[(&limit, "9223372036854771712\n"), (&usage, "4096\n")],
            None,
        );
        let v2 = [
            ("/sys/fs/cgroup/lab/memory.max", "8192"),
            ("/sys/fs/cgroup/lab/memory.current", "9000"),
        ];
        check("0::/lab/n1\n", V2, &v2, Some((8, 0)));
        check(
            "0::/lab/n1\n",
            V2,
            &[("/sys/fs/cgroup/lab/memory.max", "max\n")],
            None,
        );
    }

    #[test]
    fn mount_may_show_a_part_of_the_hierarchy() {
        let check = |root: &str, path: &str, want: &[&str]| {
            let mounts = format!("24 22 0:21 {root} /cg rw - cgroup2 none rw\n");
            let group = Group::find(&format!("0::{path}\n"), &mounts, "cpu").unwrap();
            assert_eq!(
                group.levels().collect::<Vec<_>>(),
                want,
                "{path} below {root}"
            );
        };
        check("/", "/", &["/cg"]);
        check("/", "/a/b", &["/cg/a/b", "/cg/a", "/cg"]);
        check("/a", "/a/b", &["/cg/b", "/cg"]);
        check("/a", "/a", &["/cg"]);
        check("/..", "/../x", &["/cg"]);
    }

    #[test]
    fn node_s_own_mount_hides_the_machine_s() {
        let mounts = "48 47 0:29 /.. /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
            65 64 0:29 / /own/cpu rw - cgroup none rw,cpu\n\
            66 64 0:40 /../.. /late rw - cgroup none rw,cpu\n";
        let group = Group::find("1:cpu:/\n", mounts, "cpu").unwrap();
        assert_eq!(group.levels().collect::<Vec<_>>(), ["/own/cpu"]);
        let group = Group::find("1:cpu:/\n", mounts.lines().next().unwrap(), "cpu").unwrap();
        assert_eq!(group.levels().collect::<Vec<_>>(), ["/sys/fs/cgroup/cpu"]);
    }

    #[test]
    fn groups_of_hosts_are_siblings_of_the_daemon_s() {
        let check =
            |dir: &str, v2, want: &str| assert_eq!(above_own(dir.into(), v2), PathBuf::from(want));
        check(
            "/sys/fs/cgroup/a/armento.service",
            true,
            "/sys/fs/cgroup/a/armento.service",
        );
        check(
            "/sys/fs/cgroup/a/armento.service/daemon",
            true,
            "/sys/fs/cgroup/a/armento.service",
        );
        check(
            "/sys/fs/cgroup/memory/daemon",
            false,
            "/sys/fs/cgroup/memory/daemon",
        );
        check(
            "/sys/fs/cgroup/a/my-daemon",
            true,
            "/sys/fs/cgroup/a/my-daemon",
        );
    }
}
