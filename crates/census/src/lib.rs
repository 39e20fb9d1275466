//! The census: every piece of state that Linux keeps for a process, and what becomes of it when the process moves.
//!
//! Pure data: this crate makes no system call and changes nothing. `docs/state-census.md` is rendered from [`rows`];
//! `tests/kernel.rs` compares them with the running kernel and its headers; `xtask/src/tidy/census.rs` checks that the
//! files, reasons and guests that they name exist. Linux 6.1 to 6.18, x86-64.
//!
//! Start at [`Row`]. A section of the table is a file: `thread.rs`, `address_space.rs` and so on. A fix of a defect
//! changes the fate of its row, names the guest that shows it, and lowers [`MISSING_ALLOWED`].

mod address_space;
mod credentials;
mod descriptors;
mod felt;
mod mappings;
mod namespaces;
mod prctls;
mod process;
mod procfs;
mod ptraces;
mod registers;
mod render;
mod scheduling;
mod signals;
mod thread;
mod timers;
mod traces;
mod watched;

pub use render::page;

/// Rows with [`Fate::Missing`]. May only fall.
pub const MISSING_ALLOWED: usize = 0;
/// Rows that a program could notice and that no guest or test shows. May only fall.
pub const UNTESTED_ALLOWED: usize = 21;

/// One piece of state, or one side effect of Armento.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Unique, lower case, words joined by `-`.
    pub id: &'static str,
    pub what: &'static str,
    pub of: Owner,
    /// Its names in the kernel.
    pub names: &'static [Name],
    pub fate: Fate,
    /// Guests (`guests/NAME.c`) and tests (`fn NAME`) that show it.
    pub shown_by: &'static [&'static str],
    /// First version of the kernel that has it; `None`: older than 6.1.
    pub since: Option<(u16, u16)>,
}

/// The kernel object that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    Thread,
    Process,
    Session,
    AddressSpace,
    DescriptorTable,
    Descriptor,
    Mapping,
    PendingSignal,
    Timer,
    Namespace,
    Credentials,
    /// None of the program's: a side effect of Armento that the program or others can notice.
    Trace,
}

