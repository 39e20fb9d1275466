//! A row of the table, and a command with its rows.

use serde::Serialize;

/// What becomes of an option or word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "fate", rename_all = "kebab-case")]
pub enum Fate {
    /// It does what it did; how, in words.
    Works { how: &'static str },
    /// It is accepted and changes nothing, because there is nothing to change.
    NoEffect { why: &'static str },
    /// It is refused with one line, before anything is done.
    Refused {
        why: &'static str,
        hint: &'static str,
    },
}

/// One option or word of a command.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Form {
    /// As the old manual had it.
    pub form: &'static str,
    #[serde(flatten)]
    pub fate: Fate,
    /// Arguments with it, for the test that each form does what this table says.
    #[serde(skip)]
    pub example: &'static [&'static str],
}

/// A command by its old name.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Command {
    pub name: &'static str,
    /// `openMosix`, or `MOSIX` for names of its later versions.
    pub system: &'static str,
    pub about: &'static str,
    pub synopsis: &'static [&'static str],
    pub forms: &'static [Form],
    /// What is different, a sentence each.
    pub notes: &'static [&'static str],
}

pub const fn works(
    form: &'static str,
    how: &'static str,
    example: &'static [&'static str],
) -> Form {
    Form {
        form,
        fate: Fate::Works { how },
        example,
    }
}

pub const fn no_effect(
    form: &'static str,
    why: &'static str,
    example: &'static [&'static str],
) -> Form {
    Form {
        form,
        fate: Fate::NoEffect { why },
        example,
    }
}

pub const fn refused(
    form: &'static str,
    why: &'static str,
    hint: &'static str,
    example: &'static [&'static str],
) -> Form {
    Form {
        form,
        fate: Fate::Refused { why, hint },
        example,
    }
}
