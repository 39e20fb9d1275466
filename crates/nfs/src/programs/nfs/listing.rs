//! Directories as the caller's node sees them.
//!
//! Cookies are hashes of names (see [`crate::view::Dirs`]): they mean the same after any change of the directory and on
//! every server, so that the verifier is always zero.

use crate::export::Place;
use crate::programs::results::{Answer, done};
use crate::programs::session::Session;
use crate::rpc::{Args, User};
use crate::tree::{Failed, Found, parent};
use crate::view::{Listing, shown};
use nfs3_types::nfs3::{
    NFS3_FHSIZE, Nfs3Option, READDIR3res, READDIR3resfail, READDIR3resok, READDIRPLUS3res,
    READDIRPLUS3resfail, READDIRPLUS3resok, cookieverf3, dirlist3, dirlistplus3, entry3,
    entryplus3, filename3, nfsstat3, post_op_attr,
};
use nfs3_types::xdr_codec::{BoundedList, Opaque, Pack};
use std::sync::Arc;

/// Bytes of a reply that clients should ask for.
pub const PREFERRED: u32 = 64 << 10;
/// Bytes of a reply, whatever a client asks for.
const REPLY_MAX: u32 = 1 << 20;
/// Of a reply besides its entries: status, attributes, verifier, whether it is the end.
const REPLY_HEAD: usize = 4 + 88 + 8 + 4;

/// An entry before it is sent.
struct Line<'a> {
    /// As the node sees it, and as it is.
    name: &'a [u8],
    real: &'a [u8],
    number: u64,
    cookie: u64,
}

/// A directory open for listing.
struct Open {
    dir: Found,
    listing: Arc<Listing>,
    attributes: post_op_attr,
}

fn open(s: &mut Session, dir: Found, user: Option<&User>) -> Result<Open, (Failed, post_op_attr)> {
    let attributes = Nfs3Option::Some(dir.attributes(&dir.stat));
    let fail = |why| (why, attributes.clone());
    if !dir.is_dir() {
        return Err(fail(nfsstat3::NFS3ERR_NOTDIR));
    }
    // The thread is root.
    let listing = s.world.dirs.listing(&dir).map_err(fail)?;
    s.become_user(user, &dir).map_err(fail)?;
    dir.may(libc::R_OK).map_err(fail)?;
    Ok(Open {
        dir,
        listing,
        attributes,
    })
}

impl Open {
    /// The lines after a cookie.
    fn lines<'a>(&'a self, s: &'a Session, after: u64) -> impl Iterator<Item = Line<'a>> {
        let own = [(1, &b"."[..]), (2, b"..")];
        let own = own.into_iter().filter(move |(cookie, _)| *cookie > after);
        let own = own.map(|(cookie, name)| Line {
            name,
            real: name,
            number: self.own_number(name),
            cookie,
        });
        let names = &self.listing.names;
        let first = names.partition_point(|n| n.cookie <= after);
        let tags = matches!(self.dir.tree.export.place, Place::Shared(_));
        let rest = names[first..].iter().filter_map(move |n| {
            let name = match tags {
                true => shown(&self.listing, &n.name, &s.client)?,
                false => &n.name,
            };
            Some(Line {
                name,
                real: &n.name,
                number: self.dir.number_of(&n.name, n.inode),
                cookie: n.cookie,
            })
        });
        own.chain(rest)
    }

    fn own_number(&self, name: &[u8]) -> u64 {
        let number = |dir: &Found| dir.attributes(&dir.stat).fileid;
        if name == b".." {
            // Of a directory out of reach: its own, as at the top.
            return parent(&self.dir).map_or(number(&self.dir), |p| number(&p));
        }
        number(&self.dir)
    }
}

/// A directory, the cookie to go on after, a verifier that is not looked at.
fn arguments<'a>(args: &mut Args<'a>) -> Result<(&'a [u8], u64), crate::rpc::Garbage> {
    let handle = args.bytes(NFS3_FHSIZE)?;
    let cookie: u64 = args.value()?;
    let _: cookieverf3 = args.value()?;
    Ok((handle, cookie))
}

