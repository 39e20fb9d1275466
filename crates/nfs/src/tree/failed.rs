//! Errors of the kernel as those of NFS.

use nfs3_types::nfs3::nfsstat3;
use rustix::io::Errno;

/// The error that a client gets.
pub type Failed = nfsstat3;

/// RFC 1813, 2.6.
pub fn status(e: Errno) -> Failed {
    use nfsstat3::*;
    match e {
        Errno::PERM => NFS3ERR_PERM,
        Errno::NOENT => NFS3ERR_NOENT,
        Errno::NXIO => NFS3ERR_NXIO,
        // A program that runs on the server cannot be written.
        Errno::ACCESS | Errno::TXTBSY => NFS3ERR_ACCES,
        Errno::EXIST => NFS3ERR_EXIST,
        Errno::XDEV => NFS3ERR_XDEV,
        Errno::NODEV => NFS3ERR_NODEV,
        Errno::NOTDIR => NFS3ERR_NOTDIR,
        Errno::ISDIR => NFS3ERR_ISDIR,
        // A link where none may be followed.
        Errno::INVAL | Errno::LOOP => NFS3ERR_INVAL,
        Errno::FBIG => NFS3ERR_FBIG,
        Errno::NOSPC => NFS3ERR_NOSPC,
        Errno::ROFS => NFS3ERR_ROFS,
        Errno::MLINK => NFS3ERR_MLINK,
        Errno::NAMETOOLONG => NFS3ERR_NAMETOOLONG,
        Errno::NOTEMPTY => NFS3ERR_NOTEMPTY,
        Errno::DQUOT => NFS3ERR_DQUOT,
        Errno::STALE => NFS3ERR_STALE,
        Errno::OPNOTSUPP | Errno::NOSYS => NFS3ERR_NOTSUPP,
        // The client tries again after a while.
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => NFS3ERR_JUKEBOX,
        _ => NFS3ERR_IO,
    }
}
