//! Each of the 22 procedures of NFS, and those of MOUNT and NFSACL, against the files that they are about.

mod common;

use common::call::{ACL, Client, MOUNT, NFS, Refused, what};
use common::space::address;
use common::stage::{Stage, some, status};
use nfs3_types::mount::{MOUNT_PROGRAM, exports, mountlist, mountres3, mountstat3};
use nfs3_types::nfs3::*;
use nfs3_types::xdr_codec::{List, Opaque, Unpack, Void};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use NFS_PROGRAM::*;

fn getattr(c: &mut Client, object: &nfs_fh3) -> fattr3 {
    let args = GETATTR3args {
        object: object.clone(),
    };
    c.nfs::<GETATTR3res>(NFSPROC3_GETATTR, &args)
        .unwrap()
        .obj_attributes
}

#[test]
fn attributes_are_those_of_the_file() {
    let Some(stage) = Stage::new("attributes") else {
        return;
    };
    stage.with(|c, top| {
        c.try_call((NFS, 3, 0), &Void).expect("NULL");
        let file = c.walk(&top, "dir/file").expect("file");
        let is = fs::metadata(stage.path("dir/file")).expect("stat");
        let said = getattr(c, &file);
        assert_eq!(said.type_, ftype3::NF3REG);
        assert_eq!(
            (
                said.size,
                said.fileid,
                said.nlink,
                u64::from(said.mtime.seconds)
            ),
            (10, is.ino(), 1, is.mtime() as u64)
        );
        assert_eq!(
            (said.mode, said.uid, said.gid),
            (is.mode() & 0o7777, is.uid(), is.gid())
        );
        let link = c.walk(&top, "link").expect("link");
        assert_eq!(getattr(c, &link).type_, ftype3::NF3LNK);
        let read: READLINK3res = c.nfs(NFSPROC3_READLINK, &READLINK3args { symlink: link });
        assert_eq!(&read.unwrap().data.0[..], b"dir/file");
        let wrong: READLINK3res = c.nfs(NFSPROC3_READLINK, &READLINK3args { symlink: file });
        assert_eq!(status(wrong), nfsstat3::NFS3ERR_INVAL);

        // The server follows no link, and no name leads out.
        assert_eq!(c.walk(&top, "link/x"), Err(nfsstat3::NFS3ERR_NOTDIR));
        assert_eq!(c.walk(&top, ".."), Ok(top.clone()));
        assert_eq!(c.walk(&top, "dir/.."), Ok(top.clone()));
        assert_eq!(c.walk(&top, "."), Ok(top.clone()));
        for (name, why) in [
            ("gone", nfsstat3::NFS3ERR_NOENT),
            ("", nfsstat3::NFS3ERR_INVAL),
            ("\0", nfsstat3::NFS3ERR_INVAL),
        ] {
            assert_eq!(c.walk(&top, name), Err(why), "{name:?}");
        }
        let long = "n".repeat(256);
        assert_eq!(c.walk(&top, &long), Err(nfsstat3::NFS3ERR_NAMETOOLONG));
        let slash: LOOKUP3res = c.nfs(
            NFSPROC3_LOOKUP,
            &LOOKUP3args {
                what: what(&top, "dir/file"),
            },
        );
        assert_eq!(status(slash), nfsstat3::NFS3ERR_INVAL);
    });
}