fn room(asked: u32) -> usize {
    (asked.min(REPLY_MAX) as usize).saturating_sub(REPLY_HEAD)
}

pub fn readdir(s: &mut Session, args: &mut Args, user: Option<&User>) -> Answer {
    let (handle, after) = arguments(args)?;
    let count: u32 = args.value()?;
    let fails =
        |why, dir_attributes| done(&READDIR3res::Err((why, READDIR3resfail { dir_attributes })));
    let dir = match s.find(handle) {
        Ok(dir) => dir,
        Err(why) => return fails(why, Nfs3Option::None),
    };
    let open = match open(s, dir, user) {
        Ok(open) => open,
        Err((why, attributes)) => return fails(why, attributes),
    };
    let mut entries = BoundedList::new(room(count));
    let mut none = true;
    let mut eof = true;
    for line in open.lines(s, after) {
        let entry = entry3 {
            fileid: line.number,
            name: filename3::from(line.name),
            cookie: line.cookie,
        };
        if entries.try_push(entry).is_err() {
            eof = false;
            break;
        }
        none = false;
    }
    if none && !eof {
        return fails(nfsstat3::NFS3ERR_TOOSMALL, open.attributes);
    }
    done(&READDIR3res::Ok(READDIR3resok {
        dir_attributes: open.attributes.clone(),
        cookieverf: cookieverf3::default(),
        reply: dirlist3 {
            entries: entries.into_inner(),
            eof,
        },
    }))
}

pub fn readdirplus(s: &mut Session, args: &mut Args, user: Option<&User>) -> Answer {
    let (handle, after) = arguments(args)?;
    let [dircount, maxcount]: [u32; 2] = [args.value()?, args.value()?];
    let fails = |why, dir_attributes| {
        done(&READDIRPLUS3res::Err((
            why,
            READDIRPLUS3resfail { dir_attributes },
        )))
    };
    let dir = match s.find(handle) {
        Ok(dir) => dir,
        Err(why) => return fails(why, Nfs3Option::None),
    };
    let open = match open(s, dir, user) {
        Ok(open) => open,
        Err((why, attributes)) => return fails(why, attributes),
    };
    let mut entries = BoundedList::new(room(maxcount));
    // Names, numbers and cookies alone are bounded as well.
    let mut names_room = dircount as usize;
    let mut none = true;
    let mut eof = true;
    for line in open.lines(s, after) {
        let name = filename3::from(line.name);
        let names_size = 8 + name.packed_size() + 8;
        let (name_attributes, name_handle) = details(&open.dir, &line);
        let entry = entryplus3 {
            fileid: line.number,
            name,
            cookie: line.cookie,
            name_attributes,
            name_handle,
        };
        let fits = none || names_size <= names_room;
        if !fits || entries.try_push(entry).is_err() {
            eof = false;
            break;
        }
        names_room = names_room.saturating_sub(names_size);
        none = false;
    }
    if none && !eof {
        return fails(nfsstat3::NFS3ERR_TOOSMALL, open.attributes);
    }
    done(&READDIRPLUS3res::Ok(READDIRPLUS3resok {
        dir_attributes: open.attributes.clone(),
        cookieverf: cookieverf3::default(),
        reply: dirlistplus3 {
            entries: entries.into_inner(),
            eof,
        },
    }))
}

/// Attributes and handle of an entry, if the user may look at it. The directory above is left out: a client knows it.
fn details(dir: &Found, line: &Line) -> (post_op_attr, nfs3_types::nfs3::post_op_fh3) {
    let found = match line.cookie {
        2 => return (Nfs3Option::None, Nfs3Option::None),
        1 => {
            let attributes = Nfs3Option::Some(dir.attributes(&dir.stat));
            let data = Opaque::owned(dir.handle.clone());
            return (
                attributes,
                Nfs3Option::Some(nfs3_types::nfs3::nfs_fh3 { data }),
            );
        }
        _ => dir.child(line.real),
    };
    match found {
        Ok(found) => (
            Nfs3Option::Some(found.attributes(&found.stat)),
            Nfs3Option::Some(super::names::fh(&found)),
        ),
        Err(_) => (Nfs3Option::None, Nfs3Option::None),
    }
}
