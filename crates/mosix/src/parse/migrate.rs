//! migrate.

use super::deed::{Deed, To};
use super::words::{refused_by_table, text};
use crate::failed::Failed;
use crate::table::{Command, refusal, unknown, usage};
use armento_model::Pid;
use std::ffi::OsString;

pub fn parse(command: &'static Command, args: &[OsString]) -> Result<Deed, Failed> {
    let words: Vec<&str> = args.iter().map(text).collect();
    if let Some(first) = words.first().filter(|w| w.starts_with('-')) {
        if first.starts_with("-j") {
            return Err(refusal(command, "-jJOB"));
        }
        return Err(refused_by_table(command, first).unwrap_or_else(|| unknown(command, first)));
    }
    let &[pid, to] = words.as_slice() else {
        return Err(usage(command, "a pid and a place are needed"));
    };
    let Some(pid) = pid.parse::<Pid>().ok().filter(|p| *p > 0) else {
        let shown = armento_model::clean(pid);
        return Err(usage(command, &format!("{shown} is no pid")));
    };
    Ok(match to {
        "home" => Deed::Migrate { pid, to: To::Home },
        "balance" => Deed::Migrate {
            pid,
            to: To::Balance,
        },
        "freeze" => Deed::Signal { pid, stop: true },
        "continue" => Deed::Signal { pid, stop: false },
        "out" | "checkpoint" | "chkstop" | "chkexit" => {
            return Err(refusal(command, &format!("pid {to}")));
        }
        node if node.starts_with('-') => return Err(unknown(command, node)),
        node => Deed::Migrate {
            pid,
            to: To::Node(node.into()),
        },
    })
}
