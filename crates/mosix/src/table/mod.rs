//! Which commands and options of openMosix and MOSIX there are, and what becomes of each.
//!
//! The parsers refuse by this table, the manual pages and `armento mosix list` are made from it, and a test passes each
//! example of it through the parsers. It does nothing. Start at [`COMMANDS`].

mod control;
mod form;
mod run;
mod screens;

use crate::failed::Failed;

pub use form::{Command, Fate, Form};

/// Every name, in the order of the manual.
pub const COMMANDS: &[Command] = &[
    run::MIGRATE,
    run::MOSRUN,
    run::NOMIG,
    run::RUNHOME,
    run::RUNON,
    run::CPUJOB,
    run::IOJOB,
    run::NODECAY,
    run::SLOWDECAY,
    run::FASTDECAY,
    control::MOSCTL,
    control::SETPE,
    control::SHOWMAP,
    control::OMDISCD,
    screens::MOSMON,
    screens::MPS,
    screens::MTOP,
    screens::OMPSINFO,
    screens::MOSPS,
    run::NATIVE,
    run::MOSENV,
    run::MOSMIGRATE,
    run::MOSNATIVE,
    control::MOSSETPE,
    control::MOSBESTNODE,
];

/// The command of that name.
pub fn command(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|c| c.name == name)
}

/// The refusal of a form that the table refuses.
pub fn refusal(command: &Command, form: &str) -> Failed {
    let found = command.forms.iter().find(|f| f.form == form);
    match found.map(|f| f.fate) {
        Some(Fate::Refused { why, hint }) => {
            Failed::new(format!("{form}: {why}; nothing was done"), hint)
        }
        _ => unknown(command, form),
    }
}

/// The refusal of an argument that the command never had.
pub fn unknown(command: &Command, word: &str) -> Failed {
    Failed::new(
        format!(
            "{} has no option or word {}; nothing was done",
            command.name,
            armento_model::clean(word)
        ),
        format!("`{} --help` lists them", command.name),
    )
}

/// The refusal of a line that is incomplete.
pub fn usage(command: &Command, what: &str) -> Failed {
    Failed::new(
        format!("{what}; nothing was done"),
        format!("usage: {}", command.synopsis.join("; ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_forms_are_unique_and_have_examples() {
        let mut names = std::collections::BTreeSet::new();
        for c in COMMANDS {
            assert!(names.insert(c.name), "{} twice", c.name);
            assert!(!c.synopsis.is_empty() && !c.about.is_empty(), "{}", c.name);
            let mut forms = std::collections::BTreeSet::new();
            for f in c.forms {
                assert!(forms.insert(f.form), "{} {} twice", c.name, f.form);
                assert!(!f.form.is_empty());
            }
        }
    }
}