#[test]
fn setattr_changes_what_is_asked_and_guards() {
    let Some(stage) = Stage::new("setattr") else {
        return;
    };
    stage.with(|c, top| {
        let file = c.walk(&top, "dir/file").expect("file");
        let mut set = |new_attributes: sattr3, guard| {
            let args = SETATTR3args {
                object: file.clone(),
                new_attributes,
                guard,
            };
            status(c.nfs::<SETATTR3res>(NFSPROC3_SETATTR, &args))
        };
        let time = nfstime3 {
            seconds: 1_000_000,
            nseconds: 5,
        };
        let to = sattr3 {
            mode: Nfs3Option::Some(0o4711),
            uid: Nfs3Option::Some(12),
            gid: Nfs3Option::Some(34),
            size: Nfs3Option::Some(4),
            atime: set_atime::SET_TO_SERVER_TIME,
            mtime: set_mtime::SET_TO_CLIENT_TIME(time),
        };
        assert_eq!(set(to, Nfs3Option::None), nfsstat3::NFS3_OK);
        let is = fs::metadata(stage.path("dir/file")).expect("stat");
        assert_eq!(
            (is.uid(), is.gid(), is.len(), is.mode() & 0o7777),
            (12, 34, 4, 0o4711)
        );
        assert_eq!((is.mtime(), is.mtime_nsec()), (1_000_000, 5));
        let old = Nfs3Option::Some(time);
        assert_eq!(set(sattr3::default(), old), nfsstat3::NFS3ERR_NOT_SYNC);
        let now = Nfs3Option::Some(nfstime3 {
            seconds: is.ctime() as u32,
            nseconds: is.ctime_nsec() as u32,
        });
        assert_eq!(set(sattr3::default(), now), nfsstat3::NFS3_OK);
    });
}

#[test]
fn content_is_read_written_and_committed() {
    let Some(stage) = Stage::new("content") else {
        return;
    };
    let large: Vec<u8> = (0..3_000_000_u32).map(|i| (i / 7) as u8).collect();
    fs::write(stage.path("dir/large"), &large).expect("written");
    stage.with(|c, top| {
        let file = c.walk(&top, "dir/file").expect("file");
        let mut read = |file: &nfs_fh3, offset, count| {
            let args = READ3args {
                file: file.clone(),
                offset,
                count,
            };
            let ok = c.nfs::<READ3res>(NFSPROC3_READ, &args).unwrap();
            assert_eq!(ok.count as usize, ok.data.len());
            assert!(ok.file_attributes.is_some());
            (ok.data.to_vec(), ok.eof)
        };
        assert_eq!(read(&file, 0, 100), (b"0123456789".to_vec(), true));
        assert_eq!(read(&file, 2, 3), (b"234".to_vec(), false));
        assert_eq!(read(&file, 9, 1), (b"9".to_vec(), true));
        assert_eq!(read(&file, 10, 1), (Vec::new(), true));
        assert_eq!(read(&file, u64::MAX, 1), (Vec::new(), true));
        assert_eq!(read(&file, 0, 0), (Vec::new(), false));

        let mut write = |offset, data: &'static [u8], stable| {
            let args = WRITE3args {
                file: file.clone(),
                offset,
                count: data.len() as u32,
                stable,
                data: Opaque::borrowed(data),
            };
            c.nfs::<WRITE3res>(NFSPROC3_WRITE, &args)
        };
        let ok = write(8, b"abcd", stable_how::UNSTABLE).unwrap();
        assert_eq!((ok.count, ok.committed), (4, stable_how::UNSTABLE));
        let (before, after) = (some(ok.file_wcc.before), some(ok.file_wcc.after));
        assert_eq!((before.size, after.size), (10, 12));
        let synced = write(0, b"A", stable_how::FILE_SYNC).unwrap();
        assert_eq!(
            (synced.committed, synced.verf),
            (stable_how::FILE_SYNC, ok.verf)
        );
        assert_eq!(
            status(write(u64::MAX, b"A", stable_how::UNSTABLE)),
            nfsstat3::NFS3ERR_FBIG
        );
        let args = COMMIT3args {
            file: file.clone(),
            offset: 0,
            count: 0,
        };
        let ok = c.nfs::<COMMIT3res>(NFSPROC3_COMMIT, &args).unwrap();
        assert_eq!(ok.verf, synced.verf);
        assert_eq!(
            fs::read(stage.path("dir/file")).expect("read"),
            b"A1234567abcd"
        );

        let file = c.walk(&top, "dir/large").expect("file");
        let mut all = Vec::new();
        loop {
            let args = READ3args {
                file: file.clone(),
                offset: all.len() as u64,
                count: u32::MAX,
            };
            let ok = c.nfs::<READ3res>(NFSPROC3_READ, &args).unwrap();
            all.extend_from_slice(&ok.data);
            if ok.eof {
                break;
            }
        }
        assert!(all == large);
        let dir = c.walk(&top, "dir").expect("dir");
        let args = READ3args {
            file: dir,
            offset: 0,
            count: 1,
        };
        assert_eq!(
            status(c.nfs::<READ3res>(NFSPROC3_READ, &args)),
            nfsstat3::NFS3ERR_ISDIR
        );
    });
}

