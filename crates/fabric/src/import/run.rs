//! An import from its files to a checked inventory.

use super::given::{Given, ImportError, Imported, System};
use super::{ethers, hosts, openmosix_map, perceus, warewulf, write};
use crate::inventory::{NODES_MAX, parse};

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
