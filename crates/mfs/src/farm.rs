//! What a mount asks of its daemon.

use armento_link::Duplex;
use armento_model::NodeName;

/// What a mount asks of its daemon.
pub trait Farm: Send + Sync + 'static {
    /// All nodes of the farm now.
    fn nodes(&self) -> Vec<FarmNode>;
    /// A stream to the file server of `uid` on `node`. It waits a few seconds at most.
    /// Whoever starts a server for it has no file of the mount open: exec(2) would close that file, which waits for its
    /// posted writes, and these wait for the server.
    fn connect(&self, node: &NodeName, uid: u32) -> Result<Duplex, Unreachable>;
    /// What the symbolic names mean for process `pid` of this node.
    fn places(&self, pid: u32) -> Places;
    /// Process `pid` has made a file on `node`: `/mfs/magic` means it from now on.
    fn made(&self, pid: u32, node: &NodeName);
    /// What is at this path of the tree that is shown at `.proc`, for this user; `/` separates names. `None`: nothing.
    fn shown(&self, _uid: u32, _path: &str) -> Option<Shown> {
        None
    }
}

/// A directory or file of the tree that is shown at `.proc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    Dir(Vec<String>),
    File(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarmNode {
    pub name: NodeName,
    /// Its number, by which it may be named, too: openMosix' node ID, 1 to 65535.
    pub number: Option<u32>,
    /// This node.
    pub own: bool,
    /// It answered last time.
    pub alive: bool,
}

/// Why there is no stream to a file server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// No node of the farm has this name: `ENOENT`.
    #[error("no node has this name")]
    Unknown,
    /// It does not answer: `EHOSTUNREACH`.
    #[error("it does not answer: {0}")]
    Lost(String),
    /// It exports no files, or none to this user: `EACCES`.
    #[error("{0}")]
    Refused(String),
}

/// Nodes that the symbolic names below the mount point mean for one process; openMosix mfs.txt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Where its body is: `here`.
    pub here: NodeName,
    /// Where it was started: `home`.
    pub home: NodeName,
    /// Of its last successful execve(2): `lastexec`.
    pub last_exec: NodeName,
    /// Where it last made a file through `magic`; where it is, if it made none.
    pub magic: NodeName,
    /// What it selected (`armento mfs select NODE`); its home, if nothing.
    pub selected: NodeName,
}
