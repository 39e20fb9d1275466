//! Command lines of old names, read into a [`Deed`]. Pure: nothing is asked, nothing is done.

mod control;
mod deed;
mod map;
mod migrate;
mod mosrun;
mod screens;
mod words;

use crate::failed::Failed;
use crate::table::{Command, refusal};
use std::ffi::OsString;

pub use deed::{
    Bars, Control, Deed, Figure, Listing, Monitor, NodesAs, Numbering, Place, Ps, Run, Setpe,
    Stream, To,
};
pub use map::{BYTES_MAX as MAP_BYTES_MAX, Map};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{COMMANDS, Fate, command};
    use armento_model::Hint;

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
