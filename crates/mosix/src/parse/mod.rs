//! Command lines of old names, read into a [`Deed`]. Pure: nothing is asked, nothing is done.

mod control;
mod map;
mod migrate;
mod mosrun;
mod screens;

use crate::failed::Failed;
use crate::table::{Command, Fate, refusal};
use armento_model::{Hint, Pid};
use std::ffi::OsString;

pub use map::{BYTES_MAX as MAP_BYTES_MAX, Map};

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    Help,
    Migrate {
        pid: Pid,
        to: To,
    },
    /// SIGSTOP or SIGCONT.
    Signal {
        pid: Pid,
        stop: bool,
    },
    Run(Run),
    /// Without Armento.
    Native(Vec<OsString>),
    Control(Control),
    Setpe(Setpe),
    Showmap,
    BestNode,
    Monitor(Monitor),
    Ps(Ps),
    /// `armento top` with these words.
    Top(Vec<OsString>),
    Listing(Listing),
}

/// Where a process shall go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    Home,
    Balance,
    /// An ID, a name, an address.
    Node(String),
}

/// A program to start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    pub place: Place,
    /// It may run anywhere if the place is not up.
    pub or_anywhere: bool,
    /// `Some(true)`: locked where it begins; `Some(false)`: it may move. Nothing was said: by the place.
    pub lock: Option<bool>,
    pub hint: Option<Hint>,
    pub command: Vec<OsString>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    #[default]
    Anywhere,
    Home,
    Node(String),
    /// Ranges of IDs, both ends included.
    OneOf(Vec<(u16, u16)>),
}

/// mosctl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    Stay(bool),
    Block(bool),
    Quiet(bool),
    Mfs(bool),
    Expel,
    Bring,
    Whois(Option<String>),
    Get(Figure, Option<String>),
    Yard,
}

/// What mosctl tells about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Load,
    Speed,
    Status,
    IsUp,
    Memory,
    Free,
}

/// A file, or standard input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stream {
    Standard,
    File(OsString),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setpe {
    /// `check`: the map alone, without the farm.
    Compare {
        from: Stream,
        check: bool,
        own: Option<u16>,
    },
    Write(Stream),
    Off,
}

/// What mosmon draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bars {
    Speed,
    Memory,
    Load,
    LogLoad,
}

/// How mosmon numbers nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    Wide,
    Downwards,
    Close,
    AsFits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitor {
    pub bars: Bars,
    pub numbering: Numbering,
    pub dead: bool,
    pub count: bool,
    pub first: Option<String>,
}

/// ps or top, and the columns that are added to what it prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ps {
    pub program: &'static str,
    pub words: Vec<OsString>,
    pub info: bool,
    pub long: bool,
}

/// ompsinfo and mosps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// As mosps shows it.
    pub mosps: bool,
    pub all_users: bool,
    pub commands: Vec<String>,
    pub pids: Vec<Pid>,
    pub users: Vec<String>,
    pub negate: bool,
    pub pids_only: bool,
    pub no_heading: bool,
    pub more: Vec<String>,
    pub nodes: NodesAs,
    /// `Some(true)`: only those here; `Some(false)`: only those elsewhere.
    pub here: Option<bool>,
    pub moves: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodesAs {
    #[default]
    Id,
    Name,
    Address,
}

/// Reads the arguments of a command.
pub fn parse(command: &'static Command, args: &[OsString]) -> Result<Deed, Failed> {
    let first = args.first().and_then(|a| a.to_str());
    if first == Some("--help") {
        return Ok(Deed::Help);
    }
    match command.name {
        "migrate" | "mosmigrate" => migrate::parse(command, args),
        "mosctl" => control::mosctl(command, args),
        "setpe" | "mossetpe" => control::setpe(command, args),
        "showmap" => control::alone(command, args, Deed::Showmap),
        "mosbestnode" => control::alone(command, args, Deed::BestNode),
        "mosmon" => screens::mosmon(command, args),
        "mps" => screens::mps(args),
        "mtop" => screens::mtop(command, args),
        "ompsinfo" => screens::ompsinfo(command, args),
        "mosps" => screens::mosps(command, args),
        "native" | "mosnative" => mosrun::native(command, args),
        "omdiscd" => Err(refusal(command, "omdiscd")),
        _ => mosrun::parse(command, args),
    }
}

/// The text of an argument, for comparison: what is not UTF-8 equals no option.
fn text(arg: &OsString) -> &str {
    arg.to_str().unwrap_or("\u{fffd}")
}

