//! A node's own root: the machine's files as the lower layer, all writes kept apart.
//!
//! All of it lives in one tmpfs (the node's disk) mounted only in the node's mount namespace, so the kernel removes it
//! with the node's last process:
//!
//! ```text
//!   MNT/upper/N, work/N   what the node changed, per file system of the machine
//!   MNT/tmp run lib       its /tmp, /run and /var/lib/armento
//!   MNT/root              where the overlay is built; becomes /
//! ```

use crate::hierarchy::hierarchies;
use crate::rsh;
use crate::spec::{Plan, Share};
use crate::sys::{self, MS_BIND, MS_NOEXEC, MS_NOSUID, MS_PRIVATE, MS_RDONLY, MS_REC, MS_REMOUNT};
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A node's disk: generous for results, but a runaway guest must not fill the machine's memory. Below 4 GiB of free space
/// no write is posted (`POSTS_MARGIN`, `wire/src/talk.rs`).
const DISK: &str = "size=8g,mode=755";

/// Replaced by the node's own: mounts of the machine at or below these paths are not copied.
const OWN: [&str; 8] = [
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/tmp",
    "/var/lib/armento",
    "/etc/hosts",
    "/etc/hostname",
];

/// Device nodes that programs may expect, taken from the machine where it has them.
const DEVICES: [&str; 9] = [
    "null",
    "zero",
    "full",
    "random",
    "urandom",
    "tty",
    "fuse",
    "userfaultfd",
    "net/tun",
];

/// Builds the root of node `me` and moves into it.
/// Before: own mount, pid, network, IPC and cgroup namespaces; `mnt` is an empty directory.
pub fn enter(plan: &Plan, me: usize, mnt: &Path) -> Result<()> {
    let nothing = Path::new("");
    sys::mount(nothing, Path::new("/"), "", MS_REC | MS_PRIVATE, "")
        .context("cannot make mounts private")?;
    sys::mount(Path::new("armento-disk"), mnt, "tmpfs", 0, DISK).context("cannot mount a tmpfs")?;
    for (dir, mode) in [
        ("upper", 0o700),
        ("work", 0o700),
        ("root", 0o755),
        ("tmp", 0o1777),
        ("run", 0o755),
        ("lib", 0o700),
    ] {
        mkdir(&mnt.join(dir), mode)?;
    }
    let root = mnt.join("root");
    overlay(mnt, 0, Path::new("/"), &root)?;
    take_over_mounts(mnt, &root)?;
    for (own, at) in [("tmp", "tmp"), ("run", "run"), ("lib", "var/lib/armento")] {
        fs::create_dir_all(root.join(at))?;
        sys::mount(&mnt.join(own), &root.join(at), "", MS_BIND, "")
            .with_context(|| format!("/{at}"))?;
    }
    mkdir(&root.join("run/lock"), 0o1777)?;
    kernel_files(&root)?;
    devices(&root)?;
    names(plan, me, &root)?;
    install_armento(plan, &root)?;
    for share in &plan.shares {
        bind_share(share, &root)?;
    }
    rsh::install(plan, &root)?;
    std::env::set_current_dir(&root)?;
    sys::pivot_root_here().context("cannot change the root")
}

/// Lays an empty upper layer over `lower` and mounts the whole at `at`.
fn overlay(mnt: &Path, n: usize, lower: &Path, at: &Path) -> Result<()> {
    let (upper, work) = (
        mnt.join(format!("upper/{n}")),
        mnt.join(format!("work/{n}")),
    );
    let mode = fs::metadata(lower)?.permissions().mode();
    mkdir(&upper, mode & 0o7777)?;
    mkdir(&work, 0o700)?;
    let layers = format!(
        "lowerdir={},upperdir={},workdir={}",
        escape(lower),
        escape(&upper),
        escape(&work)
    );
    // xino: device and inode of a file are then the same in stat, fstat and /proc/PID/maps.
    let source = Path::new("armento-root");
    sys::mount(source, at, "overlay", 0, &format!("{layers},xino=on"))
        .or_else(|_| sys::mount(source, at, "overlay", 0, &layers))
        .with_context(|| {
            format!("cannot lay an overlay over {}\nhint: modprobe overlay; in a container, give it CAP_SYS_ADMIN", lower.display())
        })
}

/// KERNEL: in overlay options `:` separates layers and `,` options; a backslash quotes them.
fn escape(path: &Path) -> String {
    path.to_string_lossy()
        .replace('\\', "\\\\")
        .replace(':', "\\:")
        .replace(',', "\\,")
}

