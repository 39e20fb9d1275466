//! What users of clients may do, and what nobody may.

mod common;

use armento_nfs::Export;
use common::call::{Client, what};
use common::space::Net;
use common::stage::{Stage, some, status};
use common::{Dir, serve};
use nfs3_types::nfs3::*;
use nfs3_types::xdr_codec::Opaque;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use NFS_PROGRAM::*;

#[test]
fn users_have_their_own_rights_and_no_others() {
    let Some(stage) = Stage::new("users") else {
        return;
    };
    let set = |name: &str, owner: (u32, u32), mode| {
        let path = stage.path(name);
        std::os::unix::fs::chown(&path, Some(owner.0), Some(owner.1)).expect("chown");
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("chmod");
    };
    // The directories above, whatever the mask of the test.
    set("", (0, 0), 0o755);
    set("dir", (0, 0), 0o755);
    set("dir/file", (1000, 2000), 0o640);
    set("empty", (1000, 2000), 0o700);
    stage.with(|c, top| {
        let file = c.walk(&top, "dir/file").expect("file");
        let empty = c.walk(&top, "empty").expect("dir");
        let read = |c: &mut Client| {
            let args = READ3args {
                file: file.clone(),
                offset: 0,
                count: 9,
            };
            status(c.nfs::<READ3res>(NFSPROC3_READ, &args))
        };
        let access = |c: &mut Client, object: &nfs_fh3| {
            let args = ACCESS3args {
                object: object.clone(),
                access: 0x3f,
            };
            c.nfs::<ACCESS3res>(NFSPROC3_ACCESS, &args).unwrap().access
        };
        let (read_bit, write_bits) = (ACCESS3_READ, ACCESS3_MODIFY | ACCESS3_EXTEND);
        let refused = nfsstat3::NFS3ERR_ACCES;
        let users: [(u32, u32, &[u32], nfsstat3, u32); 4] = [
            (1000, 5, &[], nfsstat3::NFS3_OK, read_bit | write_bits),
            (7, 5, &[6, 2000], nfsstat3::NFS3_OK, read_bit),
            (7, 2000, &[], nfsstat3::NFS3_OK, read_bit),
            (7, 5, &[6], refused, 0),
        ];
        for (uid, gid, groups, expected, bits) in users {
            c.user(uid, gid, groups);
            assert_eq!(read(c), expected, "{uid} {gid} {groups:?}");
            assert_eq!(access(c, &file), bits, "{uid} {gid} {groups:?}");
        }
        assert_eq!(c.walk(&empty, "x"), Err(refused));
        let args = MKDIR3args {
            where_: what(&empty, "d"),
            attributes: sattr3::default(),
        };
        assert_eq!(status(c.nfs::<MKDIR3res>(NFSPROC3_MKDIR, &args)), refused);
        c.user(1000, 2000, &[]);
        let ok = c.nfs::<MKDIR3res>(NFSPROC3_MKDIR, &args).unwrap();
        let made = some(ok.obj_attributes);
        assert_eq!((made.uid, made.gid), (1000, 2000));
        let to_root = SETATTR3args {
            object: file.clone(),
            new_attributes: sattr3 {
                uid: Nfs3Option::Some(0),
                ..sattr3::default()
            },
            guard: Nfs3Option::None,
        };
        let not = status(c.nfs::<SETATTR3res>(NFSPROC3_SETATTR, &to_root));
        assert_eq!(not, nfsstat3::NFS3ERR_PERM);
        // The owner reads what a program has open already, whatever the mode is now.
        set("dir/file", (1000, 2000), 0);
        assert_eq!(read(c), nfsstat3::NFS3_OK);
        c.user(7, 5, &[]);
        assert_eq!(read(c), refused);
        // Whoever may run a program reads it.
        set("dir/file", (1000, 2000), 0o711);
        assert_eq!(read(c), nfsstat3::NFS3_OK);
        // From a port that any user of the client can have: nobody.
        set("dir/file", (1000, 2000), 0o640);
        let mut other = Client::of_anybody(stage.net.server);
        assert_eq!(read(other.user(1000, 2000, &[])), refused);
        assert_eq!(read(other.user(0, 0, &[])), refused);
        // No user: nobody.
        set("dir/file", (1000, 2000), 0o640);
        c.auth(nfs3_types::rpc::opaque_auth::default());
        assert_eq!(read(c), refused);
    });
}

#[test]
fn a_shared_root_is_read_only() {
    let Some(net) = Net::new(&[]) else {
        return;
    };
    let root = Dir::new("read-only").with(&[("f", "x")]);
    let _running = serve(&net, vec![Export::shared("/root", &root.0)]);
    net.inside(net.server, || {
        let mut c = Client::new(net.server);
        let top = c.mount("/root");
        let f = c.walk(&top, "f").expect("file");
        let rofs = nfsstat3::NFS3ERR_ROFS;
        let args = ACCESS3args {
            object: top.clone(),
            access: 0x3f,
        };
        let ok = c.nfs::<ACCESS3res>(NFSPROC3_ACCESS, &args).unwrap();
        assert_eq!(ok.access, ACCESS3_READ | ACCESS3_LOOKUP);
        let args = WRITE3args {
            file: f.clone(),
            offset: 0,
            count: 1,
            stable: stable_how::UNSTABLE,
            data: Opaque::borrowed(b"y"),
        };
        assert_eq!(status(c.nfs::<WRITE3res>(NFSPROC3_WRITE, &args)), rofs);
        let object = what(&top, "f");
        assert_eq!(
            status(c.nfs::<REMOVE3res>(NFSPROC3_REMOVE, &REMOVE3args { object })),
            rofs
        );
        let object = what(&top, "f");
        assert_eq!(
            status(c.nfs::<REMOVE3res>(NFSPROC3_RMDIR, &REMOVE3args { object })),
            rofs
        );
        let args = RENAME3args {
            from: what(&top, "f"),
            to: what(&top, "g"),
        };
        assert_eq!(status(c.nfs::<RENAME3res>(NFSPROC3_RENAME, &args)), rofs);
        let args = LINK3args {
            file: f.clone(),
            link: what(&top, "g"),
        };
        assert_eq!(status(c.nfs::<LINK3res>(NFSPROC3_LINK, &args)), rofs);
        let args = MKDIR3args {
            where_: what(&top, "g"),
            attributes: sattr3::default(),
        };
        assert_eq!(status(c.nfs::<MKDIR3res>(NFSPROC3_MKDIR, &args)), rofs);
        let args = SETATTR3args {
            object: f,
            new_attributes: sattr3::default(),
            guard: Nfs3Option::None,
        };
        assert_eq!(status(c.nfs::<SETATTR3res>(NFSPROC3_SETATTR, &args)), rofs);
    });
    assert_eq!(fs::read(root.0.join("f")).expect("there"), b"x");
}
