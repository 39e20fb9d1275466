//! Writes into files of openMosix below /proc, as the commands that do the same. Pure.

use crate::failed::Failed;
use armento_model::{Pid, clean};

/// The files that can be written, and what a value does, for the manual.
pub const WRITTEN: &[(&str, &str)] = &[
    (
        "PID/goto, PID/migrate",
        "an ID: `migrate PID ID`; `0` or `home`: `migrate PID home`; `balance`: the farm chooses again",
    ),
    ("PID/lock", "`0`: `migrate PID balance`"),
    (
        "hpc/admin/block, stay, lstay, quiet, nomfs",
        "`1` and `0`: `mosctl` with the word of that name, or the one that ends it",
    ),
    (
        "hpc/admin/expel, bring",
        "`1`: `mosctl expel`, `bring`; `0`: `mosctl noblock`, `nolstay`, which those imply",
    ),
];

/// What openMosix and MOSIX had below /proc and is not there, and what to use instead.
pub const ABSENT: &[(&str, &str)] = &[
    (
        "PID/migfilter, PID/mignodes, PID/migpolicy",
        "`armento farm trust --send-to`: where programs of a home may go, by user; `armento run --on NODE`, `--stay` for one program",
    ),
    (
        "PID/lock with 1",
        "`migrate PID ID`: a process that was moved by hand stays there",
    ),
    (
        "hpc/decay/*, hpc/admin/{decay-interval, slow-decay, fast-decay, overheads}",
        "nothing: loads and the price of calls are measured",
    ),
    (
        "hpc/admin/{config, mospe, gateways, speed, dfsalinks} written",
        "`armento join`, `setpe`; speed is measured; `dfsa` in the settings",
    ),
    ("hpc/nodes/ID/util", "`armento why PID`"),
    (
        "hpc/remote/{statm, stats}",
        "`armento nodes`, `armento top`",
    ),
    ("self/selected", "`armento mfs select NODE`"),
];

/// The old command that does the same, with its arguments. `path`: below /proc, with or without it.
pub fn old_command(path: &str, value: &str) -> Result<(&'static str, Vec<String>), Failed> {
    let below = path.strip_prefix("/proc").unwrap_or(path);
    let words: Vec<&str> = below.split('/').filter(|w| !w.is_empty()).collect();
    let value = value.trim();
    let migrate = |pid: &str, to: &str| Ok(("migrate", vec![pid.to_owned(), to.to_owned()]));
    let shown = || format!("{} into {}", clean(value), clean(path));
    let wrong = || {
        Failed::new(
            format!("openMosix did nothing with {}; nothing was done", shown()),
            "the manual of `armento mosix` lists the files and their values",
        )
    };
    match words.as_slice() {
        ["self", name] => Err(Failed::new(
            format!(
                "self is this command's own process: {}; nothing was done",
                clean(name)
            ),
            "give the pid of the shell: /proc/$$/…",
        )),
        [pid, name] if pid.parse::<Pid>().is_ok_and(|p| p > 0) => match (*name, value) {
            ("goto" | "migrate", "0" | "home") => migrate(pid, "home"),
            ("goto" | "migrate", "balance") | ("lock", "0") => migrate(pid, "balance"),
            ("goto" | "migrate", to) if !to.is_empty() && !to.starts_with('-') => migrate(pid, to),
            _ => Err(absent(name, &shown()).unwrap_or_else(wrong)),
        },
        ["hpc", "admin", name] => match control(name, value) {
            Some(word) => Ok(("mosctl", vec![word.to_owned()])),
            None => Err(absent(name, &shown()).unwrap_or_else(wrong)),
        },
        ["hpc", "decay", _] => Err(absent("decay", &shown()).unwrap_or_else(wrong)),
        _ => Err(wrong()),
    }
}

fn control(name: &str, value: &str) -> Option<&'static str> {
    Some(match (name, value) {
        ("block", "1") => "block",
        ("block" | "expel", "0") => "noblock",
        ("stay", "1") => "stay",
        ("stay", "0") => "nostay",
        ("lstay", "1") => "lstay",
        ("lstay" | "bring", "0") => "nolstay",
        ("quiet", "1") => "quiet",
        ("quiet", "0") => "noquiet",
        ("nomfs", "1") => "nomfs",
        ("nomfs", "0") => "mfs",
        ("expel", "1") => "expel",
        ("bring", "1") => "bring",
        _ => return None,
    })
}

/// The refusal of a file that is not there, with what to use.
fn absent(name: &str, shown: &str) -> Option<Failed> {
    let has = |files: &&(&str, &str)| {
        let mut words = files
            .0
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        words.any(|w| w == name)
    };
    let (_, instead) = ABSENT.iter().find(has)?;
    let what = format!("Armento does not have this: {shown}; nothing was done");
    Some(Failed::new(what, *instead))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_old_commands() {
        let check = |path: &str, value: &str, want: &str| {
            let (name, args) = old_command(path, value).expect(path);
            assert_eq!(format!("{name} {}", args.join(" ")), want);
        };
        check("/proc/4711/goto", "3\n", "migrate 4711 3");
        check("4711/migrate", "0", "migrate 4711 home");
        check("/proc/4711/goto", "balance", "migrate 4711 balance");
        check("/proc/4711/lock", "0", "migrate 4711 balance");
        check("/proc/hpc/admin/block", "1", "mosctl block");
        check("/proc/hpc/admin/nomfs", "0", "mosctl mfs");
        check("hpc/admin/bring", "0", "mosctl nolstay");
    }

    #[test]
    fn what_is_not_there_has_a_hint() {
        for (path, value, hint) in [
            ("/proc/4711/migfilter", "1", "farm trust"),
            ("/proc/4711/mignodes", "6", "farm trust"),
            ("/proc/4711/migpolicy", "0", "farm trust"),
            ("/proc/4711/lock", "1", "by hand"),
            ("/proc/hpc/admin/speed", "7", "measured"),
            ("/proc/hpc/decay/slow", "1", "measured"),
            ("/proc/self/lock", "1", "$$"),
            ("/proc/4711/goto", "-1", "the manual"),
            ("/proc/hpc/admin/block", "2", "the manual"),
            ("/proc/0/goto", "1", "the manual"),
            ("/etc/passwd\x1b", "1", "the manual"),
        ] {
            let no = old_command(path, value).expect_err(path);
            assert!(no.hint.contains(hint), "{path}: {no:?}");
            assert!(no.message.ends_with("nothing was done") && !no.message.contains('\x1b'));
        }
    }
}
