//! The beginning of a call: what is called, and by which user of the client.

use super::args::{Args, Garbage};
use super::reply::{Reply, denied, mismatch};
use nfs3_types::rpc::{RPC_VERSION_2, auth_flavor, auth_stat, msg_type};

/// RFC 5531, 8.2: the body of a credential.
const AUTH_MAX: usize = 400;
/// RFC 5531, appendix A: the client's own name in AUTH_SYS, which is not used.
const MACHINE_MAX: usize = 255;
/// RFC 5531, appendix A.
const GROUPS_MAX: usize = 16;

/// A user of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub xid: u32,
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
    /// None: the call says no user (AUTH_NONE).
    pub user: Option<User>,
    pub args: Args<'a>,
}

/// What a record is.
#[derive(Debug)]
pub enum Opening<'a> {
    Call(Call<'a>),
    /// Refused before any program saw it.
    Refused(Reply),
    /// No call: the peer speaks something else.
    NoCall,
}

/// Reads the beginning of a record.
pub fn open(record: &[u8]) -> Opening<'_> {
    let mut args = Args::new(record);
    let Ok(xid) = args.value::<u32>() else {
        return Opening::NoCall;
    };
    if args.value::<u32>() != Ok(msg_type::CALL as u32) {
        return Opening::NoCall;
    }
    match args.value::<u32>() {
        Ok(RPC_VERSION_2) => {}
        Ok(_) => return Opening::Refused(mismatch(xid)),
        Err(Garbage) => return Opening::NoCall,
    }
    match rest(xid, args) {
        Ok(Ok(call)) => Opening::Call(call),
        Ok(Err(why)) => Opening::Refused(denied(xid, why)),
        Err(Garbage) => Opening::NoCall,
    }
}

fn rest(xid: u32, mut args: Args) -> Result<Result<Call, auth_stat>, Garbage> {
    let [program, version, procedure] = [args.value()?, args.value()?, args.value()?];
    let flavor: u32 = args.value()?;
    let body = args.bytes(AUTH_MAX)?;
    let _verifier: u32 = args.value()?;
    args.bytes(AUTH_MAX)?;
    let user = if flavor == auth_flavor::AUTH_NULL as u32 {
        None
    } else if flavor == auth_flavor::AUTH_UNIX as u32 {
        match user(Args::new(body)) {
            Ok(user) => Some(user),
            Err(Garbage) => return Ok(Err(auth_stat::AUTH_BADCRED)),
        }
    } else {
        return Ok(Err(auth_stat::AUTH_REJECTEDCRED));
    };
    Ok(Ok(Call {
        xid,
        program,
        version,
        procedure,
        user,
        args,
    }))
}

fn user(mut body: Args) -> Result<User, Garbage> {
    let _stamp: u32 = body.value()?;
    body.bytes(MACHINE_MAX)?;
    Ok(User {
        uid: body.value()?,
        gid: body.value()?,
        groups: body.numbers(GROUPS_MAX)?,
    })
}