/// A name of a piece of state in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// `struct.field`; of anonymous structs and unions inside, their fields.
    Field(&'static str),
    Prctl(u64, &'static str),
    ArchPrctl(u64, &'static str),
    Ptrace(u64, &'static str),
    /// A file or directory of /proc/PID or /proc/PID/task/TID.
    Proc(&'static str),
    /// A line of /proc/PID/status.
    Status(&'static str),
    /// A word of the line VmFlags in /proc/PID/smaps.
    VmFlag(&'static str),
    Madvise(u64, &'static str),
    /// A system call that makes or changes it.
    Call(&'static str),
}

/// What becomes of it when its process moves. Paths are below the root of the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Transferred; the code is in `file`.
    Carried { file: &'static str },
    /// A process with it does not leave. `reason`: a variant of `Stay` (`crates/model/src/stay.rs`).
    StaysHome {
        reason: &'static str,
        file: &'static str,
    },
    /// The deputy keeps it; requests are answered from home.
    AtHome { file: &'static str },
    /// No program can notice it.
    Invisible { why: &'static str },
    /// Differs, as described on that page of the manual.
    Manual {
        page: &'static str,
        why: &'static str,
    },
    /// A known defect: lost, or wrong, or not examined yet.
    Missing { why: &'static str },
}

impl Fate {
    /// Headings of the page, in their order.
    pub const WORDS: [&'static str; 6] = [
        "carried",
        "stays home",
        "at home",
        "invisible",
        "manual",
        "missing",
    ];

    pub fn word(&self) -> &'static str {
        Fate::WORDS[match self {
            Fate::Carried { .. } => 0,
            Fate::StaysHome { .. } => 1,
            Fate::AtHome { .. } => 2,
            Fate::Invisible { .. } => 3,
            Fate::Manual { .. } => 4,
            Fate::Missing { .. } => 5,
        }]
    }

    /// The file of the repository that it names.
    pub fn file(&self) -> Option<&'static str> {
        match *self {
            Fate::Carried { file } | Fate::StaysHome { file, .. } | Fate::AtHome { file } => {
                Some(file)
            }
            Fate::Manual { page, .. } => Some(page),
            Fate::Invisible { .. } | Fate::Missing { .. } => None,
        }
    }
}

impl Row {
    const fn since(self, major: u16, minor: u16) -> Row {
        Row {
            since: Some((major, minor)),
            ..self
        }
    }

    /// Whether a program could notice it, but no guest or test shows that it does not.
    pub fn untested(&self) -> bool {
        self.shown_by.is_empty() && !matches!(self.fate, Fate::Invisible { .. })
    }
}

const fn row(
    id: &'static str,
    of: Owner,
    what: &'static str,
    names: &'static [Name],
    fate: Fate,
    shown_by: &'static [&'static str],
) -> Row {
    Row {
        id,
        what,
        of,
        names,
        fate,
        shown_by,
        since: None,
    }
}

const fn carried(file: &'static str) -> Fate {
    Fate::Carried { file }
}
const fn stays(reason: &'static str, file: &'static str) -> Fate {
    Fate::StaysHome { reason, file }
}
const fn at_home(file: &'static str) -> Fate {
    Fate::AtHome { file }
}
const fn invisible(why: &'static str) -> Fate {
    Fate::Invisible { why }
}
const fn manual(page: &'static str, why: &'static str) -> Fate {
    Fate::Manual { page, why }
}
#[expect(dead_code, reason = "a row of a defect that is found begins with it")]
const fn missing(why: &'static str) -> Fate {
    Fate::Missing { why }
}

/// `names![task_struct: a b; cred: c => Status("C")]`: fields of structs, then other names.
macro_rules! names {
    ($($of:ident : $($field:ident)+);* $(=> $($other:expr),+)?) => {
        &[
            $($($crate::Name::Field(concat!(stringify!($of), ".", stringify!($field))),)+)*
            $($($other),+)?
        ]
    };
}
use names;

/// The sections, in the order of the page.
pub const SECTIONS: &[(&str, &[Row])] = &[
    ("Processor", registers::ROWS),
    ("Threads", thread::ROWS),
    ("Threads as others observe them", watched::ROWS),
    ("Scheduling", scheduling::ROWS),
    ("Processes and sessions", process::ROWS),
    ("prctl and arch_prctl", prctls::ROWS),
    ("ptrace", ptraces::ROWS),
    ("Address spaces", address_space::ROWS),
    ("Mappings", mappings::ROWS),
    ("Descriptors and their tables", descriptors::ROWS),
    ("Signals", signals::ROWS),
    ("Timers and time", timers::ROWS),
    ("Credentials", credentials::ROWS),
    ("Namespaces", namespaces::ROWS),
    ("Files of /proc", procfs::ROWS),
    ("Side effects that others see", traces::ROWS),
    ("Side effects that the program notices", felt::ROWS),
];

/// Every row of the census.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    SECTIONS.iter().flat_map(|(_, rows)| rows.iter())
}

/// The rows with this name.
pub fn find(name: Name) -> impl Iterator<Item = &'static Row> {
    rows().filter(move |r| r.names.contains(&name))
}

/// Whether there is a row for a field of a struct of the kernel.
pub fn knows_field(of: &str, field: &str) -> bool {
    let is = |n: &Name| matches!(n, Name::Field(f) if f.split_once('.') == Some((of, field)));
    rows().any(|r| r.names.iter().any(is))
}

pub fn missing_rows() -> usize {
    let lost = |r: &&Row| matches!(r.fate, Fate::Missing { .. });
    rows().filter(lost).count()
}

pub fn untested_rows() -> usize {
    rows().filter(|r| r.untested()).count()
}
