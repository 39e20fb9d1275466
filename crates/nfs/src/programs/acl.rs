//! NFSACL: every file is said to have no list beside its mode, and none can be set.
//!
//! KERNEL: Linux 6.1 and 6.12: overlayfs above NFS asks for a list whenever it opens a file for a user; where the program
//! is missing it answers EOPNOTSUPP, and no service starts that has a user of its own. The protocol has no standard; its
//! XDR is that of fs/nfs/nfs3xdr.c and of include/uapi/linux/nfsacl.h.

use super::results::{Answer, done};
use super::session::{Session, after};
use crate::rpc::{Accept, Call};
use nfs3_types::nfs3::{NFS3_FHSIZE, Nfs3Option, nfsstat3, post_op_attr};
use nfs3_types::xdr_codec::Pack;

pub const PROGRAM: u32 = 100_227;
pub const VERSION: u32 = 3;
pub const PROCEDURES: &[&str] = &["NULL", "GETACL", "SETACL"];

/// KERNEL: NFS_ACL_MASK: the lists of the file and of its default, and their counts.
const MASK: u32 = 0xf;

pub fn answer(procedure: u32, session: &mut Session, call: &Call) -> Answer {
    let mut args = call.args.clone();
    match procedure {
        0 => Ok(Accept::Done(Vec::new(), None)),
        1 => {
            let handle = args.bytes(NFS3_FHSIZE)?;
            let mask: u32 = args.value()?;
            match session.find(handle) {
                Ok(found) => done(&Empty {
                    attributes: after(&found),
                    mask: mask & MASK,
                }),
                Err(why) => done(&Fails(why, Nfs3Option::None)),
            }
        }
        _ => {
            let handle = args.bytes(NFS3_FHSIZE)?;
            let found = session.find(handle);
            match found.and_then(|f| f.is_writable().map(|()| f)) {
                Ok(found) => done(&Fails(nfsstat3::NFS3ERR_NOTSUPP, after(&found))),
                Err(why) => done(&Fails(why, Nfs3Option::None)),
            }
        }
    }
}

/// The result of GETACL with empty lists.
struct Empty {
    attributes: post_op_attr,
    mask: u32,
}

impl Empty {
    /// For the file and for its default: how many entries, and the entries with their own count before them.
    const LISTS: [u32; 4] = [0; 4];
}

impl Pack for Empty {
    fn packed_size(&self) -> usize {
        nfsstat3::NFS3_OK.packed_size() + self.attributes.packed_size() + 4 + 16
    }

    fn pack(&self, out: &mut impl std::io::Write) -> nfs3_types::xdr_codec::Result<usize> {
        let mut len = nfsstat3::NFS3_OK.pack(out)? + self.attributes.pack(out)?;
        len += self.mask.pack(out)?;
        for number in Self::LISTS {
            len += number.pack(out)?;
        }
        Ok(len)
    }
}

/// An error, with attributes where they are known.
struct Fails(nfsstat3, post_op_attr);

impl Pack for Fails {
    fn packed_size(&self) -> usize {
        self.0.packed_size() + self.1.packed_size()
    }

    fn pack(&self, out: &mut impl std::io::Write) -> nfs3_types::xdr_codec::Result<usize> {
        Ok(self.0.pack(out)? + self.1.pack(out)?)
    }
}
