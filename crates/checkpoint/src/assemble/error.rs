//! Why processes cannot be made again.

use armento_model::Pid;
use std::io;

/// Variants but the last two are found by [`super::check`], before a process is started.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    #[error("the checkpoint holds no process")]
    Empty,
    #[error("process number {pid} is used by {by}")]
    PidInUse { pid: Pid, by: String },
    #[error("process number {pid} is larger than this kernel gives ({max})")]
    PidTooLarge { pid: Pid, max: Pid },
    #[error("process numbers may be chosen by root and with CAP_CHECKPOINT_RESTORE only")]
    NoRight,
    #[error("the program {path} {what}")]
    Program { path: String, what: String },
    #[error("the working directory {path} {what}")]
    Directory { path: String, what: String },
    #[error("{path} cannot be opened as it was: {source}")]
    Open { path: String, source: io::Error },
    #[error("{path} was deleted, and the checkpoint does not keep its content")]
    NoContent { path: String },
    #[error("standard stream {0} is closed here, and the program had it open")]
    Stream(u8),
    #[error("the program had its terminal open (/dev/tty), and there is none here")]
    NoTerminal,
    #[error("process {pid} belongs to user {uid}; you are user {ours}")]
    OtherUser { pid: Pid, uid: u32, ours: u32 },
    #[error("{needed} descriptors are needed, and {limit} are allowed")]
    Descriptors { needed: u64, limit: u64 },
    #[error("the kept content of {path} cannot be written back: {source}; the file is as it was")]
    PutBack { path: String, source: io::Error },
    #[error("{what} cannot be made: {source}; no process was started")]
    Make { what: String, source: io::Error },
    /// All processes that were started have ended.
    #[error("process {pid}: {step} failed: {source}; all processes of the restart were ended")]
    Step {
        pid: Pid,
        step: Step,
        source: io::Error,
    },
}

impl AssembleError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            AssembleError::PidInUse { .. } => "wait for its end, or say --pid new",
            AssembleError::PidTooLarge { .. } => "raise kernel.pid_max, or say --pid new",
            AssembleError::NoRight => "say --pid new",
            AssembleError::Program { .. } => "install the version of the program that ran",
            AssembleError::Directory { .. } => "make the directory again",
            AssembleError::Open { .. } => {
                "put the file back, or make the checkpoint with --with-files"
            }
            AssembleError::NoContent { .. } => "make the checkpoint with --with-files",
            AssembleError::Stream(_) => "give it one, such as </dev/null or >/dev/null",
            AssembleError::NoTerminal => "restart it from a terminal",
            AssembleError::OtherUser { .. } => "restart it as that user",
            AssembleError::Descriptors { .. } => "raise the limit: ulimit -n",
            AssembleError::Step { source, .. } if source.raw_os_error() == Some(libc::EEXIST) => {
                "a process number was taken meanwhile: say --pid new"
            }
            _ => return None,
        })
    }
}

/// What a process does between its fork and its exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    Fork = 1,
    Session,
    Group,
    Wait,
    Rights,
    Limits,
    Directory,
    Descriptors,
    Epoll,
    Locks,
    Exec,
}

impl Step {
    pub(super) fn of(number: u32) -> Option<Step> {
        let all = [
            Step::Fork,
            Step::Session,
            Step::Group,
            Step::Wait,
            Step::Rights,
            Step::Limits,
            Step::Directory,
            Step::Descriptors,
            Step::Epoll,
            Step::Locks,
            Step::Exec,
        ];
        all.into_iter().find(|s| *s as u32 == number)
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Step::Fork => "making it",
            Step::Session => "its session",
            Step::Group => "its process group",
            Step::Wait => "waiting for the others",
            Step::Rights => "its user and groups",
            Step::Limits => "its limits",
            Step::Directory => "its working directory",
            Step::Descriptors => "its descriptors",
            Step::Epoll => "its epoll instances",
            Step::Locks => "its locks",
            Step::Exec => "starting its program",
        })
    }
}

/// The rights of the programs' user cannot be taken.
impl From<io::Error> for AssembleError {
    fn from(source: io::Error) -> AssembleError {
        let what = "files of its user".into();
        AssembleError::Make { what, source }
    }
}
