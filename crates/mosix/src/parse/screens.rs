//! mosmon, mps, mtop, ompsinfo and mosps.

use super::deed::{Bars, Deed, Listing, Monitor, NodesAs, Numbering, Ps};
use super::words::{refused_by_table, text};
use crate::failed::Failed;
use crate::table::{Command, refusal, unknown, usage};
use std::ffi::OsString;

/// Further columns of ompsinfo.
pub const INFOS: [&str; 9] = [
    "where", "nmigs", "lock", "cantmove", "user", "home", "mem", "time", "name",
];

pub fn mosmon(command: &'static Command, args: &[OsString]) -> Result<Deed, Failed> {
    let mut m = Monitor {
        bars: Bars::Load,
        numbering: Numbering::AsFits,
        dead: false,
        count: false,
        first: None,
    };
    for word in args {
        match text(word) {
            "-w" => m.numbering = Numbering::Wide,
            "-v" => m.numbering = Numbering::Downwards,
            "-V" => m.numbering = Numbering::Close,
            "-a" => m.numbering = Numbering::AsFits,
            "-s" => m.bars = Bars::Speed,
            "-m" | "-r" => m.bars = Bars::Memory,
            "-l" => m.bars = Bars::Load,
            "-L" => m.bars = Bars::LogLoad,
            "-d" => m.dead = true,
            "-t" => m.count = true,
            "-h" | "-H" => return Ok(Deed::Help),
            w if w.len() > 1 && w.starts_with('+') => m.first = Some(w[1..].into()),
            w => return Err(refused_by_table(command, w).unwrap_or_else(|| unknown(command, w))),
        }
    }
    Ok(Deed::Monitor(m))
}

/// What is not ours is ps's, which refuses what it does not know.
pub fn mps(args: &[OsString]) -> Result<Deed, Failed> {
    let has = |option: &str| args.iter().any(|a| text(a) == option);
    let long = has("--ominfol");
    let ours = |a: &&OsString| !["--ominfo", "--ominfol"].contains(&text(a));
    Ok(Deed::Ps(Ps {
        program: "ps",
        words: args.iter().filter(ours).cloned().collect(),
        info: long || has("--ominfo"),
        long,
    }))
}

pub fn mtop(command: &'static Command, args: &[OsString]) -> Result<Deed, Failed> {
    if args.iter().any(|a| text(a) == "-b") {
        return Ok(Deed::Ps(Ps {
            program: "top",
            words: args.to_vec(),
            info: false,
            long: false,
        }));
    }
    match args.iter().map(text).collect::<Vec<_>>()[..] {
        [] => Ok(Deed::Top(Vec::new())),
        ["-d", seconds] if seconds.parse::<f64>().is_ok_and(|s| s > 0.0) => {
            Ok(Deed::Top(vec!["--delay".into(), seconds.into()]))
        }
        ["-d", ..] => Err(usage(command, "-d needs seconds")),
        [word, ..] => Err(unknown(command, word)),
    }
}

pub fn ompsinfo(command: &'static Command, args: &[OsString]) -> Result<Deed, Failed> {
    let mut l = Listing::default();
    let mut words = args.iter().map(text);
    while let Some(word) = words.next() {
        let mut value = || {
            let what = format!("{word} needs an argument");
            words.next().ok_or_else(|| usage(command, &what))
        };
        match word {
            "-A" => l.all_users = true,
            "-C" => l.commands.push(value()?.into()),
            "-p" => {
                let pids: Result<Vec<i32>, _> = value()?.split(',').map(str::parse).collect();
                l.pids
                    .extend(pids.map_err(|_| usage(command, "-p needs pids"))?);
            }
            "-u" => l.users.push(value()?.into()),
            "-U" => {}
            "-N" => l.negate = true,
            "-l" => l.pids_only = true,
            "-o" => match value()? {
                "pid=" => l.pids_only = true,
                _ => return Err(usage(command, "-o knows pid= only")),
            },
            "-a" => {
                for info in value()?.split(',') {
                    if !INFOS.contains(&info) {
                        let what = format!("-a knows {}", INFOS.join(", "));
                        return Err(usage(command, &what));
                    }
                    l.more.push(info.into());
                }
            }
            "-h" => l.no_heading = true,
            "-H" => return Ok(Deed::Help),
            pid => match pid.parse() {
                Ok(pid) if pid > 0 => l.pids.push(pid),
                _ => return Err(unknown(command, pid)),
            },
        }
    }
    Ok(Deed::Listing(l))
}

pub fn mosps(command: &'static Command, args: &[OsString]) -> Result<Deed, Failed> {
    let mut l = Listing {
        mosps: true,
        ..Listing::default()
    };
    for word in args.iter().map(text) {
        match word {
            "-I" => l.nodes = NodesAs::Address,
            "-h" => l.nodes = NodesAs::Name,
            "-M" => l.nodes = NodesAs::Id,
            "-L" => l.here = Some(true),
            "-O" => l.here = Some(false),
            "-n" => l.moves = true,
            "-N" => {}
            w if w.starts_with("-J") => return Err(refusal(command, "-J{JobID}")),
            w => return Err(refused_by_table(command, w).unwrap_or_else(|| unknown(command, w))),
        }
    }
    Ok(Deed::Listing(l))
}