/// An overlay does not cross mounts. File systems that the machine mounts over its root are mounted over the node's as
/// well: disks get an overlay of their own, the rest is bound read-only.
fn take_over_mounts(mnt: &Path, root: &Path) -> Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    for (n, (at, fs)) in foreign_mounts(&table, mnt).into_iter().enumerate() {
        let below = root.join(at.strip_prefix("/")?);
        if !at.exists() || !below.exists() {
            continue; // hidden under a later mount
        }
        let disk = at.is_dir() && fs != "tmpfs" && !fs.starts_with("fuse");
        if !(disk && overlay(mnt, n + 1, &at, &below).is_ok()) {
            sys::mount(&at, &below, "", MS_BIND, "")
                .with_context(|| format!("cannot bind {}", at.display()))?;
            sys::mount(
                Path::new(""),
                &below,
                "",
                MS_BIND | MS_REMOUNT | MS_RDONLY,
                "",
            )
            .with_context(|| format!("cannot protect {}", at.display()))?;
        }
    }
    Ok(())
}

/// Mount points below / that a node's own files do not replace, in mount order, with their types.
fn foreign_mounts(table: &str, mnt: &Path) -> Vec<(PathBuf, String)> {
    let mut found: Vec<(PathBuf, String)> = Vec::new();
    for line in table.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let (Some(at), Some(fs)) = (left.split(' ').nth(4), right.split(' ').next()) else {
            continue;
        };
        let at = PathBuf::from(unescape(at));
        let own = OWN.iter().any(|o| at.starts_with(o)) || at.starts_with(mnt);
        let virtual_fs = matches!(
            fs,
            "autofs" | "binfmt_misc" | "nsfs" | "rpc_pipefs" | "proc" | "sysfs"
        );
        if at != Path::new("/") && !own && !virtual_fs {
            found.retain(|(p, _)| *p != at); // the later mount hides the earlier
            found.push((at, fs.into()));
        }
    }
    found
}

/// KERNEL: mountinfo writes space, tab, newline and backslash as octal.
fn unescape(s: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(s.to_owned(), |s, (code, char)| s.replace(code, char))
}

/// /proc, /sys and the node's own control groups, which it sees as the top.
fn kernel_files(root: &Path) -> Result<()> {
    let safe = MS_NOSUID | MS_NOEXEC;
    sys::mount(Path::new("proc"), &root.join("proc"), "proc", safe, "")
        .context("cannot mount /proc")?;
    sys::mount(Path::new("sysfs"), &root.join("sys"), "sysfs", safe, "")
        .context("cannot mount /sys")?;
    let hierarchies = hierarchies();
    let top = root.join("sys/fs/cgroup");
    if let [only] = &hierarchies[..]
        && only.v1.is_none()
    {
        return sys::mount(Path::new("cgroup2"), &top, "cgroup2", safe, "")
            .context("cannot mount cgroup2");
    }
    sys::mount(
        Path::new("cgroup"),
        &top,
        "tmpfs",
        safe,
        "size=64k,mode=755",
    )
    .context("/sys/fs/cgroup")?;
    for h in &hierarchies {
        let Some(name) = h.mount.file_name() else {
            continue;
        };
        let at = top.join(name);
        fs::create_dir(&at)?;
        let mounted = match &h.v1 {
            Some(options) => sys::mount(Path::new("cgroup"), &at, "cgroup", safe, options),
            None => sys::mount(Path::new("cgroup2"), &at, "cgroup2", safe, ""),
        };
        mounted.with_context(|| format!("cannot mount {}", at.display()))?;
    }
    Ok(())
}

fn devices(root: &Path) -> Result<()> {
    let dev = root.join("dev");
    sys::mount(
        Path::new("dev"),
        &dev,
        "tmpfs",
        MS_NOSUID,
        "size=64k,mode=755",
    )
    .context("/dev")?;
    for name in DEVICES
        .iter()
        .filter(|n| Path::new("/dev").join(n).exists())
    {
        let at = dev.join(name);
        fs::create_dir_all(at.parent().context("no parent")?)?;
        fs::File::create(&at)?;
        sys::mount(&Path::new("/dev").join(name), &at, "", MS_BIND, "")
            .with_context(|| format!("/dev/{name}"))?;
    }
    for (dir, mode) in [("pts", 0o755), ("shm", 0o1777), ("mqueue", 0o1777)] {
        mkdir(&dev.join(dir), mode)?;
    }
    let safe = MS_NOSUID | MS_NOEXEC;
    sys::mount(
        Path::new("devpts"),
        &dev.join("pts"),
        "devpts",
        safe,
        "newinstance,ptmxmode=0666,mode=620,gid=5",
    )
    .context("/dev/pts")?;
    sys::mount(
        Path::new("shm"),
        &dev.join("shm"),
        "tmpfs",
        MS_NOSUID,
        "size=1g,mode=1777",
    )
    .context("/dev/shm")?;
    let _ = sys::mount(Path::new("mqueue"), &dev.join("mqueue"), "mqueue", safe, ""); // not in every kernel
    for (to, at) in [
        ("pts/ptmx", "ptmx"),
        ("/proc/self/fd", "fd"),
        ("/proc/self/fd/0", "stdin"),
        ("/proc/self/fd/1", "stdout"),
        ("/proc/self/fd/2", "stderr"),
    ] {
        symlink(to, dev.join(at))?;
    }
    Ok(())
}

