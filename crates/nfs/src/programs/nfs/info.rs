//! What the server and its file systems can do.

use super::content::TRANSFER_MAX;
use crate::programs::results::{Answer, done};
use crate::programs::session::Session;
use crate::rpc::Args;
use crate::tree::status;
use nfs3_types::nfs3::{
    FSF3_CANSETTIME, FSF3_HOMOGENEOUS, FSF3_LINK, FSF3_SYMLINK, FSINFO3res, FSINFO3resfail,
    FSINFO3resok, FSSTAT3res, FSSTAT3resfail, FSSTAT3resok, NFS3_FHSIZE, Nfs3Option, PATHCONF3res,
    PATHCONF3resfail, PATHCONF3resok, nfstime3,
};

/// Names of one file. KERNEL: ext4's EXT4_LINK_MAX is the smallest of those in use.
const LINKS_MAX: u32 = 65_000;

pub fn fsstat(s: &mut Session, args: &mut Args) -> Answer {
    let found = match s.find(args.bytes(NFS3_FHSIZE)?) {
        Ok(found) => found,
        Err(why) => return done(&FSSTAT3res::Err((why, FSSTAT3resfail::default()))),
    };
    let obj_attributes = Nfs3Option::Some(found.attributes(&found.stat));
    done(&match rustix::fs::fstatvfs(&found.fd).map_err(status) {
        Ok(fs) => FSSTAT3res::Ok(FSSTAT3resok {
            obj_attributes,
            tbytes: fs.f_blocks.saturating_mul(fs.f_frsize),
            fbytes: fs.f_bfree.saturating_mul(fs.f_frsize),
            abytes: fs.f_bavail.saturating_mul(fs.f_frsize),
            tfiles: fs.f_files,
            ffiles: fs.f_ffree,
            afiles: fs.f_favail,
            invarsec: 0,
        }),
        Err(why) => FSSTAT3res::Err((why, FSSTAT3resfail { obj_attributes })),
    })
}

pub fn fsinfo(s: &mut Session, args: &mut Args) -> Answer {
    done(&match s.find(args.bytes(NFS3_FHSIZE)?) {
        Ok(found) => FSINFO3res::Ok(FSINFO3resok {
            obj_attributes: Nfs3Option::Some(found.attributes(&found.stat)),
            rtmax: TRANSFER_MAX,
            rtpref: TRANSFER_MAX,
            rtmult: 4096,
            wtmax: TRANSFER_MAX,
            wtpref: TRANSFER_MAX,
            wtmult: 4096,
            dtpref: super::listing::PREFERRED,
            maxfilesize: i64::MAX as u64,
            time_delta: nfstime3 {
                seconds: 0,
                nseconds: 1,
            },
            properties: FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME,
        }),
        Err(why) => FSINFO3res::Err((why, FSINFO3resfail::default())),
    })
}

pub fn pathconf(s: &mut Session, args: &mut Args) -> Answer {
    done(&match s.find(args.bytes(NFS3_FHSIZE)?) {
        Ok(found) => PATHCONF3res::Ok(PATHCONF3resok {
            obj_attributes: Nfs3Option::Some(found.attributes(&found.stat)),
            linkmax: LINKS_MAX,
            name_max: crate::programs::session::NAME_MAX as u32,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        }),
        Err(why) => PATHCONF3res::Err((why, PATHCONF3resfail::default())),
    })
}
