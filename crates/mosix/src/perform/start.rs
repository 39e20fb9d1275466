//! Programs are started: this process becomes `armento run`, and then the program, in its own pid.

use super::out::become_armento;
use crate::failed::Failed;
use crate::farm::{Farm, Member};
use crate::parse::{Place, Run};
use armento_client::Session;
use armento_model::Hint;
use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

pub fn run(run: Run) -> Result<i32, Failed> {
    let farm = match &run.place {
        Place::Node(_) | Place::OneOf(_) => Some(Farm::ask(&mut Session::connect()?)),
        _ => None,
    };
    let farm = match farm.transpose() {
        Err(_) if run.or_anywhere => None,
        farm => farm?,
    };
    // Seeded by the system for each value.
    let random = RandomState::new().hash_one(std::process::id());
    let mut words = options(&run, farm.as_ref(), random)?;
    words.push("--".into());
    words.extend(run.command);
    Err(become_armento("run", words))
}

/// The options of `armento run` that mean the same. `farm`: where a node was named; `None` then: there is no daemon,
/// and it may run anywhere.
fn options(run: &Run, farm: Option<&Farm>, random: u64) -> Result<Vec<OsString>, Failed> {
    let hint = match run.hint {
        Some(Hint::Cpu) => vec!["--cpu".into()],
        Some(Hint::Io) => vec!["--io".into()],
        None => Vec::new(),
    };
    let stay = || vec!["--stay".into()];
    let chosen = match (&run.place, farm) {
        (Place::Home, _) if run.lock == Some(false) => {
            return Ok([vec!["--begin".into(), "here".into()], hint].concat());
        }
        (Place::Home, _) => return Ok(stay()),
        (Place::Anywhere, _) if run.lock == Some(true) => return Ok(stay()),
        (Place::Anywhere, _) | (_, None) => return Ok(hint),
        (Place::Node(word), Some(farm)) => farm.find(word),
        (Place::OneOf(ranges), Some(farm)) => one_of(ranges, farm, random),
    };
    match chosen {
        Ok(m) if m.info.here => Ok(stay()),
        Ok(m) if m.is_up() => Ok(vec!["--on".into(), m.info.name.as_str().into()]),
        _ if run.or_anywhere => Ok(hint),
        Ok(m) => Err(Failed::new(
            format!("{} is {}; nothing was started", m.info.name, m.info.state),
            "`mosrun -F` runs it anywhere then",
        )),
        Err(no) => Err(Failed::new(
            format!("{}; nothing was started", no.message),
            no.hint,
        )),
    }
}

/// A node of the list, of those that are up if there is one.
fn one_of<'a>(ranges: &[(u16, u16)], farm: &'a Farm, random: u64) -> Result<&'a Member, Failed> {
    let listed = |m: &&Member| ranges.iter().any(|(a, b)| (*a..=*b).contains(&m.id));
    let all: Vec<&Member> = farm.members.iter().filter(listed).collect();
    let up: Vec<&Member> = all.iter().copied().filter(|m| m.is_up()).collect();
    let from = if up.is_empty() { &all } else { &up };
    match from.len() as u64 {
        0 => Err(Failed::new(
            "no node of the farm has an ID of that list",
            "`showmap` lists the nodes with their IDs",
        )),
        n => Ok(from[(random % n) as usize]),
    }
}

/// `native`: without Armento.
pub fn native(words: &[OsString]) -> Result<i32, Failed> {
    let e = Command::new(&words[0]).args(&words[1..]).exec();
    let name = armento_model::clean(&words[0].to_string_lossy());
    let (code, hint) = match e.kind() {
        io::ErrorKind::NotFound => (127, "check the name and PATH"),
        _ => (
            126,
            "is it a program for this machine, with its execute permission set?",
        ),
    };
    eprintln!("native: {name} cannot be run: {e}\nhint: {hint}");
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::farm::tests::node;
    use armento_client::api::NodeInfo;

    #[test]
    fn wishes_become_options_of_run() {
        let down = NodeInfo {
            state: "down".into(),
            ..node("n3", "10.0.0.3:7117")
        };
        let farm = Farm::of(vec![
            node("n1", "10.0.0.1:1"),
            node("n2", "10.0.0.2:1"),
            down,
        ]);
        let check = |place: Place, lock, or_anywhere, hint, want: Option<&str>| {
            let run = Run {
                place: place.clone(),
                lock,
                or_anywhere,
                hint,
                command: vec!["ls".into()],
            };
            let got = options(&run, Some(&farm), 4).ok();
            let got = got.map(|w| w.join(" ".as_ref()).to_string_lossy().into_owned());
            assert_eq!(got.as_deref(), want, "{place:?} {lock:?}");
        };
        let at = |n: &str| Place::Node(n.into());
        let cpu = Some(Hint::Cpu);
        check(Place::Anywhere, None, false, cpu, Some("--cpu"));
        check(Place::Anywhere, Some(true), false, None, Some("--stay"));
        check(Place::Home, None, false, cpu, Some("--stay"));
        check(
            Place::Home,
            Some(false),
            false,
            cpu,
            Some("--begin here --cpu"),
        );
        check(at("2"), None, false, cpu, Some("--on n2"));
        check(at("10.0.0.2"), None, false, None, Some("--on n2"));
        check(at("1"), None, false, None, Some("--stay"));
        check(at("3"), None, false, None, None);
        check(at("3"), None, true, cpu, Some("--cpu"));
        check(at("9"), None, true, None, Some(""));
        check(
            Place::OneOf(vec![(2, 3)]),
            None,
            false,
            None,
            Some("--on n2"),
        );
        check(Place::OneOf(vec![(3, 3)]), None, false, None, None);
        check(Place::OneOf(vec![(8, 9)]), None, false, None, None);
    }
}
