//! The boot directory: where images, settings, waiting machines and progress are. It holds paths and settings, and writes
//! files so that a reader sees the old or the new one. Start at [`BootDir`].

use crate::problem::{At, BootError};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the boot directory is unless a command names another.
pub const DIR: &str = "/var/lib/armento/boot";
/// HTTP of the boot server: the farm's port 7117 and a thousand.
pub const HTTP: u16 = 8117;
/// NFS and MOUNT of the boot server: the farm's port 7117 and two thousand, so that another NFS server may be there.
pub const NFS: u16 = 9117;
/// Streams between boot servers: the farm's port 7117 and three thousand.
pub const COPIES: u16 = 10117;
/// What dnsmasq gives by TFTP. Below /run and not below the boot directory: dnsmasq reads it without root's rights, and
/// /var/lib/armento is closed to others.
pub const TFTP: &str = "/run/armento/boot-tftp";

/// The boot directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootDir(pub PathBuf);

/// Settings of `armento boot init`, for the commands after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The farm's file.
    pub inventory: PathBuf,
    /// This boot server, as the inventory calls it.
    pub server: String,
    /// Another DHCP server gives the addresses.
    #[serde(default)]
    pub proxy: bool,
    #[serde(default = "http")]
    pub http: u16,
    #[serde(default = "nfs")]
    pub nfs: u16,
    /// Of streams to and from the other boot servers.
    #[serde(default = "copies")]
    pub copies: u16,
    #[serde(default = "tftp")]
    pub tftp: PathBuf,
    /// Words for the kernel of every node: `console=ttyS0`.
    #[serde(default)]
    pub append: String,
}

fn http() -> u16 {
    HTTP
}

fn nfs() -> u16 {
    NFS
}

fn copies() -> u16 {
    COPIES
}

fn tftp() -> PathBuf {
    TFTP.into()
}

impl BootDir {
    pub fn images(&self) -> PathBuf {
        self.0.join("images")
    }

    /// The iPXE programs, as `init` found them.
    pub fn loaders(&self) -> PathBuf {
        self.0.join("loaders")
    }

    pub fn dnsmasq(&self) -> PathBuf {
        self.0.join("dnsmasq.conf")
    }

    /// Which process the last dnsmasq is.
    pub fn dnsmasq_pid(&self) -> PathBuf {
        self.0.join("dnsmasq.pid")
    }

    /// The progress of each machine, as the server knew it last.
    pub fn progress(&self) -> PathBuf {
        self.0.join("progress.json")
    }

    /// The secret that signs NFS handles: the same on all boot servers of a farm.
    pub fn nfs_key(&self) -> PathBuf {
        self.0.join("nfs.key")
    }

    /// Directories of live roots that outlive a restart, one below it for each node.
    pub fn persistent(&self) -> PathBuf {
        self.0.join("persistent")
    }

    fn settings_file(&self) -> PathBuf {
        self.0.join("boot.toml")
    }

    /// The settings of `armento boot init`.
    pub fn settings(&self) -> Result<Settings, BootError> {
        let path = self.settings_file();
        let text = match fs::read_to_string(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(BootError::refused(
                    format!("{} is no boot directory yet", self.0.display()),
                    "armento boot init makes one",
                ));
            }
            read => read.at(&path)?,
        };
        toml::from_str(&text).map_err(|e| BootError::Damaged {
            path,
            what: e.to_string(),
        })
    }

    pub fn save_settings(&self, settings: &Settings) -> Result<(), BootError> {
        let path = self.settings_file();
        let text = toml::to_string(settings).map_err(|e| BootError::Damaged {
            path: path.clone(),
            what: e.to_string(),
        })?;
        replace(
            &path,
            format!("# Written by `armento boot init`.\n{text}").as_bytes(),
        )
    }
}

/// Replaces a file at once, as [`armento_fabric::file::replace`].
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), BootError> {
    armento_fabric::file::replace(path, bytes).at(path)
}

/// Replaces a file by one that has this mode.
pub fn replace_with_mode(path: &Path, bytes: &[u8], mode: u32) -> Result<(), BootError> {
    armento_fabric::file::replace_with_mode(path, bytes, mode).at(path)
}
