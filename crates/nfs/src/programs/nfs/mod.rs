//! NFS version 3: the 22 procedures (RFC 1813, 3.3).

mod attributes;
mod change;
mod content;
mod info;
mod listing;
mod make;
mod names;

use super::results::Answer;
use super::session::Session;
use crate::rpc::{Accept, Call};

pub const PROCEDURES: &[&str] = &[
    "NULL",
    "GETATTR",
    "SETATTR",
    "LOOKUP",
    "ACCESS",
    "READLINK",
    "READ",
    "WRITE",
    "CREATE",
    "MKDIR",
    "SYMLINK",
    "MKNOD",
    "REMOVE",
    "RMDIR",
    "RENAME",
    "LINK",
    "READDIR",
    "READDIRPLUS",
    "FSSTAT",
    "FSINFO",
    "PATHCONF",
    "COMMIT",
];

/// SETATTR, and from CREATE to LINK.
pub const DONE_ONCE: &[u32] = &[2, 8, 9, 10, 11, 12, 13, 14, 15];

pub fn answer(procedure: u32, session: &mut Session, call: &Call) -> Answer {
    let mut args = call.args.clone();
    let (s, a, user) = (session, &mut args, call.user.as_ref());
    match procedure {
        0 => Ok(Accept::Done(Vec::new(), None)),
        1 => attributes::getattr(s, a),
        2 => attributes::setattr(s, a, user),
        3 => names::lookup(s, a, user),
        4 => attributes::access(s, a, user),
        5 => names::readlink(s, a),
        6 => content::read(s, a, user),
        7 => content::write(s, a, user),
        8 => make::create(s, a, user),
        9 => make::mkdir(s, a, user),
        10 => make::symlink(s, a, user),
        11 => make::mknod(s, a, user),
        12 => change::remove(s, a, user),
        13 => change::rmdir(s, a, user),
        14 => change::rename(s, a, user),
        15 => change::link(s, a, user),
        16 => listing::readdir(s, a, user),
        17 => listing::readdirplus(s, a, user),
        18 => info::fsstat(s, a),
        19 => info::fsinfo(s, a),
        20 => info::pathconf(s, a),
        21 => content::commit(s, a),
        _ => Ok(Accept::NoProcedure),
    }
}