/// Settings of a lab's daemons: guests of root are accepted, since all nodes are one machine.
const CONFIG: &str = "allow_root = true\n";
/// Where MFS is mounted in a node, if the machine has FUSE.
const MFS: &str = "/mfs";
const FUSE: &str = "/dev/fuse";

/// /etc/hosts has all nodes, /etc/hostname this one, and the daemon's settings mark it as part of a lab.
fn names(plan: &Plan, me: usize, root: &Path) -> Result<()> {
    let mut hosts = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
    for n in &plan.nodes {
        hosts += &format!("{} {}\n", n.addr, n.name);
        if let Some(second) = &n.second_addr {
            hosts += &format!("{second} {}-eth1\n", n.name);
        }
    }
    for (file, text) in [
        ("etc/hosts", hosts),
        ("etc/hostname", format!("{}\n", plan.nodes[me].name)),
        (
            "etc/armento/config.toml",
            config(&plan.config, Path::new(FUSE).exists()),
        ),
    ] {
        let at = root.join(file);
        fs::create_dir_all(at.parent().context("no parent")?)?;
        let _ = fs::remove_file(&at); // it may be a link
        fs::write(&at, text).with_context(|| format!("cannot write /{file}"))?;
    }
    Ok(())
}

/// `more`: further settings, which may say otherwise.
fn config(more: &str, fuse: bool) -> String {
    let given = |l: &str| l.split('=').next().is_some_and(|key| key.trim() == "mfs");
    let mfs = match fuse && !more.lines().any(given) {
        true => format!("mfs = \"{MFS}\"\n"),
        false => String::new(),
    };
    format!("{CONFIG}{mfs}{more}")
}

/// Puts `armento` into every node's PATH, wherever the machine has it (perhaps in its own /tmp).
fn install_armento(plan: &Plan, root: &Path) -> Result<()> {
    let at = root.join("usr/local/bin/armento");
    fs::create_dir_all(at.parent().context("no parent")?)?;
    let _ = fs::remove_file(&at);
    fs::File::create(&at)?;
    sys::mount(&plan.exe, &at, "", MS_BIND, "")
        .with_context(|| format!("cannot bind {}", plan.exe.display()))
}

/// The machine's directory itself, with what is mounted below it: writes are seen on all nodes, and outside.
fn bind_share(share: &Share, root: &Path) -> Result<()> {
    let failed = || {
        format!(
            "cannot share {} at {}",
            share.dir.display(),
            share.at.display()
        )
    };
    let below = share.at.strip_prefix("/").with_context(failed)?;
    let at = root.join(below);
    // A link would lead to a directory of the machine: the node's root is not this process's yet.
    let links = at.ancestors().take(below.components().count());
    if let Some(link) = links.filter(|p| p.is_symlink()).last() {
        let link = Path::new("/").join(link.strip_prefix(root).unwrap_or(link));
        bail!(
            "{}: {} is a link\nhint: --share DIR:AT with the path that it leads to",
            failed(),
            link.display()
        );
    }
    fs::create_dir_all(&at).with_context(failed)?;
    sys::mount(&share.dir, &at, "", MS_BIND | MS_REC, "").with_context(failed)
}

fn mkdir(dir: &Path, mode: u32) -> Result<()> {
    fs::create_dir(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    fs::set_permissions(dir, fs::Permissions::from_mode(mode))?; // the umask does not count here
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_mounts_are_copied_once_without_pseudo_file_systems() {
        let table = "23 1 254:0 / / rw - ext4 /dev/vda rw\n\
                     24 23 0:5 / /proc rw - proc proc rw\n\
                     25 23 8:1 / /home/my\\040disk rw shared:1 - xfs /dev/sda rw\n\
                     26 23 8:2 / /srv rw - xfs /dev/sdb rw\n\
                     27 23 0:9 / /srv rw - tmpfs tmpfs rw\n\
                     28 23 0:9 / /run/user/0 rw - tmpfs tmpfs rw\n\
                     29 23 0:9 / /etc/hosts rw - ext4 /dev/vda rw\n";
        let got = foreign_mounts(table, Path::new("/run/armento-lab/lab/mnt"));
        assert_eq!(
            got,
            [
                ("/home/my disk".into(), "xfs".into()),
                ("/srv".into(), "tmpfs".to_owned())
            ]
        );
    }

    #[test]
    fn mfs_is_on_where_it_can_be() {
        assert_eq!(config("", true), "allow_root = true\nmfs = \"/mfs\"\n");
        assert_eq!(config("", false), "allow_root = true\n");
        let given = "dead_ms = 9000\nmfs = false\n";
        assert_eq!(config(given, true), format!("allow_root = true\n{given}"));
    }

    #[test]
    fn overlay_paths_are_quoted() {
        assert_eq!(escape(Path::new("/a:b,c\\d")), "/a\\:b\\,c\\\\d");
    }
}
