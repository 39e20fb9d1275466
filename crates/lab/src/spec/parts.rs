//! Parts of a requested lab that are given as one word each: shared directories and faults of cables.

use anyhow::{Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

/// Directories of the machine in every node; each is a mount in each node.
pub const SHARES_MAX: usize = 16;

/// Paths that a node has of its own and cannot do without.
const NEEDED: [&str; 6] = [
    "/proc",
    "/sys",
    "/dev",
    "/etc/hosts",
    "/etc/armento",
    "/usr/local/bin/armento",
];

/// A directory of the machine that all nodes see, and may write to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    pub dir: PathBuf,
    /// Its path in every node.
    pub at: PathBuf,
}

impl FromStr for Share {
    type Err = String;

    /// `DIR` or `DIR:AT`. A relative DIR is one of the current directory, and then AT is its full path.
    fn from_str(s: &str) -> Result<Self, String> {
        let (dir, at) = match s.rsplit_once(':') {
            Some((dir, at)) if at.starts_with('/') => (dir, Some(PathBuf::from(at))),
            Some(_) => return Err("use DIR or DIR:AT, where AT begins with /".into()),
            None => (s, None),
        };
        if dir.is_empty() {
            return Err("use DIR or DIR:AT".into());
        }
        let dir = std::path::absolute(dir).map_err(|e| format!("{dir}: {e}"))?;
        let at = at.unwrap_or_else(|| dir.clone());
        Ok(Share { dir, at })
    }
}

impl Share {
    /// Refuses what cannot be mounted, with a hint.
    pub fn check(&self) -> Result<()> {
        let dir = self.dir.display();
        let found = self.dir.metadata().map_err(|e| {
            anyhow!("{dir} cannot be shared: {e}\nhint: --share takes a directory of this machine")
        })?;
        if !found.is_dir() {
            bail!("{dir} is no directory\nhint: share the directory that it is in");
        }
        let plain = |c: Component| matches!(c, Component::RootDir | Component::Normal(_));
        let needed = NEEDED.iter().any(|own| {
            let own = Path::new(own);
            self.at.starts_with(own) || own.starts_with(&self.at)
        });
        if !self.at.is_absolute() || !self.at.components().all(plain) || needed {
            bail!(
                "a directory cannot be shared at {}: a node needs its own files there\nhint: --share {dir}:/srv/shared",
                self.at.display()
            );
        }
        Ok(())
    }
}

/// Frames lost by a duplex mismatch, percent, where no number is given. PAPER(P, errata E-12): a copy over a switch of
/// 100 Mbit/s ran at 5.9 Mbit/s, which a mismatch would explain; measured here with this share: 6.3 and 7.5 Mbit/s.
const DUPLEX_PERCENT: f64 = 20.0;

/// A fault of a node's cables for as long as the lab lives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CableFault {
    /// One end is half duplex and the other is not. Imitated: of the frames longer than 64 bytes this share is lost in
    /// each direction, at random; shorter ones pass, since their collisions are early and are repaired by Ethernet.
    Duplex {
        /// Counted from 1.
        node: usize,
        percent: f64,
    },
}

impl FromStr for CableFault {
    type Err = String;

    /// `duplex:NODE` or `duplex:NODE:PERCENT`.
    fn from_str(s: &str) -> Result<Self, String> {
        let wrong =
            || "use duplex:NODE or duplex:NODE:PERCENT, e.g. duplex:n2 or duplex:n2:3".to_owned();
        let rest = s.strip_prefix("duplex:").ok_or_else(wrong)?;
        let (node, percent) = match rest.split_once(':') {
            Some((node, percent)) => (node, percent.parse().map_err(|_| wrong())?),
            None => (rest, DUPLEX_PERCENT),
        };
        let node = node.strip_prefix('n').unwrap_or(node);
        let node = node.parse().map_err(|_| wrong())?;
        Ok(CableFault::Duplex { node, percent })
    }
}

impl CableFault {
    /// The node whose cables have it, counted from 0, and the share of lost frames, 0 to 1.
    pub fn of(&self) -> (usize, f64) {
        let CableFault::Duplex { node, percent } = *self;
        (node.wrapping_sub(1), percent / 100.0)
    }

    /// Refuses a fault of no node, or one that no cable has.
    pub fn check(&self, nodes: usize, hub: bool) -> Result<()> {
        let CableFault::Duplex { node, percent } = *self;
        if !(1..=nodes).contains(&node) {
            bail!("there is no node n{node} whose cable could fail\nhint: --fault duplex:n{nodes}");
        }
        if !(percent > 0.0 && percent <= 100.0) {
            bail!("{percent} % is no share of frames\nhint: --fault duplex:n{node}:20");
        }
        if hub {
            bail!(
                "all ports of a hub are half duplex: nothing can mismatch\nhint: --link switch100"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_a_directory_and_a_place() {
        let check = |text: &str, want: Option<(&str, &str)>| {
            let got = text.parse::<Share>().ok();
            let got = got.map(|s| (s.dir.display().to_string(), s.at.display().to_string()));
            let want = want.map(|(dir, at)| (dir.to_owned(), at.to_owned()));
            assert_eq!(got, want, "{text}");
        };
        check("/tmp", Some(("/tmp", "/tmp")));
        check("/tmp:/srv/x", Some(("/tmp", "/srv/x")));
        check("/a:b:/srv/x", Some(("/a:b", "/srv/x")));
        check("", None);
        check("/tmp:srv", None);
        check(":/srv", None);
    }

    #[test]
    fn nodes_keep_what_they_need() {
        let dir = std::env::temp_dir();
        for (at, good) in [
            ("/srv/shared", true),
            ("/tmp", true),
            ("/", false),
            ("/proc/x", false),
            ("/usr", false),
            ("/srv/../proc", false),
        ] {
            let share = Share {
                dir: dir.clone(),
                at: at.into(),
            };
            assert_eq!(share.check().is_ok(), good, "{at}");
        }
        let lost = Share {
            dir: "/no/such/place".into(),
            at: "/srv".into(),
        };
        assert!(lost.check().unwrap_err().to_string().contains("hint: "));
    }

    #[test]
    fn faults_name_a_node() {
        let fault: CableFault = "duplex:n2".parse().unwrap();
        assert_eq!(fault.of(), (1, 0.2));
        assert!(fault.check(2, false).is_ok());
        assert!(fault.check(1, false).is_err() && fault.check(2, true).is_err());
        let heavy: CableFault = "duplex:2:101".parse().unwrap();
        assert!(heavy.check(2, false).is_err());
        for bad in ["duplex", "duplex:", "duplex:n2:x", "cut:n2"] {
            assert!(bad.parse::<CableFault>().is_err(), "{bad}");
        }
    }
}
