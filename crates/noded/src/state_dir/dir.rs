//! The state directory: keys, farm, roster. Every file is replaced whole, or not at all.
//!
//! ```text
//! farm.json   who we are; written last, so that its presence means: joined
//! ca.pem node.pem node.key [ca.key]
//! roster.json members and where they were last
//! tokens.json tokens that let nodes join (`membership/tokens.rs`)
//! issued.json certificates that were signed here
//! news.json   the farm's newest statement (`revocation.rs`)
//! trust.json  what `armento farm trust` changed
//! lock        held by the daemon; its pid
//! history.db  what jobs of this home used (`crates/history`); a damaged one: history.damaged.db
//! hosts/      one record a running host, and its log
//! mfs/        the same of the mount and of file servers
//! ```

use super::farm::{Farm, Member};
use crate::error::FarmError;
use crate::sys;
use armento_client::version;
use armento_link::{FarmKeys, NodeKeys};
use armento_model::NodeName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Larger files are not read.
const FILE_MAX: u64 = 8 << 20;
/// Bytes of a membership with room to spare: keys, certificates and a roster of hundreds.
const TRIAL: usize = 64 << 10;
/// Certificates of one name that are remembered; a node that joined more often was removed or left in between.
const ISSUED_MAX: usize = 64;
/// Everything that makes a node a member.
const MEMBERSHIP: [&str; 10] = [
    "farm.json",
    "ca.key",
    "node.key",
    "node.pem",
    "ca.pem",
    "roster.json",
    "tokens.json",
    "news.json",
    "issued.json",
    "trust.json",
];

#[derive(Clone)]
pub struct StateDir(PathBuf);

