//! What a command line of an old name asks for.

use armento_model::{Hint, Pid};
use std::ffi::OsString;

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    Help,
    Migrate {
        pid: Pid,
        to: To,
    },
    /// SIGSTOP or SIGCONT.
    Signal {
        pid: Pid,
        stop: bool,
    },
    Run(Run),
    /// Without Armento.
    Native(Vec<OsString>),
    Control(Control),
    Setpe(Setpe),
    Showmap,
    BestNode,
    Monitor(Monitor),
    Ps(Ps),
    /// `armento top` with these words.
    Top(Vec<OsString>),
    Listing(Listing),
}

/// Where a process shall go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    Home,
    Balance,
    /// An ID, a name, an address.
    Node(String),
}

/// A program to start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    pub place: Place,
    /// It may run anywhere if the place is not up.
    pub or_anywhere: bool,
    /// `Some(true)`: locked where it begins; `Some(false)`: it may move. Nothing was said: by the place.
    pub lock: Option<bool>,
    pub hint: Option<Hint>,
    pub command: Vec<OsString>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    #[default]
    Anywhere,
    Home,
    Node(String),
    /// Ranges of IDs, both ends included.
    OneOf(Vec<(u16, u16)>),
}

/// mosctl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    Stay(bool),
    Block(bool),
    Quiet(bool),
    Mfs(bool),
    Expel,
    Bring,
    Whois(Option<String>),
    Get(Figure, Option<String>),
    Yard,
}

/// What mosctl tells about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Load,
    Speed,
    Status,
    IsUp,
    Memory,
    Free,
}

/// A file, or standard input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stream {
    Standard,
    File(OsString),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setpe {
    /// `check`: the map alone, without the farm.
    Compare {
        from: Stream,
        check: bool,
        own: Option<u16>,
    },
    Write(Stream),
    Off,
}

/// What mosmon draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bars {
    Speed,
    Memory,
    Load,
    LogLoad,
}

/// How mosmon numbers nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    Wide,
    Downwards,
    Close,
    AsFits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitor {
    pub bars: Bars,
    pub numbering: Numbering,
    pub dead: bool,
    pub count: bool,
    pub first: Option<String>,
}

/// ps or top, and the columns that are added to what it prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ps {
    pub program: &'static str,
    pub words: Vec<OsString>,
    pub info: bool,
    pub long: bool,
}

/// ompsinfo and mosps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// As mosps shows it.
    pub mosps: bool,
    pub all_users: bool,
    pub commands: Vec<String>,
    pub pids: Vec<Pid>,
    pub users: Vec<String>,
    pub negate: bool,
    pub pids_only: bool,
    pub no_heading: bool,
    pub more: Vec<String>,
    pub nodes: NodesAs,
    /// `Some(true)`: only those here; `Some(false)`: only those elsewhere.
    pub here: Option<bool>,
    pub moves: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodesAs {
    #[default]
    Id,
    Name,
    Address,
}
