//! mosctl, setpe and commands without arguments.

use super::deed::{Control, Deed, Figure, Setpe, Stream};
use super::words::{refused_by_table, text};
use crate::failed::Failed;
use crate::table::{Command, unknown, usage};
use std::ffi::OsString;

pub fn alone(command: &'static Command, args: &[OsString], deed: Deed) -> Result<Deed, Failed> {
    match args.first() {
        Some(word) => Err(unknown(command, text(word))),
        None => Ok(deed),
    }
}

pub fn mosctl(command: &'static Command, args: &[OsString]) -> Result<Deed, Failed> {
    let words: Vec<&str> = args.iter().map(text).collect();
    let Some((word, rest)) = words.split_first() else {
        return Err(usage(command, "a word is needed"));
    };
    let about = |control: fn(Option<String>) -> Control| match rest {
        [] => Ok(Deed::Control(control(None))),
        [node] => Ok(Deed::Control(control(Some((*node).into())))),
        _ => Err(usage(command, "one node at most")),
    };
    let control = match *word {
        "stay" | "lstay" => Control::Stay(true),
        "nostay" | "-stay" | "nolstay" | "-lstay" => Control::Stay(false),
        "block" => Control::Block(true),
        "noblock" | "-block" => Control::Block(false),
        "quiet" => Control::Quiet(true),
        "noquiet" | "-quiet" => Control::Quiet(false),
        "mfs" => Control::Mfs(true),
        "nomfs" | "-mfs" => Control::Mfs(false),
        "expel" => Control::Expel,
        "bring" => Control::Bring,
        "getyard" => Control::Yard,
        "whois" => return about(Control::Whois),
        "getload" => return about(|n| Control::Get(Figure::Load, n)),
        "getspeed" => return about(|n| Control::Get(Figure::Speed, n)),
        "status" => return about(|n| Control::Get(Figure::Status, n)),
        "isup" => return about(|n| Control::Get(Figure::IsUp, n)),
        "getmem" => return about(|n| Control::Get(Figure::Memory, n)),
        "getfree" => return about(|n| Control::Get(Figure::Free, n)),
        word => {
            return Err(refused_by_table(command, word).unwrap_or_else(|| unknown(command, word)));
        }
    };
    match rest.first() {
        Some(more) => Err(unknown(command, more)),
        None => Ok(Deed::Control(control)),
    }
}

pub fn setpe(command: &'static Command, args: &[OsString]) -> Result<Deed, Failed> {
    let (mut compare, mut write, mut off, mut check) = (false, false, false, false);
    let mut own = None;
    let mut stream = Stream::Standard;
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            let what = format!("{} needs an argument", text(word));
            words.next().ok_or_else(|| usage(command, &what))
        };
        match text(word) {
            "-w" | "-W" => compare = true,
            "-r" => write = true,
            "-off" => off = true,
            "-c" => check = true,
            "-n" => drop(value()?),
            "-g" => {
                let g = value()?;
                if !["0", "1", "2"].contains(&text(g)) {
                    return Err(usage(command, "-g needs 0, 1 or 2"));
                }
            }
            "-p" => {
                let id = text(value()?).parse::<u16>().ok().filter(|id| *id > 0);
                own = Some(id.ok_or_else(|| usage(command, "-p needs an ID, 1 to 65535"))?);
            }
            "-f" => {
                let file = value()?;
                stream = match text(file) {
                    "-" => Stream::Standard,
                    _ => Stream::File(file.clone()),
                };
            }
            w => return Err(refused_by_table(command, w).unwrap_or_else(|| unknown(command, w))),
        }
    }
    match (compare, write, off) {
        (true, false, false) => Ok(Deed::Setpe(Setpe::Compare {
            from: stream,
            check,
            own,
        })),
        (false, true, false) if !check && own.is_none() => Ok(Deed::Setpe(Setpe::Write(stream))),
        (false, false, true) if !check && own.is_none() => Ok(Deed::Setpe(Setpe::Off)),
        _ => Err(usage(command, "one of -w, -W, -r and -off is needed")),
    }
}
