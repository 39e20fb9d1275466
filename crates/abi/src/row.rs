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

/// One system call.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub nr: u16,
    pub name: &'static str,
    pub place: Place,
    /// Shapes of the arguments; missing ones are plain values.
    pub args: &'static [Arg],
    pub restart: Restart,
    /// It sleeps on an object that may be removed meanwhile: EIDRM. Issued again, it would say EINVAL.
    pub removable: bool,
    /// What is imperfect or surprising, for the manual. Empty when nothing is.
    pub note: &'static str,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::Body => "body",
            Place::BodyIf(_, Otherwise::Host) => "body or host",
            Place::BodyIf(_, Otherwise::Home) => "body or home",
            Place::BodyIf(_, Otherwise::ComeHome) => "body or comes home",
            Place::Host => "host",
            Place::Home => "home",
            Place::ComeHome => "comes home",
        })
    }
}

// Builders for the tables: `home(0, "read", &[..]).eintr().note("..")`.

const fn new(nr: u16, name: &'static str, place: Place, args: &'static [Arg]) -> Row {
    Row {
        nr,
        name,
        place,
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
    otherwise: Otherwise,
    args: &'static [Arg],
) -> Row {
    new(nr, name, Place::BodyIf(cond, otherwise), args)
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
