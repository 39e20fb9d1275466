//! READDIR and READDIRPLUS.

mod common;

use common::call::{Client, NFS, whole};
use common::stage::{Stage, status};
use nfs3_types::nfs3::*;
use nfs3_types::xdr_codec::List;
use std::collections::BTreeSet;
use std::fs;

use NFS_PROGRAM::*;

/// All names of a directory by READDIR, in replies of at most `count` bytes.
fn readdir(c: &mut Client, dir: &nfs_fh3, count: u32) -> Vec<String> {
    let mut names = Vec::new();
    let mut cookie = 0;
    loop {
        let args = READDIR3args {
            dir: dir.clone(),
            cookie,
            cookieverf: cookieverf3::default(),
            count,
        };
        let bytes = c
            .try_call((NFS, 3, NFSPROC3_READDIR as u32), &args)
            .expect("answered");
        assert!(bytes.len() <= count as usize);
        let ok = whole::<READDIR3res>(&bytes).unwrap();
        let List(entries) = ok.reply.entries;
        assert!(!entries.is_empty() || ok.reply.eof);
        for e in entries {
            names.push(String::from_utf8_lossy(e.name.as_ref()).into_owned());
            cookie = e.cookie;
        }
        if ok.reply.eof {
            return names;
        }
    }
}

#[test]
fn listings_are_whole_however_small_the_replies() {
    let Some(stage) = Stage::new("list") else {
        return;
    };
    let mut expected: BTreeSet<String> = [".", ".."].map(str::to_owned).into();
    for i in 0..500 {
        let name = format!("file-{}", "x".repeat(i % 40) + &i.to_string());
        fs::write(stage.path("empty").join(&name), "").expect("written");
        expected.insert(name);
    }
    stage.with(|c, top| {
        let dir = c.walk(&top, "empty").expect("dir");
        for count in [300, 1000, 100_000, u32::MAX] {
            let names = readdir(c, &dir, count);
            assert_eq!(names.len(), expected.len(), "{count}");
            assert_eq!(
                names.into_iter().collect::<BTreeSet<_>>(),
                expected,
                "{count}"
            );
        }
        let mut few = |count| {
            let args = READDIR3args {
                dir: dir.clone(),
                cookie: 2,
                cookieverf: cookieverf3::default(),
                count,
            };
            c.nfs::<READDIR3res>(NFSPROC3_READDIR, &args)
        };
        assert_eq!(status(few(100)), nfsstat3::NFS3ERR_TOOSMALL);

        // What is removed on the way makes nothing else disappear.
        let List(first) = few(2000).unwrap().reply.entries;
        let cookie = first.last().expect("entries").cookie;
        for e in &first {
            let name = String::from_utf8_lossy(e.name.as_ref()).into_owned();
            fs::remove_file(stage.path("empty").join(name)).expect("removed");
        }
        let args = READDIR3args {
            dir: dir.clone(),
            cookie,
            cookieverf: cookieverf3::default(),
            count: 1 << 20,
        };
        let List(rest) = c
            .nfs::<READDIR3res>(NFSPROC3_READDIR, &args)
            .unwrap()
            .reply
            .entries;
        assert_eq!(first.len() + rest.len() + 2, expected.len());

        let mut plus = |cookie, dircount, maxcount| {
            let args = READDIRPLUS3args {
                dir: top.clone(),
                cookie,
                cookieverf: cookieverf3::default(),
                dircount,
                maxcount,
            };
            c.nfs::<READDIRPLUS3res>(NFSPROC3_READDIRPLUS, &args)
        };
        let ok = plus(0, 4096, 8192).unwrap();
        assert!(ok.reply.eof);
        let List(entries) = ok.reply.entries;
        let mut names = Vec::new();
        for e in &entries {
            names.push(String::from_utf8_lossy(e.name.as_ref()).into_owned());
        }
        names.sort();
        assert_eq!(names, [".", "..", "dir", "empty", "link"]);
        let one = plus(0, 1, 8192).unwrap();
        assert_eq!(one.reply.entries.0.len(), 1, "dircount bounds names");
        assert!(!one.reply.eof);
        assert_eq!(status(plus(0, 4096, 150)), nfsstat3::NFS3ERR_TOOSMALL);
        let dir = entries
            .iter()
            .find(|e| e.name.as_ref() == b"dir")
            .expect("dir");
        let Nfs3Option::Some(handle) = &dir.name_handle else {
            panic!("no handle");
        };
        assert_eq!(c.walk(&top, "dir").as_ref(), Ok(handle));
        let Nfs3Option::Some(attributes) = &dir.name_attributes else {
            panic!("no attributes");
        };
        assert_eq!(attributes.fileid, dir.fileid);
        let file = c.walk(&top, "dir/file").expect("file");
        assert_eq!(
            status(c.nfs::<READDIR3res>(
                NFSPROC3_READDIR,
                &READDIR3args {
                    dir: file,
                    cookie: 0,
                    cookieverf: cookieverf3::default(),
                    count: 1000,
                }
            )),
            nfsstat3::NFS3ERR_NOTDIR
        );
    });
}