#[test]
fn files_of_all_kinds_are_made() {
    let Some(stage) = Stage::new("make") else {
        return;
    };
    stage.with(|c, top| {
        let with = |mode| sattr3 {
            mode: Nfs3Option::Some(mode),
            ..sattr3::default()
        };
        let mut create = |name: &'static str, how| {
            let args = CREATE3args {
                where_: what(&top, name),
                how,
            };
            c.nfs::<CREATE3res>(NFSPROC3_CREATE, &args)
        };
        let ok = create("new", createhow3::GUARDED(with(0o640))).unwrap();
        assert_eq!(some(ok.obj_attributes).mode, 0o640);
        fs::write(stage.path("new"), "content").expect("written");
        let exists = create("new", createhow3::GUARDED(with(0o640)));
        assert_eq!(status(exists), nfsstat3::NFS3ERR_EXIST);
        let cut = sattr3 {
            size: Nfs3Option::Some(0),
            ..sattr3::default()
        };
        let ok = create("new", createhow3::UNCHECKED(cut)).unwrap();
        assert_eq!(some(ok.obj_attributes).size, 0);
        let once = |n| createhow3::EXCLUSIVE(createverf3([n, 1, 2, 3, 4, 5, 6, 7]));
        let first = create("once", once(200)).unwrap();
        let again = create("once", once(200)).unwrap();
        assert_eq!(some(first.obj), some(again.obj), "the same call again");
        assert_eq!(status(create("once", once(9))), nfsstat3::NFS3ERR_EXIST);
        assert_eq!(status(create("..", once(9))), nfsstat3::NFS3ERR_EXIST);

        let args = MKDIR3args {
            where_: what(&top, "made"),
            attributes: with(0o1777),
        };
        let ok = c.nfs::<MKDIR3res>(NFSPROC3_MKDIR, &args).unwrap();
        assert_eq!(some(ok.obj_attributes).type_, ftype3::NF3DIR);
        let args = SYMLINK3args {
            where_: what(&top, "text"),
            symlink: symlinkdata3 {
                symlink_attributes: with(0o777),
                symlink_data: b"/any/where"[..].into(),
            },
        };
        let ok = c.nfs::<SYMLINK3res>(NFSPROC3_SYMLINK, &args).unwrap();
        assert_eq!(some(ok.obj_attributes).type_, ftype3::NF3LNK);
        let device = devicedata3 {
            dev_attributes: with(0o600),
            spec: specdata3 {
                specdata1: 1,
                specdata2: 3,
            },
        };
        let kinds = [
            ("chr", mknoddata3::NF3CHR(device)),
            ("sock", mknoddata3::NF3SOCK(with(0o600))),
            ("fifo", mknoddata3::NF3FIFO(with(0o600))),
        ];
        for (name, kind) in kinds {
            let args = MKNOD3args {
                where_: what(&top, name),
                what: kind,
            };
            assert_eq!(
                status(c.nfs::<MKNOD3res>(NFSPROC3_MKNOD, &args)),
                nfsstat3::NFS3_OK
            );
        }
    });
    let kind = |name| fs::symlink_metadata(stage.path(name)).expect(name);
    assert!(kind("chr").file_type().is_char_device() && kind("chr").rdev() == 0x103);
    assert!(kind("sock").file_type().is_socket());
    assert!(kind("fifo").file_type().is_fifo());
    assert_eq!(kind("made").mode() & 0o7777, 0o1777);
    assert_eq!(
        fs::read_link(stage.path("text")).expect("link"),
        PathBuf::from("/any/where")
    );
}

