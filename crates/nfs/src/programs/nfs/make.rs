//! New files, directories, links and devices.

use super::attributes::{apply, resize};
use super::names::{NAME_ROOM, fh};
use crate::programs::results::{Answer, done};
use crate::programs::session::{Session, after, change as changed};
use crate::rpc::{Args, Garbage, User};
use crate::tree::{Failed, Found, status};
use nfs3_types::nfs3::{
    CREATE3res, CREATE3resfail, CREATE3resok, NFS3_FHSIZE, Nfs3Option, createhow3, createverf3,
    devicedata3, mknoddata3, nfsstat3, nfstime3, sattr3, set_atime, set_mtime, wcc_data,
};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// PATH_MAX of Linux: the text of a link.
const LINK_ROOM: usize = 4096;

/// What is to be made.
enum What<'a> {
    File(createhow3),
    Dir(sattr3),
    Link(sattr3, &'a [u8]),
    Node(mknoddata3),
}

pub fn create(s: &mut Session, args: &mut Args, user: Option<&User>) -> Answer {
    let (dir, name) = place(args)?;
    let how: createhow3 = args.value()?;
    make(s, dir, name, &What::File(how), user)
}

pub fn mkdir(s: &mut Session, args: &mut Args, user: Option<&User>) -> Answer {
    let (dir, name) = place(args)?;
    let attributes: sattr3 = args.value()?;
    make(s, dir, name, &What::Dir(attributes), user)
}

pub fn symlink(s: &mut Session, args: &mut Args, user: Option<&User>) -> Answer {
    let (dir, name) = place(args)?;
    let attributes: sattr3 = args.value()?;
    let text = args.bytes(LINK_ROOM)?;
    make(s, dir, name, &What::Link(attributes, text), user)
}

pub fn mknod(s: &mut Session, args: &mut Args, user: Option<&User>) -> Answer {
    let (dir, name) = place(args)?;
    let what: mknoddata3 = args.value()?;
    make(s, dir, name, &What::Node(what), user)
}

fn place<'a>(args: &mut Args<'a>) -> Result<(&'a [u8], &'a [u8]), Garbage> {
    Ok((args.bytes(NFS3_FHSIZE)?, args.bytes(NAME_ROOM)?))
}

/// The results of the four procedures have the same form.
fn make(s: &mut Session, dir: &[u8], name: &[u8], what: &What, user: Option<&User>) -> Answer {
    let dir = match s.find(dir) {
        Ok(dir) => dir,
        Err(why) => return done(&CREATE3res::Err((why, CREATE3resfail::default()))),
    };
    let made = make_in(s, &dir, name, what, user);
    let dir_wcc: wcc_data = changed(&dir);
    done(&match made {
        Ok(found) => CREATE3res::Ok(CREATE3resok {
            obj: Nfs3Option::Some(fh(&found)),
            obj_attributes: after(&found),
            dir_wcc,
        }),
        Err(why) => CREATE3res::Err((why, CREATE3resfail { dir_wcc })),
    })
}

fn make_in(
    s: &mut Session,
    dir: &Found,
    name: &[u8],
    what: &What,
    user: Option<&User>,
) -> Result<Found, Failed> {
    dir.is_writable()?;
    if matches!(name, b"." | b"..") {
        return Err(nfsstat3::NFS3ERR_EXIST);
    }
    let name = s.new_name(dir, name)?;
    s.become_user(user, dir)?;
    match what {
        What::File(how) => file(s, dir, &name, how, user),
        What::Dir(attributes) => {
            let at = OsStr::from_bytes(&name);
            rustix::fs::mkdirat(&dir.fd, at, mode(attributes, 0o777)).map_err(status)?;
            finish(dir, &name, attributes)
        }
        What::Link(attributes, text) => {
            let (text, at) = (OsStr::from_bytes(text), OsStr::from_bytes(&name));
            rustix::fs::symlinkat(text, &dir.fd, at).map_err(status)?;
            finish(dir, &name, &without_mode(attributes))
        }
        What::Node(node) => {
            let (kind, attributes, device) = match node {
                mknoddata3::NF3CHR(d) => (FileType::CharacterDevice, &d.dev_attributes, number(d)),
                mknoddata3::NF3BLK(d) => (FileType::BlockDevice, &d.dev_attributes, number(d)),
                mknoddata3::NF3SOCK(attributes) => (FileType::Socket, attributes, 0),
                mknoddata3::NF3FIFO(attributes) => (FileType::Fifo, attributes, 0),
                mknoddata3::default => return Err(nfsstat3::NFS3ERR_BADTYPE),
            };
            let (at, mode) = (OsStr::from_bytes(&name), mode(attributes, 0o666));
            rustix::fs::mknodat(&dir.fd, at, kind, mode, device).map_err(status)?;
            finish(dir, &name, attributes)
        }
    }
}

