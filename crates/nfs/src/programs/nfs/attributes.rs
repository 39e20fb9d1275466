//! Attributes of a file, and what a user may do with it.

use crate::programs::results::{Answer, done};
use crate::programs::session::{Session, after, before};
use crate::rpc::{Args, User};
use crate::tree::{Failed, Found, Purpose, proc_path, status};
use nfs3_types::nfs3::{
    ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ,
    ACCESS3res, ACCESS3resfail, ACCESS3resok, GETATTR3res, GETATTR3resok, NFS3_FHSIZE, Nfs3Option,
    SETATTR3res, SETATTR3resfail, SETATTR3resok, nfsstat3, nfstime3, sattr3, sattrguard3,
    set_atime, set_mtime, wcc_data,
};
use nfs3_types::xdr_codec::Void;
use rustix::fs::{AtFlags, CWD, Gid, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};
use std::os::fd::AsFd;

pub fn getattr(s: &mut Session, args: &mut Args) -> Answer {
    let found = s.find(args.bytes(NFS3_FHSIZE)?);
    done(&match found {
        Ok(found) => GETATTR3res::Ok(GETATTR3resok {
            obj_attributes: found.attributes(&found.stat),
        }),
        Err(why) => GETATTR3res::Err((why, Void)),
    })
}

pub fn setattr(s: &mut Session, args: &mut Args, user: Option<&User>) -> Answer {
    let handle = args.bytes(NFS3_FHSIZE)?;
    let to: sattr3 = args.value()?;
    let guard: sattrguard3 = args.value()?;
    let found = match s.find(handle) {
        Ok(found) => found,
        Err(why) => return done(&SETATTR3res::Err((why, SETATTR3resfail::default()))),
    };
    let was = found.attributes(&found.stat);
    let changed = match guard {
        Nfs3Option::Some(time) if time != was.ctime => Err(nfsstat3::NFS3ERR_NOT_SYNC),
        _ => change(s, &found, &to, user),
    };
    let obj_wcc = wcc_data {
        before: before(&was),
        after: after(&found),
    };
    done(&match changed {
        Ok(()) => SETATTR3res::Ok(SETATTR3resok { obj_wcc }),
        Err(why) => SETATTR3res::Err((why, SETATTR3resfail { obj_wcc })),
    })
}

fn change(s: &mut Session, found: &Found, to: &sattr3, user: Option<&User>) -> Result<(), Failed> {
    found.is_writable()?;
    resize(s, found, to, user)?;
    s.become_user(user, found)?;
    apply(found, to)
}

/// The size, if it is among the attributes. After: the thread is the user, or root.
pub fn resize(
    s: &mut Session,
    found: &Found,
    to: &sattr3,
    user: Option<&User>,
) -> Result<(), Failed> {
    let Nfs3Option::Some(size) = to.size else {
        return Ok(());
    };
    if i64::try_from(size).is_err() {
        return Err(nfsstat3::NFS3ERR_FBIG);
    }
    let ready = match s.files.get(&found.handle, user, Purpose::Write) {
        Some(ready) => ready,
        None => {
            let again = s.find(&found.handle)?;
            s.open(again, user, Purpose::Write)?
        }
    };
    rustix::fs::ftruncate(&ready.file, size).map_err(status)
}

/// All attributes but the size. Before: the thread is the user who changes them.
pub fn apply(found: &Found, to: &sattr3) -> Result<(), Failed> {
    let path = proc_path(found.fd.as_fd());
    let id = |id: Nfs3Option<u32>| match id {
        // KERNEL: chown(2): -1 is no change.
        Nfs3Option::Some(u32::MAX) => Err(nfsstat3::NFS3ERR_INVAL),
        Nfs3Option::Some(id) => Ok(Some(id)),
        Nfs3Option::None => Ok(None),
    };
    let (uid, gid) = (id(to.uid)?, id(to.gid)?);
    if uid.is_some() || gid.is_some() {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        rustix::fs::chownat(&found.fd, c"", uid, gid, AtFlags::EMPTY_PATH).map_err(status)?;
    }
    if let Nfs3Option::Some(mode) = to.mode {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        rustix::fs::chmodat(CWD, &path, mode, AtFlags::empty()).map_err(status)?;
    }
    let times = Timestamps {
        last_access: match to.atime {
            set_atime::DONT_CHANGE => special(UTIME_OMIT),
            set_atime::SET_TO_SERVER_TIME => special(UTIME_NOW),
            set_atime::SET_TO_CLIENT_TIME(at) => time(at)?,
        },
        last_modification: match to.mtime {
            set_mtime::DONT_CHANGE => special(UTIME_OMIT),
            set_mtime::SET_TO_SERVER_TIME => special(UTIME_NOW),
            set_mtime::SET_TO_CLIENT_TIME(at) => time(at)?,
        },
    };
    let omitted = |t: &Timespec| t.tv_nsec == UTIME_OMIT;
    if omitted(&times.last_access) && omitted(&times.last_modification) {
        return Ok(());
    }
    rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).map_err(status)
}

fn special(what: i64) -> Timespec {
    Timespec {
        tv_sec: 0,
        tv_nsec: what,
    }
}

fn time(at: nfstime3) -> Result<Timespec, Failed> {
    if at.nseconds >= 1_000_000_000 {
        return Err(nfsstat3::NFS3ERR_INVAL);
    }
    Ok(Timespec {
        tv_sec: i64::from(at.seconds),
        tv_nsec: i64::from(at.nseconds),
    })
}

pub fn access(s: &mut Session, args: &mut Args, user: Option<&User>) -> Answer {
    let handle = args.bytes(NFS3_FHSIZE)?;
    let asked: u32 = args.value()?;
    let found = s.find(handle).and_then(|found| {
        s.become_user(user, &found)?;
        Ok(found)
    });
    done(&match found {
        Ok(found) => ACCESS3res::Ok(ACCESS3resok {
            access: allowed(&found, asked),
            obj_attributes: Nfs3Option::Some(found.attributes(&found.stat)),
        }),
        Err(why) => ACCESS3res::Err((why, ACCESS3resfail::default())),
    })
}

/// Of the asked permissions those that the thread's user has.
fn allowed(found: &Found, asked: u32) -> u32 {
    let (changes, runs) = if found.is_dir() {
        let changes = ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE;
        (changes, ACCESS3_LOOKUP)
    } else {
        (ACCESS3_MODIFY | ACCESS3_EXTEND, ACCESS3_EXECUTE)
    };
    let groups = [
        (ACCESS3_READ, libc::R_OK),
        (changes, libc::W_OK),
        (runs, libc::X_OK),
    ];
    let has = groups.iter().filter(|(bits, mode)| {
        let refused = *mode == libc::W_OK && found.is_writable().is_err();
        asked & bits != 0 && !refused && found.may(*mode).is_ok()
    });
    has.fold(0, |all, (bits, _)| all | (asked & bits))
}