#[test]
fn names_are_removed_moved_and_linked() {
    let Some(stage) = Stage::new("change") else {
        return;
    };
    stage.with(|c, top| {
        let dir = c.walk(&top, "dir").expect("dir");
        let file = c.walk(&dir, "file").expect("file");
        let args = LINK3args {
            file: file.clone(),
            link: what(&top, "second"),
        };
        let ok = c.nfs::<LINK3res>(NFSPROC3_LINK, &args).unwrap();
        assert_eq!(some(ok.file_attributes).nlink, 2);
        let link = c.walk(&top, "link").expect("link");
        let args = LINK3args {
            file: link,
            link: what(&top, "link-2"),
        };
        assert_eq!(
            status(c.nfs::<LINK3res>(NFSPROC3_LINK, &args)),
            nfsstat3::NFS3_OK
        );
        assert!(stage.path("link-2").is_symlink());

        let args = RENAME3args {
            from: what(&dir, "file"),
            to: what(&top, "moved"),
        };
        assert_eq!(
            status(c.nfs::<RENAME3res>(NFSPROC3_RENAME, &args)),
            nfsstat3::NFS3_OK
        );
        assert_eq!(
            c.walk(&top, "moved"),
            Ok(file.clone()),
            "handles outlive names"
        );
        assert_eq!(c.walk(&top, "second"), Ok(file.clone()));

        let mut remove = |procedure, name: &'static str| {
            let object = what(&top, name);
            status(c.nfs::<REMOVE3res>(procedure, &REMOVE3args { object }))
        };
        assert_eq!(remove(NFSPROC3_REMOVE, "second"), nfsstat3::NFS3_OK);
        assert_eq!(remove(NFSPROC3_REMOVE, "second"), nfsstat3::NFS3ERR_NOENT);
        assert_eq!(remove(NFSPROC3_REMOVE, "dir"), nfsstat3::NFS3ERR_ISDIR);
        assert_eq!(remove(NFSPROC3_RMDIR, "dir"), nfsstat3::NFS3ERR_NOTEMPTY);
        assert_eq!(remove(NFSPROC3_RMDIR, "."), nfsstat3::NFS3ERR_INVAL);
        assert_eq!(remove(NFSPROC3_RMDIR, "empty"), nfsstat3::NFS3_OK);
        assert_eq!(remove(NFSPROC3_REMOVE, "moved"), nfsstat3::NFS3_OK);
        let gone: GETATTR3res = c.nfs(NFSPROC3_GETATTR, &GETATTR3args { object: file });
        assert_eq!(status(gone), nfsstat3::NFS3ERR_STALE);
    });
}

#[test]
fn a_call_sent_again_is_not_done_again() {
    let Some(stage) = Stage::new("again") else {
        return;
    };
    let server = stage.net.server;
    // The first calls of every client have the same numbers.
    let remove = |port| {
        let mut c = Client::from_port(server, port);
        let top = c.mount("/root");
        let dir = c.walk(&top, "dir").expect("dir");
        let object = what(&dir, "file");
        status(c.nfs::<REMOVE3res>(NFSPROC3_REMOVE, &REMOVE3args { object }))
    };
    stage.net.inside(server, || {
        assert_eq!(remove(900), nfsstat3::NFS3_OK);
        assert_eq!(
            remove(900),
            nfsstat3::NFS3_OK,
            "the reply that was there before"
        );
        assert_eq!(remove(901), nfsstat3::NFS3ERR_NOENT, "another client");
    });
}

#[test]
fn the_server_says_what_it_can() {
    let Some(stage) = Stage::new("info") else {
        return;
    };
    stage.with(|c, top| {
        let info: FSINFO3res = c.nfs(
            NFSPROC3_FSINFO,
            &FSINFO3args {
                fsroot: top.clone(),
            },
        );
        let info = info.unwrap();
        assert_eq!((info.rtmax, info.wtmax), (1 << 20, 1 << 20));
        let args = FSSTAT3args {
            fsroot: top.clone(),
        };
        let space: FSSTAT3res = c.nfs(NFSPROC3_FSSTAT, &args);
        let space = space.unwrap();
        assert!(space.tbytes >= space.fbytes && space.fbytes >= space.abytes);
        let args = PATHCONF3args {
            object: top.clone(),
        };
        let conf: PATHCONF3res = c.nfs(NFSPROC3_PATHCONF, &args);
        let conf = conf.unwrap();
        assert!(conf.no_trunc && conf.case_preserving && !conf.case_insensitive);
        assert_eq!(conf.name_max, 255);
    });
}

