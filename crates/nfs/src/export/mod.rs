//! What is served to whom: data only. Start at [`Export`].
//!
//! This room opens nothing and knows no protocol.

use std::net::IpAddr;
use std::path::PathBuf;

/// Says which node an address is.
pub trait Resolver: Send + Sync {
    fn caller(&self, address: IpAddr) -> Caller;
}

impl<F: Fn(IpAddr) -> Caller + Send + Sync> Resolver for F {
    fn caller(&self, address: IpAddr) -> Caller {
        self(address)
    }
}

/// The owner of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// By the inventory.
    Node(String),
    /// Not in the inventory: sees no `HOST` tags, and no directories of nodes.
    Stranger,
    /// Its connections are closed at once.
    Refused,
}

/// All that a server serves.
#[derive(Clone, Debug)]
pub struct Exports {
    pub list: Vec<Export>,
    /// Signs handles of [`Identity::Inode`].
    pub key: Key,
}

/// A secret of the boot servers. Keep it: with another one all handles that nodes have are stale.
#[derive(Clone)]
pub struct Key(pub [u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// A directory that nodes mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The path that nodes mount, for example `/root`; absolute, without `.` and `..`.
    pub path: String,
    pub place: Place,
    pub identity: Identity,
    pub access: Access,
    pub squash: Squash,
    pub ports: Ports,
}

/// Where the files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// One directory for all nodes, seen through tags.
    Shared(PathBuf),
    /// `DIRECTORY/NODE` for each node, made at its first mount. Strangers cannot mount it. Tags mean nothing here.
    PerNode(PathBuf),
}

/// What a file handle says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The file system's number of the file and its generation: files keep their handles when they are renamed and
    /// changed. Handles are of this server alone.
    Inode,
    /// The file's path in the tree: equal on all servers that have a copy. What takes a file's place, or is written over
    /// it, has its handle: the only ones that nodes with an overlay above the export find again.
    Path {
        /// Of the image; a handle of another generation is stale.
        generation: u64,
    },
}

/// What clients may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// Whom the server takes a client's users for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Squash {
    /// For what they say they are: nodes without a disk need root.
    None,
    /// Root becomes `nobody`.
    Root,
    /// All users become `nobody`.
    All,
}

/// From which ports of a client the server accepts its user ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ports {
    /// All: a user of a node who speaks NFS himself can say that he is root.
    Any,
    /// Those below 1024, which only root of the client can use; callers from others are nobody.
    Privileged,
}

impl Export {
    /// A root for all nodes, read-only, that may be edited while nodes use it.
    pub fn shared(path: impl Into<String>, directory: impl Into<PathBuf>) -> Export {
        Export {
            path: path.into(),
            place: Place::Shared(directory.into()),
            identity: Identity::Inode,
            access: Access::ReadOnly,
            squash: Squash::None,
            ports: Ports::Any,
        }
    }

    /// A generation of an image: as [`Export::shared`], with handles that are equal on all boot servers.
    pub fn image(
        path: impl Into<String>,
        directory: impl Into<PathBuf>,
        generation: u64,
    ) -> Export {
        Export {
            identity: Identity::Path { generation },
            ..Export::shared(path, directory)
        }
    }

    /// A directory for each node that only this node sees, and may write.
    pub fn per_node(path: impl Into<String>, directory: impl Into<PathBuf>) -> Export {
        Export {
            place: Place::PerNode(directory.into()),
            access: Access::ReadWrite,
            ..Export::shared(path, "")
        }
    }

    /// The same, writable.
    pub fn writable(mut self) -> Export {
        self.access = Access::ReadWrite;
        self
    }

    /// The same, for clients whose users could speak NFS themselves.
    pub fn privileged_ports(mut self) -> Export {
        self.ports = Ports::Privileged;
        self
    }
}