/// Refuses what the table refuses: `word` equals a form, or begins as a form with an argument does.
fn refused_by_table(command: &Command, word: &str) -> Option<Failed> {
    let refused = |f: &&crate::table::Form| matches!(f.fate, Fate::Refused { .. });
    let is = |f: &&crate::table::Form| {
        let option = f.form.split([' ', '{', '[']).next().unwrap_or_default();
        let exact = option == word && f.form != "-ID -l";
        // `-Jjob`: the argument follows the letter at once.
        let joined = f.form.len() > 2
            && f.form[2..].starts_with(['{', '['])
            && word.starts_with(&f.form[..2]);
        exact || joined
    };
    let found = command.forms.iter().filter(refused).find(is)?;
    Some(refusal(command, found.form))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{COMMANDS, command};

    fn words(all: &[&str]) -> Vec<OsString> {
        all.iter().map(OsString::from).collect()
    }

    #[test]
    fn every_form_of_the_table_does_what_the_table_says() {
        for c in COMMANDS {
            for f in c.forms {
                let got = parse(c, &words(f.example));
                let shown = format!("{} {:?}: {got:?}", c.name, f.example);
                match f.fate {
                    Fate::Refused { hint, .. } => {
                        let no = got.expect_err(&shown);
                        assert!(no.message.starts_with(f.form), "{shown}");
                        assert_eq!(no.hint, hint, "{shown}");
                    }
                    _ => assert!(got.is_ok(), "{shown}"),
                }
            }
        }
    }

    #[test]
    fn unknown_options_are_refused_in_one_line() {
        for c in COMMANDS {
            let passes_all = ["mps", "native", "mosnative"].contains(&c.name);
            let got = parse(c, &words(&["--no-such\x1b[2J\n"]));
            if !passes_all {
                let no = got.expect_err(c.name);
                assert!(!no.message.contains(['\x1b', '\n']), "{}: {no:?}", c.name);
                assert!(!no.hint.is_empty());
            }
            assert_eq!(parse(c, &words(&["--help"])), Ok(Deed::Help));
        }
    }

    #[test]
    fn programs_keep_their_own_options() {
        let check = |name: &str, args: &[&str], want: Run| {
            let c = command(name).expect("a command");
            assert_eq!(
                parse(c, &words(args)),
                Ok(Deed::Run(want)),
                "{name} {args:?}"
            );
        };
        let run = |command: &[&str]| Run {
            command: words(command),
            ..Run::default()
        };
        check("mosrun", &["ls", "-l", "-3"], run(&["ls", "-l", "-3"]));
        check("mosrun", &["--", "-x"], run(&["-x"]));
        let on = |node: &str, command: &[&str]| Run {
            place: Place::Node(node.into()),
            ..run(command)
        };
        check("mosrun", &["-3", "ls"], on("3", &["ls"]));
        check("mosrun", &["-rn3", "ls"], on("n3", &["ls"]));
        check("mosrun", &["-10.0.0.3", "ls"], on("10.0.0.3", &["ls"]));
        check("runon", &["3", "ls", "-3"], on("3", &["ls", "-3"]));
        let anywhere = Run {
            place: Place::OneOf(vec![(1, 4), (7, 7)]),
            or_anywhere: true,
            lock: Some(true),
            ..run(&["ls"])
        };
        check("mosrun", &["-j1-4,7", "-F", "-L", "ls"], anywhere);
        let home = Run {
            place: Place::Home,
            ..run(&["ls"])
        };
        check("nomig", &["ls"], home.clone());
        check("runhome", &["-z", "ls"], home.clone());
        check("mosrun", &["-h", "ls"], home.clone());
        let hint = |hint, r: Run| Run {
            hint: Some(hint),
            ..r
        };
        check("cpujob", &["ls"], hint(Hint::Cpu, run(&["ls"])));
        check("iojob", &["-h", "ls"], hint(Hint::Io, home));
        check(
            "mosrun",
            &["-c", "-t", "5", "-d", "9", "ls"],
            hint(Hint::Cpu, run(&["ls"])),
        );
        check("slowdecay", &["-3", "ls"], on("3", &["ls"]));
    }

    #[test]
    fn incomplete_lines_show_the_usage() {
        for (name, args) in [
            ("mosrun", &["-3"][..]),
            ("mosrun", &[]),
            ("mosrun", &["-j4-1", "ls"]),
            ("mosrun", &["-j", "ls"]),
            ("mosrun", &["-t", "soon", "ls"]),
            ("runon", &["3"]),
            ("runon", &[]),
            ("migrate", &["1"]),
            ("migrate", &["x", "home"]),
            ("migrate", &["0", "home"]),
            ("mosctl", &[]),
            ("setpe", &[]),
            ("setpe", &["-w", "-p", "70000"]),
            ("native", &[]),
        ] {
            let c = command(name).expect("a command");
            let no = parse(c, &words(args)).expect_err(name);
            assert!(no.hint.starts_with("usage: "), "{name} {args:?}: {no:?}");
        }
    }
}