#[test]
fn a_file_has_no_list_of_permissions_and_gets_none() {
    let Some(stage) = Stage::new("acl") else {
        return;
    };
    stage.with(|c, top| {
        c.try_call((ACL, 3, 0), &Void).expect("NULL");
        // As Linux reads it: status, attributes, mask, and twice a count with a list.
        let args = ACCESS3args {
            object: top.clone(),
            access: 0xf,
        };
        let got = c.try_call((ACL, 3, 1), &args).expect("GETACL");
        let mut rest = &got[..];
        assert_eq!(u32::unpack(&mut rest).expect("status").0, 0);
        let (attributes, _) = post_op_attr::unpack(&mut rest).expect("attributes");
        assert!(attributes.is_some());
        let numbers: Vec<u8> = [0xf_u32, 0, 0, 0, 0]
            .iter()
            .flat_map(|n| n.to_be_bytes())
            .collect();
        assert_eq!(rest, numbers);
        let got = c.try_call((ACL, 3, 2), &args).expect("SETACL");
        let refused = nfsstat3::NFS3ERR_NOTSUPP as u32;
        assert_eq!(got[..4], refused.to_be_bytes());
        assert_eq!(c.try_call((ACL, 3, 3), &args), Err(Refused::NoProcedure));
    });
}

#[test]
fn mounts_are_listed_and_forgotten() {
    let Some(stage) = Stage::new("mounts") else {
        return;
    };
    stage.with(|c, top| {
        let below = c.mount("/root/dir");
        assert_eq!(c.walk(&top, "dir"), Ok(below));
        for (path, why) in [
            ("/", mountstat3::MNT3ERR_NOENT),
            ("/rootx", mountstat3::MNT3ERR_NOENT),
            ("/root/gone", mountstat3::MNT3ERR_NOENT),
            ("/root/link", mountstat3::MNT3ERR_NOTDIR),
            ("/root/dir/file", mountstat3::MNT3ERR_NOTDIR),
            ("/root/../root", mountstat3::MNT3ERR_INVAL),
        ] {
            let mountres3::Err(is) = c.try_mount(path) else {
                panic!("{path} is mounted");
            };
            assert_eq!(is as u32, why as u32, "{path}");
        }
        let mut dump = || {
            let List(all) = c.mount_call::<mountlist>(MOUNT_PROGRAM::MOUNTPROC3_DUMP, &Void);
            let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
            let lines = all
                .iter()
                .map(|m| text(&m.ml_hostname.0) + ":" + &text(&m.ml_directory.0));
            lines.collect::<Vec<_>>()
        };
        let host = address(100).to_string();
        assert_eq!(
            dump(),
            [format!("{host}:/root"), format!("{host}:/root/dir")]
        );
        let path = nfspath3::from(&b"/root"[..]);
        let _: Void = c.mount_call(MOUNT_PROGRAM::MOUNTPROC3_UMNT, &path);
        let List(all) = c.mount_call::<mountlist>(MOUNT_PROGRAM::MOUNTPROC3_DUMP, &Void);
        assert_eq!(all.len(), 1);
        let _: Void = c.mount_call(MOUNT_PROGRAM::MOUNTPROC3_UMNTALL, &Void);
        let List(all) = c.mount_call::<mountlist>(MOUNT_PROGRAM::MOUNTPROC3_DUMP, &Void);
        assert!(all.is_empty());
        let List(all) = c.mount_call::<exports>(MOUNT_PROGRAM::MOUNTPROC3_EXPORT, &Void);
        assert_eq!(&all[0].ex_dir.0[..], b"/root");

        assert_eq!(c.try_call((100_000, 2, 0), &Void), Err(Refused::NoProgram));
        assert_eq!(
            c.try_call((NFS, 4, 0), &Void),
            Err(Refused::NoVersion(3, 3))
        );
        assert_eq!(
            c.try_call((MOUNT, 1, 0), &Void),
            Err(Refused::NoVersion(3, 3))
        );
        assert_eq!(c.try_call((NFS, 3, 22), &Void), Err(Refused::NoProcedure));
        assert_eq!(c.try_call((NFS, 3, 1), &Void), Err(Refused::Garbage));
    });
}
