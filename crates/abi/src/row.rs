//! What the table says of one system call.

use std::fmt;

use crate::{Arg, Cond};

/// Where a call runs when its process is away.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Allowed by the filter: the body runs it natively.
    Body,
    /// The filter looks at the arguments: native when the condition holds.
    BodyIf(&'static Cond, Otherwise),
    /// Notified; the host handles it itself (fork, exec, file mappings, CPU time).
    Host,
    /// Forwarded: the deputy executes it at home.
    Home,
    /// Brings the process home, where the kernel serves it.
    ComeHome,
}

/// Where a [`Place::BodyIf`] call goes when its condition fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    Host,
    Home,
    ComeHome,
}

/// What an interruption without a handler does to a blocking call.
///
/// KERNEL: signal(7), "Interruption of system calls and library functions by stop signals".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Does not block, or the kernel restarts it by itself (ERESTARTSYS, ERESTARTNOHAND).
    Kernel,
    /// May return EINTR although no handler ran: issue it again with the remaining time.
    Eintr,
    /// ERESTART_RESTARTBLOCK: continued by `restart_syscall`.
    Block,
    /// Must not be issued again, whatever it returned.
    Never,
}

impl Restart {
    pub const ALL: [Restart; 4] = [
        Restart::Kernel,
        Restart::Eintr,
        Restart::Block,
        Restart::Never,
    ];

    /// One word for tables and scripts.
    pub fn word(self) -> &'static str {
        match self {
            Restart::Kernel => "kernel",
            Restart::Eintr => "again",
            Restart::Block => "goes on",
            Restart::Never => "once",
        }
    }

    /// What becomes of the call when a stop or a move meets it and no handler runs.
    pub fn explain(self) -> &'static str {
        match self {
            Restart::Kernel => "it does not wait, or the kernel itself begins it again",
            Restart::Eintr => "where the kernel says EINTR, it is made again with the time left",
            Restart::Block => "the kernel goes on with it (restart_syscall)",
            Restart::Never => "it is not made again, whatever it said",
        }
    }
}

/// One system call.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub nr: u16,
    pub name: &'static str,
    pub place: Place,
    /// The condition of a [`Place::BodyIf`] in words: "at the body when ...". Empty for the others.
    pub when: &'static str,
    /// Shapes of the arguments; missing ones are plain values.
    pub args: &'static [Arg],
    pub restart: Restart,
    /// It sleeps on an object that may be removed meanwhile: EIDRM. Issued again, it would say EINVAL.
    pub removable: bool,
    /// What is imperfect or surprising, for the manual. Empty when nothing is.
    pub note: &'static str,
}

impl Place {
    /// Every word of [`Place::words`] with what it means.
    pub const WORDS: [(&'static str, &'static str); 4] = [
        (
            "body",
            "the kernel of the node it is on serves it, natively",
        ),
        (
            "host",
            "Armento serves it on that node: fork, exec, mapped files, CPU time",
        ),
        ("home", "it is sent home and made there by the deputy"),
        (
            "comes home",
            "the process comes home, where the kernel serves it",
        ),
    ];

    /// Where it runs, and where else when the condition of the row does not hold.
    pub fn words(self) -> (&'static str, Option<&'static str>) {
        let word = |i: usize| Place::WORDS[i].0;
        match self {
            Place::Body => (word(0), None),
            Place::BodyIf(_, Otherwise::Host) => (word(0), Some(word(1))),
            Place::BodyIf(_, Otherwise::Home) => (word(0), Some(word(2))),
            Place::BodyIf(_, Otherwise::ComeHome) => (word(0), Some(word(3))),
            Place::Host => (word(1), None),
            Place::Home => (word(2), None),
            Place::ComeHome => (word(3), None),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.words() {
            (place, None) => f.write_str(place),
            (place, Some(otherwise)) => write!(f, "{place} or {otherwise}"),
        }
    }
}

impl Row {
    /// The condition and the note in one sentence; empty when there is nothing to say.
    pub fn remarks(&self) -> String {
        match (self.when, self.note) {
            ("", note) => note.to_owned(),
            (when, "") => format!("at the body when {when}"),
            (when, note) => format!("at the body when {when}; {note}"),
        }
    }
}

// Builders for the tables: `home(0, "read", &[..]).eintr().note("..")`.

const fn new(nr: u16, name: &'static str, place: Place, args: &'static [Arg]) -> Row {
    Row {
        nr,
        name,
        place,
        when: "",
        args,
        restart: Restart::Kernel,
        removable: false,
        note: "",
    }
}

pub(crate) const fn body(nr: u16, name: &'static str) -> Row {
    new(nr, name, Place::Body, &[])
}

pub(crate) const fn body_if(
    nr: u16,
    name: &'static str,
    cond: &'static Cond,
    when: &'static str,
    otherwise: Otherwise,
    args: &'static [Arg],
) -> Row {
    let mut row = new(nr, name, Place::BodyIf(cond, otherwise), args);
    row.when = when;
    row
}

pub(crate) const fn host(nr: u16, name: &'static str, args: &'static [Arg]) -> Row {
    new(nr, name, Place::Host, args)
}

pub(crate) const fn home(nr: u16, name: &'static str, args: &'static [Arg]) -> Row {
    new(nr, name, Place::Home, args)
}

pub(crate) const fn come(nr: u16, name: &'static str, note: &'static str) -> Row {
    new(nr, name, Place::ComeHome, &[]).note(note)
}

/// A number the kernel keeps but no longer serves: home answers ENOSYS as anywhere.
pub(crate) const fn gone(nr: u16, name: &'static str) -> Row {
    new(nr, name, Place::Home, &[]).note("the kernel answers ENOSYS")
}

impl Row {
    pub(crate) const fn note(mut self, note: &'static str) -> Row {
        self.note = note;
        self
    }

    pub(crate) const fn eintr(mut self) -> Row {
        self.restart = Restart::Eintr;
        self
    }

    pub(crate) const fn block(mut self) -> Row {
        self.restart = Restart::Block;
        self
    }

    pub(crate) const fn removable(mut self) -> Row {
        self.removable = true;
        self
    }

    pub(crate) const fn never(mut self) -> Row {
        self.restart = Restart::Never;
        self
    }
}
