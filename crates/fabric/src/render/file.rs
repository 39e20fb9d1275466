//! What is written, and for whom.

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct File {
    /// Absolute, on the node.
    pub path: String,
    pub text: String,
    /// Permissions. netplan complains about files that others may read.
    pub mode: u32,
}

/// What sets up a node's network when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Ifupdown,
    Netplan,
    Networkd,
    /// Commands for `ip -batch`, run by a unit of ours.
    Ip,
}

impl Backend {
    /// All of them.
    pub const ALL: [Backend; 4] = [
        Backend::Ifupdown,
        Backend::Netplan,
        Backend::Networkd,
        Backend::Ip,
    ];

    /// As users write it.
    pub fn word(self) -> &'static str {
        match self {
            Backend::Ifupdown => "ifupdown",
            Backend::Netplan => "netplan",
            Backend::Networkd => "networkd",
            Backend::Ip => "ip",
        }
    }

    /// The back end of a word.
    pub fn from_word(word: &str) -> Option<Backend> {
        Backend::ALL.into_iter().find(|b| b.word() == word)
    }
}

/// First line of every file that we write; a file without it is somebody else's.
pub const MARK: &str = "# Written by `armento fabric`; changes belong into the farm's inventory.";