/// Held as long as a daemon lives.
pub struct Lock(#[expect(dead_code, reason = "closing it gives the lock back")] File);

impl StateDir {
    pub fn new(dir: PathBuf) -> StateDir {
        StateDir(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn create(&self) -> Result<(), FarmError> {
        let fails = FarmError::state(format!("cannot create {}", self.0.display()));
        fs::create_dir_all(&self.0)
            .and_then(|()| fs::set_permissions(&self.0, Permissions::from_mode(0o700)))
            .map_err(fails)
    }

    /// Whether the directory takes what makes a member; nothing of it stays.
    pub fn try_write(&self) -> Result<(), FarmError> {
        self.create()?;
        // Larger than all of those files together, so that a full disk is met here.
        self.write("trial", &[0; TRIAL])?;
        fs::remove_file(self.0.join("trial"))
            .map_err(FarmError::state("cannot remove a file of ours"))
    }

    /// Refuses when another daemon has this directory.
    pub fn lock(&self) -> Result<Lock, FarmError> {
        let path = self.0.join("lock");
        let fails = || FarmError::state(format!("cannot lock {}", path.display()));
        let open = || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)
        };
        let mut file = match open() {
            // flock(2) asks for no right to write.
            Err(e) if e.kind() == io::ErrorKind::ReadOnlyFilesystem => File::open(&path),
            file => file,
        }
        .map_err(fails())?;
        if !sys::try_lock(&file).map_err(fails())? {
            let mut pid = String::new();
            // The pid is for people; without it the message is shorter.
            let _ = (&file).take(32).read_to_string(&mut pid);
            return Err(FarmError::Locked {
                dir: self.0.display().to_string(),
                pid: pid.trim().parse().ok(),
            });
        }
        // The pid is for messages only; a full or read-only disk takes none.
        let _ = file
            .set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Lock(file))
    }

    pub fn farm(&self) -> Result<Farm, FarmError> {
        let not_joined = || FarmError::NotJoined(self.0.display().to_string());
        self.read_json("farm.json")?.ok_or_else(not_joined)
    }

    pub fn keys(&self, farm: &Farm) -> Result<NodeKeys, FarmError> {
        Ok(NodeKeys {
            node: farm.node.clone(),
            ca_pem: self.text("ca.pem")?,
            cert_pem: self.text("node.pem")?,
            key_pem: self.text("node.key")?,
        })
    }

    /// The farm's own keys, on members that admit.
    pub fn farm_keys(&self) -> Result<FarmKeys, FarmError> {
        if !self.0.join("ca.key").exists() {
            return Err(FarmError::NoFarmKey);
        }
        Ok(FarmKeys {
            ca_pem: self.text("ca.pem")?,
            ca_key_pem: self.text("ca.key")?,
        })
    }

    /// Makes this node a member: keys first, `farm.json` last.
    pub fn enrol(
        &self,
        farm: &Farm,
        keys: &NodeKeys,
        ca: Option<&FarmKeys>,
        roster: &[Member],
    ) -> Result<(), FarmError> {
        self.create()?;
        if let Some(ca) = ca {
            self.write("ca.key", ca.ca_key_pem.as_bytes())?;
        }
        self.write("ca.pem", keys.ca_pem.as_bytes())?;
        self.write("node.pem", keys.cert_pem.as_bytes())?;
        self.write("node.key", keys.key_pem.as_bytes())?;
        self.write_json("roster.json", &roster)?;
        self.write_json("farm.json", farm)
    }

    /// Forgets the farm. After: this node is no member, whatever fails later.
    pub fn forget(&self) -> Result<(), FarmError> {
        for name in MEMBERSHIP {
            match fs::remove_file(self.0.join(name)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(FarmError::state(format!("cannot remove {name}"))(e));
                }
                _ => {}
            }
        }
        // Copies of other nodes' files (`hosts/files.rs`); a process that maps one keeps it.
        let _ = fs::remove_dir_all(self.0.join("files"));
        Ok(())
    }

    /// Deletes the checkpoints of programs of other homes.
    pub fn forget_kept(&self) {
        let _ = fs::remove_dir_all(self.0.join("kept"));
    }

    pub fn roster(&self) -> Result<Vec<Member>, FarmError> {
        Ok(self.read_json("roster.json")?.unwrap_or_default())
    }

    pub fn save_roster(&self, roster: &[Member]) -> Result<(), FarmError> {
        self.write_json("roster.json", &roster)
    }

    /// Serial numbers of the node certificates that were signed here, by name.
    pub fn issued(&self) -> Result<BTreeMap<NodeName, Vec<String>>, FarmError> {
        Ok(self.read_json("issued.json")?.unwrap_or_default())
    }

    /// Before: `Node::joining` is locked.
    pub fn note_issued(&self, node: &NodeName, serial: String) -> Result<(), FarmError> {
        let mut issued = self.issued()?;
        let serials = issued.entry(node.clone()).or_default();
        if serials.len() >= ISSUED_MAX {
            serials.remove(0);
        }
        serials.push(serial);
        self.write_json("issued.json", &issued)
    }

    fn text(&self, name: &str) -> Result<String, FarmError> {
        let what = || format!("cannot read {}", self.0.join(name).display());
        self.read(name)?
            .ok_or_else(|| FarmError::state(what())(io::ErrorKind::NotFound.into()))
    }

    /// `None` when there is no such file.
    fn read(&self, name: &str) -> Result<Option<String>, FarmError> {
        let path = self.0.join(name);
        let fails = || FarmError::state(format!("cannot read {}", path.display()));
        let file = match File::open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(fails())?,
        };
        let mut text = String::new();
        file.take(FILE_MAX)
            .read_to_string(&mut text)
            .map_err(fails())?;
        Ok(Some(text))
    }

    pub fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, FarmError> {
        let Some(text) = self.read(name)? else {
            return Ok(None);
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|e| FarmError::Config {
                path: self.0.join(name).display().to_string(),
                why: e.to_string(),
            })
    }

    pub fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), FarmError> {
        self.write(name, &pretty(name, value)?)
    }

    /// What a daemon can run without, for as long as the disk is full or read-only. `lost`: what that means.
    pub fn write_if_possible<T: Serialize>(
        &self,
        name: &str,
        value: &T,
        lost: &str,
    ) -> Result<(), FarmError> {
        match self.write_json(name, value) {
            Err(e) if e.disk_takes_nothing() => {
                tracing::warn!("{e}: {lost}");
                Ok(())
            }
            done => done,
        }
    }

    /// Of a process: what need not outlive the power.
    pub fn note_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), FarmError> {
        self.put(name, &pretty(name, value)?, false)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), FarmError> {
        self.put(name, bytes, true)
    }

    /// Before: the daemon's lock, or the tokens' lock, is held.
    fn put(&self, name: &str, bytes: &[u8], sync: bool) -> Result<(), FarmError> {
        let (path, new) = (self.0.join(name), self.0.join(format!("{name}.new")));
        let put = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(bytes)?;
            if sync {
                file.sync_data()?;
            }
            fs::rename(&new, &path)
        };
        put().map_err(|e| {
            // Half of it is of no use, and takes room that is missing.
            let _ = fs::remove_file(&new);
            FarmError::state(format!("cannot write {}", path.display()))(e)
        })
    }
}

fn pretty<T: Serialize>(name: &str, value: &T) -> Result<Vec<u8>, FarmError> {
    let bad = |e: serde_json::Error| FarmError::Config {
        path: name.into(),
        why: e.to_string(),
    };
    let open = name.starts_with("hosts/")
        || name.starts_with("mfs/")
        || matches!(name, "farm.json" | "roster.json");
    if !(open && version::is_to_come()) {
        return serde_json::to_vec_pretty(value).map_err(bad);
    }
    // The version before may be installed again.
    let mut said = serde_json::to_value(value).map_err(bad)?;
    version::widen(&mut said);
    serde_json::to_vec_pretty(&said).map_err(bad)
}
