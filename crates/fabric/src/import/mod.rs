//! Other systems' files as an inventory. Pure. What an inventory cannot say is named as a loss. Start at [`import`].

mod draft;
mod ethers;
mod hosts;
mod openmosix_map;
mod perceus;
mod warewulf;
mod write;

use crate::inventory::{NODES_MAX, Problems, parse};

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

/// Makes an inventory of other systems' files. `system`: what they are; found out by looks if it is `None`.
///
/// After: the text is a valid inventory.
pub fn import(system: Option<System>, files: &[Given]) -> Result<Imported, ImportError> {
    let system = system
        .or_else(|| files.iter().find_map(guess))
        .ok_or(ImportError::Unknown)?;
    let names = hosts::Hosts::of(files);
    let mut draft = match system {
        System::Perceus => perceus::read(files, &names)?,
        System::OpenmosixMap => openmosix_map::read(files, &names)?,
        System::Ethers => ethers::read(files, &names),
        System::Warewulf => warewulf::read(files)?,
    };
    match draft.nodes.len() {
        0 => return Err(ImportError::Empty),
        1..=NODES_MAX => {}
        _ => return Err(ImportError::TooMany),
    }
    let toml = write::text(&mut draft, system.word());
    parse("farm.toml", &toml, &|_| Err("no other file".into())).map_err(ImportError::Farm)?;
    Ok(Imported {
        toml,
        losses: draft.losses,
    })
}

/// The system whose file this looks like; hosts files and lists of addresses alone are ethers(5).
fn guess(file: &Given) -> Option<System> {
    let lines = file
        .text
        .lines()
        .map(|l| l.split('#').next().unwrap_or_default().trim());
    // `dev:address`, or `dev(K=V):` without one; a key of YAML ends with its colon.
    let device =
        |w: &&str| w.contains(':') && (!w.ends_with(':') || w.ends_with("):")) && !is_mac(w);
    let is_name = |w: &str| !w.contains(':') && w.parse::<std::net::IpAddr>().is_err();
    for line in lines.filter(|l| !l.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() > 1 && is_name(words[0]) && words[1..].iter().all(device) {
            return Some(System::Perceus);
        }
        if line.ends_with(':') || line.contains(": ") {
            return Some(System::Warewulf);
        }
        if words[0].parse::<u16>().is_ok() && words.len() == 3 {
            return Some(System::OpenmosixMap);
        }
        if words.iter().any(|w| is_mac(w)) {
            return Some(System::Ethers);
        }
    }
    None
}

fn is_mac(word: &str) -> bool {
    word.parse::<crate::addr::Mac>().is_ok()
}
