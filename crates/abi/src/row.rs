//! One row of the table: the facts about a system call.

use std::fmt;

use crate::{Arg, Cond};

/// Where a call runs while its process is away.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Allowed by the filter: the body runs it natively.
    Body,
    /// The filter tests the arguments: native if the condition is true.
    BodyIf(&'static Cond, Otherwise),
    /// Notified; the host handles it itself (fork, exec, file mappings, CPU time).
    Host,
    /// Forwarded: the deputy executes it at home.
    Home,
    /// Brings the process home, where the kernel executes it.
    ComeHome,
}

/// Where a [`Place::BodyIf`] call runs if its condition is false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    Host,
    Home,
    ComeHome,
}

/// The effect of an interruption without a handler on a blocking call.
///
/// KERNEL: signal(7), "Interruption of system calls and library functions by stop signals".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Does not block, or the kernel restarts it by itself (ERESTARTSYS, ERESTARTNOHAND).
    Kernel,
    /// May return EINTR although no handler ran: restarted with the remaining time.
    Eintr,
    /// ERESTART_RESTARTBLOCK: continued by `restart_syscall`.
    Block,
    /// Must not be restarted, whatever it returned.
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

    /// What happens to the call if a stop or a move interrupts it and no handler runs.
    pub fn explain(self) -> &'static str {
        match self {
            Restart::Kernel => "it does not wait, or the kernel restarts it",
            Restart::Eintr => "after EINTR it is repeated with the remaining time",
            Restart::Block => "the kernel continues it (restart_syscall)",
            Restart::Never => "it is never repeated, whatever it returned",
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
    /// Kinds of the arguments; missing ones are plain values.
    pub args: &'static [Arg],
    pub restart: Restart,
    /// It sleeps on an object that may be removed meanwhile: EIDRM. Restarted, it would return EINVAL.
    pub removable: bool,
    /// On a regular file of a local file system it is answered before it is made: its result is certain, and home makes
    /// it before anything that the tree does next.
    pub posts: bool,
    /// Imperfect or surprising behaviour, for the manual. Empty if there is none.
    pub note: &'static str,
}

impl Place {
    /// Every word of [`Place::words`] with its meaning.
    pub const WORDS: [(&'static str, &'static str); 4] = [
        (
            "body",
            "the kernel of the node that the program is on executes it natively",
        ),
        (
            "host",
            "Armento makes it on that node: fork, exec, mapped files, CPU time",
        ),
        ("home", "it is sent home, where the deputy executes it"),
        (
            "comes home",
            "the process comes home, where the kernel executes it",
        ),
    ];

    /// Where it runs, and where else if the condition of the row is false.
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
    /// One word for tables: whether it is posted.
    pub fn posts_word(&self) -> &'static str {
        if self.posts { "yes" } else { "" }
    }

    /// The condition and the note in one sentence; empty if there is neither.
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
        posts: false,
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

/// A number that the kernel reserves but no longer implements: home returns ENOSYS as any kernel does.
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

    pub(crate) const fn posts(mut self) -> Row {
        self.posts = true;
        self
    }

    pub(crate) const fn never(mut self) -> Row {
        self.restart = Restart::Never;
        self
    }
}
