//! From names to files.

use crate::programs::results::{Answer, done};
use crate::programs::session::{Session, after};
use crate::rpc::{Args, User};
use crate::tree::{Failed, Found, parent, status};
use nfs3_types::nfs3::{
    LOOKUP3res, LOOKUP3resfail, LOOKUP3resok, NFS3_FHSIZE, Nfs3Option, READLINK3res,
    READLINK3resfail, READLINK3resok, nfs_fh3, nfsstat3,
};
use nfs3_types::xdr_codec::Opaque;
use rustix::fs::FileType;

/// Names that a message may have; longer ones than files can have are refused later, with a better error.
pub const NAME_ROOM: usize = 4096;

/// The handle of a file as a message has it.
pub fn fh(found: &Found) -> nfs_fh3 {
    nfs_fh3 {
        data: Opaque::owned(found.handle.clone()),
    }
}

pub fn lookup(s: &mut Session, args: &mut Args, user: Option<&User>) -> Answer {
    let dir = args.bytes(NFS3_FHSIZE)?;
    let name = args.bytes(NAME_ROOM)?;
    let dir = match s.find(dir) {
        Ok(dir) => dir,
        Err(why) => return done(&LOOKUP3res::Err((why, LOOKUP3resfail::default()))),
    };
    let dir_attributes = Nfs3Option::Some(dir.attributes(&dir.stat));
    done(&match look(s, &dir, name, user) {
        Ok(found) => LOOKUP3res::Ok(LOOKUP3resok {
            object: fh(&found),
            obj_attributes: Nfs3Option::Some(found.attributes(&found.stat)),
            dir_attributes,
        }),
        Err(why) => LOOKUP3res::Err((why, LOOKUP3resfail { dir_attributes })),
    })
}

fn look(s: &mut Session, dir: &Found, name: &[u8], user: Option<&User>) -> Result<Found, Failed> {
    if !dir.is_dir() {
        return Err(nfsstat3::NFS3ERR_NOTDIR);
    }
    match name {
        b"." => {
            s.become_user(user, dir)?;
            dir.may(libc::X_OK)?;
            s.find(&dir.handle)
        }
        b".." => {
            s.become_user(user, dir)?;
            dir.may(libc::X_OK)?;
            s.ids.root()?;
            parent(dir)
        }
        name => {
            let real = s.existing(dir, name)?;
            s.become_user(user, dir)?;
            dir.child(&real)
        }
    }
}

pub fn readlink(s: &mut Session, args: &mut Args) -> Answer {
    let found = match s.find(args.bytes(NFS3_FHSIZE)?) {
        Ok(found) => found,
        Err(why) => return done(&READLINK3res::Err((why, READLINK3resfail::default()))),
    };
    let text = if found.kind() == FileType::Symlink {
        rustix::fs::readlinkat(&found.fd, c"", Vec::new()).map_err(status)
    } else {
        Err(nfsstat3::NFS3ERR_INVAL)
    };
    let symlink_attributes = after(&found);
    done(&match text {
        Ok(text) => READLINK3res::Ok(READLINK3resok {
            symlink_attributes,
            data: text.into_bytes().into(),
        }),
        Err(why) => READLINK3res::Err((why, READLINK3resfail { symlink_attributes })),
    })
}
