//! `mfs` and `[[mfs_export]]`: where MFS is mounted, and which files of this node others may have through it.

use armento_client::api::FilesExport;
use serde::Deserialize;
use std::path::{Component, Path, PathBuf};

/// Where MFS is mounted if only `true` is given; openMosix mfs.txt.
const POINT: &str = "/mfs";
const EXPORTS_MAX: usize = 64;
const HIDDEN_MAX: usize = 256;
/// Hidden whatever an administrator writes. A file server finds its own memory below /proc, with the keys of its stream;
/// the kernel lets a process read that whoever it is.
const NEVER: &str = "/proc";

/// `mfs = "/mfs"`, `true` or `false`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Mfs {
    Switch(bool),
    Point(PathBuf),
}

impl Default for Mfs {
    fn default() -> Mfs {
        Mfs::Switch(false)
    }
}

/// `[[mfs_export]]`: a directory that is served, to each user with that user's own rights.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MfsExport {
    path: PathBuf,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    hidden: Vec<PathBuf>,
}

impl Mfs {
    pub fn is_on(&self) -> bool {
        *self != Mfs::Switch(false)
    }

    pub fn point(&self) -> &Path {
        match self {
            Mfs::Point(point) => point,
            Mfs::Switch(_) => Path::new(POINT),
        }
    }
}

/// Refuses what cannot hold.
pub fn check(mfs: &Mfs, exports: &[MfsExport]) -> Result<(), String> {
    if !is_plain(mfs.point()) || mfs.point() == Path::new("/") {
        return Err("mfs is false, true, or the full path of a directory, as /mfs".into());
    }
    if exports.len() > EXPORTS_MAX {
        return Err(format!("more than {EXPORTS_MAX} times mfs_export"));
    }
    for export in exports {
        let shown = export.path.display();
        if !is_plain(&export.path) {
            return Err(format!("mfs_export: {shown} is not a full path without .."));
        }
        if export.hidden.len() > HIDDEN_MAX {
            return Err(format!(
                "mfs_export of {shown}: more than {HIDDEN_MAX} hidden paths"
            ));
        }
        let out = |path: &&PathBuf| !is_plain(path) || !path.starts_with(&export.path);
        if let Some(path) = export.hidden.iter().find(out) {
            let path = path.display();
            return Err(format!(
                "mfs_export of {shown}: hidden {path} is no full path below it"
            ));
        }
    }
    Ok(())
}

/// What is served: all files if nothing else is written, and never `state` (the keys) or the mount point.
pub fn exports(mfs: &Mfs, written: &[MfsExport], state: &Path) -> Vec<FilesExport> {
    let all = [MfsExport {
        path: "/".into(),
        read_only: false,
        hidden: Vec::new(),
    }];
    let written = if written.is_empty() { &all } else { written };
    let export = |e: &MfsExport| {
        let always = [state, mfs.point(), Path::new(NEVER)];
        let always = always.into_iter().filter(|p| p.starts_with(&e.path));
        let mut hidden = e.hidden.clone();
        hidden.extend(always.map(Path::to_owned));
        FilesExport {
            path: e.path.clone(),
            read_only: e.read_only,
            hidden,
        }
    };
    written.iter().map(export).collect()
}

/// From the root, and nowhere back.
pub(super) fn is_plain(path: &Path) -> bool {
    let mut parts = path.components();
    parts.next() == Some(Component::RootDir) && parts.all(|p| matches!(p, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::super::settings::Config;
    use super::*;

    #[test]
    fn mfs_is_a_switch_or_a_directory() {
        let of = |text: &str| {
            let mfs = Config::parse(text).expect("good").mfs;
            (mfs.is_on(), mfs.point().to_owned())
        };
        assert_eq!(of(""), (false, "/mfs".into()));
        assert_eq!(of("mfs = false"), (false, "/mfs".into()));
        assert_eq!(of("mfs = true"), (true, "/mfs".into()));
        assert_eq!(of("mfs = \"/farm\""), (true, "/farm".into()));
        for bad in ["mfs = \"/\"", "mfs = \"mfs\"", "mfs = \"/a/../b\""] {
            assert!(Config::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_are_never_served() {
        let of = |text: &str| {
            let c = Config::parse(text).expect("good");
            exports(&c.mfs, &c.mfs_export, Path::new("/var/lib/armento"))
        };
        let all = of("");
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].path, Path::new("/"));
        assert!(!all[0].read_only);
        assert_eq!(
            all[0].hidden,
            ["/var/lib/armento", "/mfs", "/proc"].map(PathBuf::from)
        );
        let some = of(
            "[[mfs_export]]\npath = \"/var\"\nread_only = true\nhidden = [\"/var/mail\"]\n[[mfs_export]]\npath = \"/home\"",
        );
        assert!(some[0].read_only && !some[1].read_only);
        assert_eq!(
            some[0].hidden,
            ["/var/mail", "/var/lib/armento"].map(PathBuf::from)
        );
        assert!(some[1].hidden.is_empty());
    }

    #[test]
    fn impossible_exports_are_refused() {
        let check = |rest: &str, part: &str| {
            let e = Config::parse(&format!("[[mfs_export]]\n{rest}")).expect_err(rest);
            assert!(e.contains(part), "{e}");
        };
        check("path = \"home\"", "full path");
        check("path = \"/home/../etc\"", "full path");
        check(
            "path = \"/home\"\nhidden = [\"/etc\"]",
            "hidden /etc is no full path below it",
        );
        check("read_only = true", "path");
        check("path = \"/home\"\nreadonly = true", "readonly");
    }
}
