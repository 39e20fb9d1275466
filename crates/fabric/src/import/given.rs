//! What is given to an import, and what comes of it.

use crate::inventory::{NODES_MAX, Problems};

/// Whose files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// The file of its module ipaddr, with lists of nodes and their hardware addresses (ethers(5) form) and a hosts file.
    Perceus,
    OpenmosixMap,
    Ethers,
    /// nodes.conf of version 4.
    Warewulf,
}

impl System {
    /// All of them.
    pub const ALL: [System; 4] = [
        System::Perceus,
        System::OpenmosixMap,
        System::Ethers,
        System::Warewulf,
    ];

    /// As users write it.
    pub fn word(self) -> &'static str {
        match self {
            System::Perceus => "perceus",
            System::OpenmosixMap => "openmosix-map",
            System::Ethers => "ethers",
            System::Warewulf => "warewulf",
        }
    }

    /// The system of a word.
    pub fn from_word(word: &str) -> Option<System> {
        System::ALL.into_iter().find(|s| s.word() == word)
    }
}

/// A file that was given.
#[derive(Clone, Debug)]
pub struct Given {
    /// As the user named it.
    pub name: String,
    pub text: String,
}

/// An inventory, and what it lacks of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    pub toml: String,
    pub losses: Vec<String>,
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("{file}:{line}: {what}")]
    Line {
        file: String,
        line: usize,
        what: String,
    },
    #[error("no file of them says whose it is")]
    Unknown,
    #[error("no node is named in these files")]
    Empty,
    #[error("more than {NODES_MAX} nodes")]
    TooMany,
    #[error("what the files say makes no farm:\n{0}")]
    Farm(Problems),
}

impl ImportError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            ImportError::Line { .. } => {
                "nothing was written; mend the line, or name the right system with --as"
            }
            ImportError::Unknown => "name it with --as perceus, openmosix-map, ethers or warewulf",
            ImportError::Empty => {
                "perceus needs a list of nodes beside the file of its module ipaddr"
            }
            ImportError::TooMany => "import parts of it, one farm each",
            ImportError::Farm(_) => {
                "mend the files first; the lines are those of the inventory that would have been written"
            }
        }
    }
}
