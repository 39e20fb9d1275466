//! Names that go, move and become more.

use super::names::NAME_ROOM;
use crate::programs::results::{Answer, done};
use crate::programs::session::{Session, after, change as changed};
use crate::rpc::{Args, User};
use crate::tree::{Failed, Found, proc_path, status};
use nfs3_types::nfs3::{
    LINK3res, LINK3resfail, LINK3resok, NFS3_FHSIZE, Nfs3Option, REMOVE3res, REMOVE3resfail,
    REMOVE3resok, RENAME3res, RENAME3resfail, RENAME3resok, nfsstat3,
};
use rustix::fs::{AtFlags, CWD};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

pub fn remove(s: &mut Session, args: &mut Args, user: Option<&User>) -> Answer {
    unlink(s, args, user, AtFlags::empty())
}

pub fn rmdir(s: &mut Session, args: &mut Args, user: Option<&User>) -> Answer {
    unlink(s, args, user, AtFlags::REMOVEDIR)
}

/// REMOVE and RMDIR have results of the same form.
fn unlink(s: &mut Session, args: &mut Args, user: Option<&User>, how: AtFlags) -> Answer {
    let (dir, name) = (args.bytes(NFS3_FHSIZE)?, args.bytes(NAME_ROOM)?);
    let dir = match s.find(dir) {
        Ok(dir) => dir,
        Err(why) => return done(&REMOVE3res::Err((why, REMOVE3resfail::default()))),
    };
    let mut go = || {
        dir.is_writable()?;
        not_itself(name)?;
        let real = s.existing(&dir, name)?;
        s.become_user(user, &dir)?;
        rustix::fs::unlinkat(&dir.fd, OsStr::from_bytes(&real), how).map_err(status)
    };
    let gone = go();
    let dir_wcc = changed(&dir);
    done(&match gone {
        Ok(()) => REMOVE3res::Ok(REMOVE3resok { dir_wcc }),
        Err(why) => REMOVE3res::Err((why, REMOVE3resfail { dir_wcc })),
    })
}

fn not_itself(name: &[u8]) -> Result<(), Failed> {
    match name {
        b"." | b".." => Err(nfsstat3::NFS3ERR_INVAL),
        _ => Ok(()),
    }
}

pub fn rename(s: &mut Session, args: &mut Args, user: Option<&User>) -> Answer {
    let (from, old) = (args.bytes(NFS3_FHSIZE)?, args.bytes(NAME_ROOM)?);
    let (to, new) = (args.bytes(NFS3_FHSIZE)?, args.bytes(NAME_ROOM)?);
    let fails = |why| done(&RENAME3res::Err((why, RENAME3resfail::default())));
    let (from, to) = match (s.find(from), s.find(to)) {
        (Ok(from), Ok(to)) => (from, to),
        (Err(why), _) | (_, Err(why)) => return fails(why),
    };
    let mut go = || {
        from.is_writable()?;
        not_itself(old)?;
        not_itself(new)?;
        if !Arc::ptr_eq(&from.tree, &to.tree) {
            return Err(nfsstat3::NFS3ERR_XDEV);
        }
        let old = s.existing(&from, old)?;
        let new = s.new_name(&to, new)?;
        s.become_user(user, &from)?;
        let (old, new) = (OsStr::from_bytes(&old), OsStr::from_bytes(&new));
        rustix::fs::renameat(&from.fd, old, &to.fd, new).map_err(status)
    };
    let moved = go();
    let (fromdir_wcc, todir_wcc) = (changed(&from), changed(&to));
    done(&match moved {
        Ok(()) => RENAME3res::Ok(RENAME3resok {
            fromdir_wcc,
            todir_wcc,
        }),
        Err(why) => RENAME3res::Err((
            why,
            RENAME3resfail {
                fromdir_wcc,
                todir_wcc,
            },
        )),
    })
}

pub fn link(s: &mut Session, args: &mut Args, user: Option<&User>) -> Answer {
    let file = args.bytes(NFS3_FHSIZE)?;
    let (dir, name) = (args.bytes(NFS3_FHSIZE)?, args.bytes(NAME_ROOM)?);
    let fails = |why| {
        done(&LINK3res::Err((
            why,
            LINK3resfail {
                file_attributes: Nfs3Option::None,
                linkdir_wcc: Default::default(),
            },
        )))
    };
    let (file, dir) = match (s.find(file), s.find(dir)) {
        (Ok(file), Ok(dir)) => (file, dir),
        (Err(why), _) | (_, Err(why)) => return fails(why),
    };
    let linked = link_in(s, &file, &dir, name, user);
    let (file_attributes, linkdir_wcc) = (after(&file), changed(&dir));
    done(&match linked {
        Ok(()) => LINK3res::Ok(LINK3resok {
            file_attributes,
            linkdir_wcc,
        }),
        Err(why) => LINK3res::Err((
            why,
            LINK3resfail {
                file_attributes,
                linkdir_wcc,
            },
        )),
    })
}

fn link_in(
    s: &mut Session,
    file: &Found,
    dir: &Found,
    name: &[u8],
    user: Option<&User>,
) -> Result<(), Failed> {
    dir.is_writable()?;
    if matches!(name, b"." | b"..") {
        return Err(nfsstat3::NFS3ERR_EXIST);
    }
    if !Arc::ptr_eq(&file.tree, &dir.tree) {
        return Err(nfsstat3::NFS3ERR_XDEV);
    }
    let name = s.new_name(dir, name)?;
    s.become_user(user, dir)?;
    // KERNEL: linkat(2): of a descriptor itself only root makes a link.
    let path = proc_path(file.fd.as_fd());
    let name = OsStr::from_bytes(&name);
    rustix::fs::linkat(CWD, &path, &dir.fd, name, AtFlags::SYMLINK_FOLLOW).map_err(status)
}
