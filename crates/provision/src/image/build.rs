//! A root of Debian's packages, by mmdebstrap.

use super::draft::Progressed;
use super::run::run;
use super::store::{Generation, Store};
use crate::problem::BootError;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Debian's mirror where apt on this machine has none.
const MIRROR: &str = "http://deb.debian.org/debian";
/// Seconds that a mirror may take to say whether it has backports.
const MIRROR_S: u64 = 15;
/// What every node needs.
const PACKAGES: [&str; 9] = [
    "systemd-sysv",
    "udev",
    "dbus",
    "kmod",
    "iproute2",
    "procps",
    "chrony",
    "ca-certificates",
    "initramfs-tools",
];
/// Left out of every root: 100 MB.
const EXCLUDED: [&str; 4] = [
    "/usr/share/man/*",
    "/usr/share/doc/*",
    "/usr/share/locale/*",
    "/usr/share/info/*",
];

/// What is built.
#[derive(Clone, Debug)]
pub struct BuildOptions<'a> {
    /// Debian's release: bookworm, trixie.
    pub suite: &'a str,
    /// Of Debian; without one, apt's on this machine.
    pub mirror: Option<&'a str>,
    /// The kernel's package.
    pub kernel: &'a str,
    /// More packages.
    pub include: &'a [String],
}

/// Builds the next generation of an image. Takes minutes, and a gigabyte of disk.
pub fn build(
    store: &Store,
    image: &str,
    options: &BuildOptions,
    armento: &Path,
    said: Progressed,
) -> Result<Generation, BootError> {
    let plain = |word: &str| {
        let letters = |b: u8| b.is_ascii_alphanumeric() || b"+.-".contains(&b);
        !word.is_empty() && !word.starts_with('-') && word.bytes().all(letters)
    };
    let words = [options.suite, options.kernel].into_iter();
    if let Some(bad) = words
        .chain(options.include.iter().map(String::as_str))
        .find(|w| !plain(w))
    {
        return Err(BootError::refused(
            format!("`{bad}` is no name of a suite or package"),
            "write it as apt does: --suite bookworm --include vim-tiny",
        ));
    }
    let draft = store.draft(image)?;
    let mirror = options
        .mirror
        .map_or_else(apt_mirror, |m| m.trim_end_matches('/').to_owned());
    let suite = options.suite;
    let backports = suite == "bookworm" && has_backports(&mirror);
    if suite == "bookworm" && !backports {
        said("this mirror has no backports: the kernel is 6.1");
    }
    said("fetching and unpacking packages");
    let mut make = Command::new("mmdebstrap");
    make.args(["--mode=root", "--variant=minbase"]);
    let packages = PACKAGES
        .into_iter()
        .chain(options.include.iter().map(String::as_str));
    let packages: Vec<&str> = packages.collect();
    make.arg(format!("--include={}", packages.join(",")));
    let kernel = match backports {
        true => format!("{}/bookworm-backports", options.kernel),
        false => options.kernel.to_owned(),
    };
    make.arg(format!("--include={kernel}"));
    for path in EXCLUDED {
        make.arg(format!("--dpkgopt=path-exclude={path}"));
    }
    make.arg(suite).arg(draft.root());
    for source in sources(&mirror, suite, backports) {
        make.arg(source);
    }
    run(&mut make, "mmdebstrap", &draft.log())?;
    // Ours takes its place.
    for entry in fs::read_dir(draft.root().join("boot"))
        .into_iter()
        .flatten()
        .flatten()
    {
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with("initrd.img-")
        {
            let _ = fs::remove_file(entry.path());
        }
    }
    let from = format!("Debian {suite} of {mirror}, {}", options.kernel);
    draft.finish(armento, &from, said, |image, dir| store.commit(image, dir))
}

fn sources(mirror: &str, suite: &str, backports: bool) -> Vec<String> {
    let mut all = vec![
        format!("deb {mirror} {suite} main"),
        format!("deb {mirror} {suite}-updates main"),
    ];
    // Debian's own layout of mirrors: https://www.debian.org/mirror/ftpmirror
    if let Some(base) = mirror.strip_suffix("/debian") {
        all.push(format!("deb {base}/debian-security {suite}-security main"));
    }
    if backports {
        all.push(format!("deb {mirror} {suite}-backports main"));
    }
    all
}

/// The mirror that apt uses here.
fn apt_mirror() -> String {
    let said = Command::new("apt-get")
        .args([
            "indextargets",
            "--format",
            "$(SITE)",
            "Created-By: Packages",
        ])
        .output();
    let said = said.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    let said = said.unwrap_or_default();
    let mut sites = said.lines().map(|l| l.trim().trim_end_matches('/'));
    sites
        .find(|s| s.ends_with("/debian"))
        .map_or_else(|| MIRROR.to_owned(), str::to_owned)
}

/// Whether the mirror has kernels that are newer than the release's. One that is asked by TLS is believed to have them.
fn has_backports(mirror: &str) -> bool {
    if !mirror.starts_with("http://") {
        return true;
    }
    let url = format!("{mirror}/dists/bookworm-backports/Release");
    let asked = minreq::head(url).with_timeout(MIRROR_S).send();
    asked.is_ok_and(|answer| answer.status_code == 200)
}

#[cfg(test)]
mod tests {
    use super::sources;

    #[test]
    fn security_is_beside_the_archive() {
        let all = sources("http://deb.debian.org/debian", "bookworm", true);
        assert_eq!(
            all[2],
            "deb http://deb.debian.org/debian-security bookworm-security main"
        );
        assert_eq!(all.len(), 4);
        assert_eq!(sources("http://m/mirror", "trixie", false).len(), 2);
    }
}
