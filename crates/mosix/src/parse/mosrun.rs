//! mosrun and the names that are short for its options.
//!
//! Options of openMosix and of later MOSIX share letters: `-r` alone is openMosix', `-rHOST` is MOSIX's; `-d 900` is
//! openMosix', `-d900` MOSIX's. The first word that is no option begins the program.

use super::deed::{Deed, Place, Run};
use super::words::{refused_by_table, text};
use crate::failed::Failed;
use crate::table::{Command, refusal, unknown, usage};
use armento_model::Hint;
use std::ffi::OsString;
use std::net::Ipv4Addr;

/// Most ranges of `-j`.
const RANGES_MAX: usize = 256;

pub fn native(command: &'static Command, args: &[OsString]) -> Result<Deed, Failed> {
    match args.is_empty() {
        true => Err(usage(command, "there is no program to run")),
        false => Ok(Deed::Native(args.to_vec())),
    }
}

pub fn parse(command: &'static Command, args: &[OsString]) -> Result<Deed, Failed> {
    let mut run = Run::default();
    let mut rest = args;
    match command.name {
        "nomig" | "runhome" => run.place = Place::Home,
        "cpujob" => run.hint = Some(Hint::Cpu),
        "iojob" => run.hint = Some(Hint::Io),
        "runon" => {
            let Some((id, after)) = rest.split_first() else {
                return Err(usage(command, "an ID and a program are needed"));
            };
            if text(id).starts_with('-') {
                return Err(unknown(command, text(id)));
            }
            run.place = Place::Node(text(id).into());
            rest = after;
        }
        _ => {}
    }
    let whole = matches!(command.name, "mosrun" | "mosenv");
    let short = !whole && !matches!(command.name, "nomig" | "runhome" | "runon");
    while let Some((word, after)) = rest.split_first() {
        let w = text(word);
        if !w.starts_with('-') || w == "-" {
            break;
        }
        rest = after;
        if w == "--" {
            break;
        }
        if w == "-z" || ((short || whole) && placed(&mut run, w)) {
            continue;
        }
        if !whole {
            return Err(unknown(command, w));
        }
        rest = option(command, &mut run, w, rest)?;
    }
    if let (Place::Node(_) | Place::OneOf(_), Some(false)) = (&run.place, run.lock) {
        return Err(refusal(command, "-ID -l"));
    }
    if rest.is_empty() {
        return Err(usage(command, "there is no program to run"));
    }
    run.command = rest.to_vec();
    Ok(Deed::Run(run))
}

/// `-h`, `-ID`.
fn placed(run: &mut Run, w: &str) -> bool {
    let id = w[1..].parse::<u16>().ok().filter(|id| *id > 0);
    run.place = match id {
        _ if w == "-h" => Place::Home,
        Some(id) => Place::Node(id.to_string()),
        None => return false,
    };
    true
}

/// One option of mosrun, and what follows it.
fn option<'a>(
    command: &'static Command,
    run: &mut Run,
    w: &str,
    rest: &'a [OsString],
) -> Result<&'a [OsString], Failed> {
    match w {
        "-F" => run.or_anywhere = true,
        "-l" | "-k" => run.lock = Some(false),
        "-L" => run.lock = Some(true),
        "-c" => run.hint = Some(Hint::Cpu),
        "-i" => run.hint = Some(Hint::Io),
        "-t" | "-d" => {
            let number = rest.first().map(|n| text(n).parse::<u32>());
            if !matches!(number, Some(Ok(_))) {
                return Err(usage(command, &format!("{w} needs a number")));
            }
            return Ok(&rest[1..]);
        }
        "-b" => run.place = Place::Anywhere,
        "-n" | "-s" | "-f" | "-e" | "-E" | "-r" | "-R" | "-u" | "-w" | "-T" => {}
        _ if has(w, "-r") => run.place = Place::Node(w[2..].into()),
        _ if w[1..].parse::<Ipv4Addr>().is_ok() => run.place = Place::Node(w[1..].into()),
        _ if w.starts_with("-j") => {
            let ranges = ranges(&w[2..]);
            let what = "-j needs IDs: -j1-4,7";
            run.place = Place::OneOf(ranges.ok_or_else(|| usage(command, what))?);
        }
        "-G" => {}
        _ if has(w, "-G") || has(w, "-D") => {}
        _ if has(w, "-m") || has(w, "-d") => {
            if w[2..].parse::<u32>().is_err() {
                return Err(usage(command, &format!("{} needs a number", &w[..2])));
            }
        }
        _ if has(w, "-E") => return Err(refusal(command, "-E{/cwd}")),
        _ if has(w, "-R") => return Err(refusal(command, "-R{filename}")),
        _ => {
            return Err(refused_by_table(command, w).unwrap_or_else(|| unknown(command, w)));
        }
    }
    Ok(rest)
}

/// Whether `w` is this letter with an argument at once behind it.
fn has(w: &str, letter: &str) -> bool {
    w.starts_with(letter) && w.len() > letter.len()
}

/// `1-4,7` as ranges.
fn ranges(list: &str) -> Option<Vec<(u16, u16)>> {
    let one = |part: &str| {
        let (a, b) = part.split_once('-').unwrap_or((part, part));
        let (a, b) = (a.parse::<u16>().ok()?, b.parse::<u16>().ok()?);
        (a > 0 && a <= b).then_some((a, b))
    };
    let all: Option<Vec<(u16, u16)>> = list.split(',').map(one).collect();
    all.filter(|all| all.len() <= RANGES_MAX)
}
