//! Arguments as text, and what the table refuses.

use crate::failed::Failed;
use crate::table::{Command, Fate, Form, refusal};
use std::ffi::OsString;

/// The text of an argument, for comparison: what is not UTF-8 equals no option.
pub fn text(arg: &OsString) -> &str {
    arg.to_str().unwrap_or("\u{fffd}")
}

/// Refuses what the table refuses: `word` equals a form, or begins as a form with an argument does.
pub fn refused_by_table(command: &Command, word: &str) -> Option<Failed> {
    let refused = |f: &&Form| matches!(f.fate, Fate::Refused { .. });
    let is = |f: &&Form| {
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
