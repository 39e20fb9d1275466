//! What the server answers: MOUNT, NFS and NFSACL, each of version 3. Start at [`answer`].
//!
//! A procedure reads its arguments, finds the file of a handle as root, becomes the caller's user, and does the one
//! thing. This room owns no socket.

mod acl;
mod mount;
mod nfs;
mod results;
mod session;

pub use session::{Session, World};

use crate::rpc::{Accept, Call, Garbage};
use results::Answer;

/// A program on the port, which has one version.
struct Program {
    number: u32,
    version: u32,
    /// By number, as the standard names them.
    procedures: &'static [&'static str],
    answer: fn(u32, &mut Session, &Call) -> Answer,
}

const PROGRAMS: [Program; 3] = [
    Program {
        number: nfs3_types::nfs3::PROGRAM,
        version: nfs3_types::nfs3::VERSION,
        procedures: nfs::PROCEDURES,
        answer: nfs::answer,
    },
    Program {
        number: nfs3_types::mount::PROGRAM,
        version: nfs3_types::mount::VERSION,
        procedures: mount::PROCEDURES,
        answer: mount::answer,
    },
    Program {
        number: acl::PROGRAM,
        version: acl::VERSION,
        procedures: acl::PROCEDURES,
        answer: acl::answer,
    },
];

/// Answers a call, and says which procedure that was.
pub fn answer(session: &mut Session, call: &Call) -> (Accept, &'static str) {
    const UNKNOWN: &str = "unknown";
    session.begin();
    let Some(program) = PROGRAMS.iter().find(|p| p.number == call.program) else {
        return (Accept::NoProgram, UNKNOWN);
    };
    let (low, high) = (program.version, program.version);
    if call.version != program.version {
        return (Accept::NoVersion { low, high }, UNKNOWN);
    }
    let index = usize::try_from(call.procedure).unwrap_or(usize::MAX);
    let Some(name) = program.procedures.get(index) else {
        return (Accept::NoProcedure, UNKNOWN);
    };
    let accept = match (program.answer)(call.procedure, session, call) {
        Ok(accept) => accept,
        Err(Garbage) => Accept::Garbage,
    };
    (accept, name)
}

/// Whether a call does another thing when it is made a second time.
pub fn is_done_once(call: &Call) -> bool {
    let procedures = if call.program == nfs3_types::nfs3::PROGRAM {
        nfs::DONE_ONCE
    } else {
        &[]
    };
    procedures.contains(&call.procedure)
}
