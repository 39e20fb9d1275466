//! The disk image of all machines of one kind.

use crate::Missing;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The build script: a change of these rebuilds the image.
const INPUTS: [&str; 2] = [
    include_str!("../image/build.sh"),
    include_str!("../image/inside.sh"),
];
/// Messages of apt when its mirror cannot be reached, which is no error of the script. Source: apt 2.6,
/// methods/connect.cc.
const NO_MIRROR: [&str; 4] = [
    "Could not resolve",
    "Temporary failure resolving",
    "Could not connect to",
    "Unable to connect to",
];
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/image/build.sh");
const TOOLS: [&str; 7] = [
    "mmdebstrap",
    "mke2fs",
    "qemu-img",
    "qemu-system-x86_64",
    "ssh",
    "unshare",
    "ip",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// Debian 12: kernels 6.1 and, from backports, 6.12; glibc 2.36; systemd 252.
    Bookworm,
    /// Debian 13: kernel 6.12; glibc 2.41; systemd 257.
    Trixie,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Packages that a farm needs.
    Small,
    /// Also compilers, and the programs of the conformance list.
    Full,
    /// Also what sets up networks beside networkd, and a DHCP server.
    Network,
}

/// A finished image: `disk.ext4`, kernels, the test's ssh key.
#[derive(Clone, Debug)]
pub struct Image {
    pub suite: Suite,
    pub dir: PathBuf,
}

impl Suite {
    fn name(self) -> &'static str {
        match self {
            Suite::Bookworm => "bookworm",
            Suite::Trixie => "trixie",
        }
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Small => "small",
            Kind::Full => "full",
            Kind::Network => "network",
        }
    }
}

/// Directory of images and of files that machines write, below the build directory.
pub fn below_build() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target =
        target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    let target = target.canonicalize().unwrap_or(target);
    target.join("machines")
}

/// Requirements of machines that are missing here.
pub fn missing() -> Option<Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |tool: &&str| std::env::split_paths(&path).any(|dir| dir.join(tool).is_file());
    if let Some(tool) = TOOLS.iter().find(|tool| !has(tool)) {
        return Some(Missing(format!("{tool} (a Debian package)")));
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|l| l.strip_prefix("Uid:"));
    if uid.and_then(|l| l.split_whitespace().nth(1)) != Some("0") {
        return Some(Missing("root, for namespaces and bridges".into()));
    }
    let tun = Path::new("/dev/net/tun").exists();
    (!tun).then(|| Missing("/dev/net/tun".into()))
}

impl Image {
    /// The image of this kind; builds it where there is none or its script has changed since. That takes one to two
    /// minutes on two cores, fifteen at most, and 1 GiB of disk.
    ///
    /// `Ok(Err(_))`: this machine cannot have one, and why.
    pub fn ready(suite: Suite, kind: Kind) -> Result<Result<Image, Missing>> {
        if let Some(missing) = missing() {
            return Ok(Err(missing));
        }
        let all = below_build();
        fs::create_dir_all(&all).with_context(|| all.display().to_string())?;
        let dir = all.join(format!("{}-{}", suite.name(), kind.name()));
        let stamp = all.join(format!("{}-{}.stamp", suite.name(), kind.name()));
        // Of tests that run at the same time one builds it.
        let lock = File::create(stamp.with_extension("lock"))?;
        lock.lock()?;
        let wanted = format!(
            "{:x}",
            xxhash_rust::xxh3::xxh3_128(INPUTS.concat().as_bytes())
        );
        let image = Image { suite, dir };
        if fs::read_to_string(&stamp).is_ok_and(|had| had == wanted) && image.is_whole() {
            return Ok(Ok(image));
        }
        let log = stamp.with_extension("log");
        println!(
            "machines: building the image {} {} (minutes; log: {})",
            suite.name(),
            kind.name(),
            log.display()
        );
        let out = File::create(&log)?;
        let mut c = Command::new("timeout");
        c.args(["--kill-after=20", "900", SCRIPT, suite.name(), kind.name()]);
        c.arg(&image.dir).stdin(Stdio::null());
        let status = c.stdout(out.try_clone()?).stderr(out).status()?;
        if !status.success() || !image.is_whole() {
            let said = fs::read_to_string(&log).unwrap_or_default();
            if NO_MIRROR.iter().any(|words| said.contains(words)) {
                return Ok(Err(Missing("a mirror of Debian that answers".into())));
            }
            let tail: Vec<&str> = said.lines().rev().take(15).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            bail!(
                "the image could not be built ({status}):\n{}",
                tail.join("\n")
            );
        }
        fs::write(&stamp, wanted)?;
        Ok(Ok(image))
    }

    fn is_whole(&self) -> bool {
        ["disk.ext4", "key", "vmlinuz-6.12", "initrd-6.12"]
            .iter()
            .all(|f| self.dir.join(f).is_file())
    }
}
