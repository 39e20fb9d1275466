//! MOUNT: the first handle (RFC 1813, 5).

use super::results::{Answer, done};
use super::session::{Session, check_name};
use crate::rpc::{Accept, Call};
use crate::tree::{Failed, Found, root};
use nfs3_types::mount::{
    MNTPATHLEN, dirpath, export_node, exports, fhandle3, mountbody, mountlist, mountres3,
    mountres3_ok, mountstat3, name as hostname,
};
use nfs3_types::nfs3::nfsstat3;
use nfs3_types::rpc::auth_flavor;
use nfs3_types::xdr_codec::{List, Opaque};

pub const PROCEDURES: &[&str] = &["NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"];

pub fn answer(procedure: u32, session: &mut Session, call: &Call) -> Answer {
    let mut args = call.args.clone();
    match procedure {
        1 => {
            let path = args.bytes(MNTPATHLEN)?;
            done(&match mount(session, path) {
                Ok(found) => mountres3::Ok(mountres3_ok {
                    fhandle: fhandle3(Opaque::owned(found.handle)),
                    auth_flavors: vec![auth_flavor::AUTH_UNIX as u32],
                }),
                Err(why) => mountres3::Err(mount_status(why)),
            })
        }
        2 => done(&dump(session)),
        3 => {
            let path = args.bytes(MNTPATHLEN)?;
            session
                .counters
                .unmounted(Some(&String::from_utf8_lossy(path)));
            Ok(Accept::Done(Vec::new(), None))
        }
        4 => {
            session.counters.unmounted(None);
            Ok(Accept::Done(Vec::new(), None))
        }
        5 => done(&export_list(session)),
        _ => Ok(Accept::Done(Vec::new(), None)),
    }
}

/// The directory of a path: an export, or a directory below one as the node sees it.
fn mount(session: &mut Session, path: &[u8]) -> Result<Found, Failed> {
    session.ids.root()?;
    let text = std::str::from_utf8(path).map_err(|_| nfsstat3::NFS3ERR_NOENT)?;
    let trees = session.trees.clone();
    let (tree, rest) = trees.export(text).ok_or(nfsstat3::NFS3ERR_NOENT)?;
    let mut found = root(tree, session.client.name.as_deref())?;
    for part in rest.split('/').filter(|p| !p.is_empty() && *p != ".") {
        if part == ".." {
            return Err(nfsstat3::NFS3ERR_INVAL);
        }
        check_name(part.as_bytes())?;
        let name = session.existing(&found, part.as_bytes())?;
        found = found.child(&name)?;
    }
    if !found.is_dir() {
        return Err(nfsstat3::NFS3ERR_NOTDIR);
    }
    session.counters.mounted(text);
    Ok(found)
}

fn mount_status(why: Failed) -> mountstat3 {
    match why {
        nfsstat3::NFS3ERR_PERM => mountstat3::MNT3ERR_PERM,
        nfsstat3::NFS3ERR_NOENT => mountstat3::MNT3ERR_NOENT,
        nfsstat3::NFS3ERR_ACCES | nfsstat3::NFS3ERR_XDEV => mountstat3::MNT3ERR_ACCES,
        nfsstat3::NFS3ERR_NOTDIR => mountstat3::MNT3ERR_NOTDIR,
        nfsstat3::NFS3ERR_INVAL => mountstat3::MNT3ERR_INVAL,
        nfsstat3::NFS3ERR_NAMETOOLONG => mountstat3::MNT3ERR_NAMETOOLONG,
        nfsstat3::NFS3ERR_IO => mountstat3::MNT3ERR_IO,
        _ => mountstat3::MNT3ERR_SERVERFAULT,
    }
}

fn text(text: String) -> Opaque<'static> {
    Opaque::owned(text.into_bytes())
}

/// What each client has mounted, as far as clients said so.
fn dump(session: &Session) -> mountlist<'static, 'static> {
    let clients = session.world.clients.stats().into_iter();
    let mounts = clients.flat_map(|c| {
        let host = c.node.unwrap_or_else(|| c.address.to_string());
        c.mounts.into_iter().map(move |path| mountbody {
            ml_hostname: hostname(text(host.clone())),
            ml_directory: dirpath(text(path)),
        })
    });
    List(mounts.collect())
}

fn export_list(session: &Session) -> exports<'static, 'static> {
    let all = session.trees.list.iter().map(|tree| export_node {
        ex_dir: dirpath(text(tree.export.path.clone())),
        ex_groups: List::default(),
    });
    List(all.collect())
}