fn number(device: &devicedata3) -> rustix::fs::Dev {
    rustix::fs::makedev(device.spec.specdata1, device.spec.specdata2)
}

fn mode(attributes: &sattr3, otherwise: u32) -> Mode {
    Mode::from_raw_mode(match attributes.mode {
        Nfs3Option::Some(mode) => mode & 0o7777,
        Nfs3Option::None => otherwise,
    })
}

fn without_mode(attributes: &sattr3) -> sattr3 {
    sattr3 {
        mode: Nfs3Option::None,
        ..attributes.clone()
    }
}

/// The new file with the other attributes that were asked for.
fn finish(dir: &Found, name: &[u8], attributes: &sattr3) -> Result<Found, Failed> {
    let found = dir.child(name)?;
    apply(&found, attributes)?;
    Ok(found)
}

fn file(
    s: &mut Session,
    dir: &Found,
    name: &[u8],
    how: &createhow3,
    user: Option<&User>,
) -> Result<Found, Failed> {
    let none = sattr3::default();
    let (attributes, once) = match how {
        createhow3::UNCHECKED(attributes) | createhow3::GUARDED(attributes) => (attributes, None),
        createhow3::EXCLUSIVE(once) => (&none, Some(once)),
    };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let otherwise = if once.is_some() { 0 } else { 0o666 };
    let made = rustix::fs::openat(
        &dir.fd,
        OsStr::from_bytes(name),
        flags,
        mode(attributes, otherwise),
    );
    match (made.map(drop), how) {
        (Ok(()), createhow3::EXCLUSIVE(once)) => finish(dir, name, &marks(once)),
        (Ok(()), _) => {
            let found = finish(dir, name, attributes)?;
            resize(s, &found, attributes, user)?;
            Ok(found)
        }
        (Err(Errno::EXIST), createhow3::UNCHECKED(_)) => {
            let found = dir.child(name)?;
            if found.kind() != FileType::RegularFile {
                return Err(nfsstat3::NFS3ERR_EXIST);
            }
            resize(s, &found, attributes, user)?;
            Ok(found)
        }
        // The same call once more, because its reply was lost.
        (Err(Errno::EXIST), createhow3::EXCLUSIVE(once)) => {
            let found = dir.child(name)?;
            let is = found.attributes(&found.stat);
            let [first, second] = seconds(once);
            let same = (is.atime.seconds, is.mtime.seconds, is.size) == (first, second, 0);
            if same {
                Ok(found)
            } else {
                Err(nfsstat3::NFS3ERR_EXIST)
            }
        }
        (Err(e), _) => Err(status(e)),
    }
}

/// The verifier of an exclusive creation is kept in the file's times until the client sets them (RFC 1813, 3.3.8).
fn marks(once: &createverf3) -> sattr3 {
    let [first, second] = seconds(once).map(|seconds| nfstime3 {
        seconds,
        nseconds: 0,
    });
    sattr3 {
        atime: set_atime::SET_TO_CLIENT_TIME(first),
        mtime: set_mtime::SET_TO_CLIENT_TIME(second),
        ..sattr3::default()
    }
}

/// KERNEL: file systems with 32 bits for seconds take 31 of them.
fn seconds(once: &createverf3) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = once.0;
    let half = |bytes| u32::from_be_bytes(bytes) & 0x7fff_ffff;
    [half([a, b, c, d]), half([e, f, g, h])]
}
