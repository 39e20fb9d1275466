//! `dfsa` and `dfsa_relaxed`: mounts that this node shares with others.

use super::mfs::is_plain;
use armento_client::api::SharedMount;
use std::path::{Path, PathBuf};

/// Each is proved to every node with guests of this home, and costs a descriptor there.
const MOUNTS_MAX: usize = 32;

/// Refuses what cannot hold. Whether something is mounted there is seen when it is needed: it may be mounted later.
pub fn check(strict: &[PathBuf], relaxed: &[PathBuf]) -> Result<(), String> {
    let all: Vec<&PathBuf> = strict.iter().chain(relaxed).collect();
    if all.len() > MOUNTS_MAX {
        return Err(format!(
            "dfsa and dfsa_relaxed name more than {MOUNTS_MAX} mounts"
        ));
    }
    for (n, path) in all.iter().enumerate() {
        let shown = path.display();
        if !is_plain(path) || path.as_path() == Path::new("/") {
            return Err(format!(
                "dfsa: {shown} is not the full path of a mount point below /, as /data"
            ));
        }
        if all[..n].contains(path) {
            return Err(format!(
                "dfsa: {shown} is named twice; name it in dfsa or in dfsa_relaxed"
            ));
        }
    }
    Ok(())
}

/// The mounts that this node declares.
pub fn shared_mounts(strict: &[PathBuf], relaxed: &[PathBuf]) -> Vec<SharedMount> {
    let of = |paths: &[PathBuf], relaxed| -> Vec<SharedMount> {
        let mount = |path: &PathBuf| SharedMount {
            path: path.clone(),
            relaxed,
        };
        paths.iter().map(mount).collect()
    };
    [of(strict, false), of(relaxed, true)].concat()
}

#[cfg(test)]
mod tests {
    use super::super::settings::Config;
    use super::*;

    #[test]
    fn mounts_are_declared_by_path() {
        let c = Config::parse("dfsa = [\"/data\"]\ndfsa_relaxed = [\"/nfs\"]").expect("good");
        let all = shared_mounts(&c.dfsa, &c.dfsa_relaxed);
        let all: Vec<_> = all.iter().map(|m| (m.path.to_str(), m.relaxed)).collect();
        assert_eq!(all, [(Some("/data"), false), (Some("/nfs"), true)]);
    }

    #[test]
    fn impossible_mounts_are_refused() {
        let check = |text: &str, part: &str| {
            let e = Config::parse(text).expect_err(text);
            assert!(e.contains(part), "{e}");
        };
        check("dfsa = [\"data\"]", "full path of a mount point");
        check("dfsa = [\"/\"]", "full path of a mount point");
        check("dfsa_relaxed = [\"/a/../b\"]", "full path of a mount point");
        check("dfsa = [\"/a\"]\ndfsa_relaxed = [\"/a\"]", "twice");
        check("dfsa = \"/a\"", "dfsa");
    }
}
