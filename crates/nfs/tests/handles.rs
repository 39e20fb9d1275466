//! Handles outlive the server, are equal on servers with the same image, and lead nowhere else.

mod common;

use armento_nfs::{Export, Exports, Key};
use common::call::{Client, what};
use common::space::{Net, address};
use common::{Dir, KEY, serve, serve_with};
use nfs3_types::nfs3::*;
use nfs3_types::xdr_codec::Opaque;
use std::fs;
use std::process::Command;

use NFS_PROGRAM::*;

fn number(c: &mut Client, object: &nfs_fh3) -> Result<(u64, u64), nfsstat3> {
    let args = GETATTR3args {
        object: object.clone(),
    };
    match c.nfs::<GETATTR3res>(NFSPROC3_GETATTR, &args) {
        GETATTR3res::Ok(ok) => Ok((ok.obj_attributes.fileid, ok.obj_attributes.fsid)),
        GETATTR3res::Err((why, _)) => Err(why),
    }
}

fn read(c: &mut Client, file: &nfs_fh3) -> Result<Vec<u8>, nfsstat3> {
    let args = READ3args {
        file: file.clone(),
        offset: 0,
        count: 1000,
    };
    match c.nfs::<READ3res>(NFSPROC3_READ, &args) {
        READ3res::Ok(ok) => Ok(ok.data.to_vec()),
        READ3res::Err((why, _)) => Err(why),
    }
}

const STALE: nfsstat3 = nfsstat3::NFS3ERR_STALE;

#[test]
fn a_restart_keeps_all_handles() {
    let Some(net) = Net::new(&[1]) else {
        return;
    };
    let root = Dir::new("restart").with(&[("a/b/c", "text"), ("a/b/d$$HOST=n1$$", "tagged")]);
    let exports = || {
        vec![
            Export::shared("/root", &root.0),
            Export::image("/image", &root.0, 5),
        ]
    };
    let mut handles = Vec::new();
    for round in 0..3 {
        let running = serve(&net, exports());
        net.inside(address(1), || {
            let mut c = Client::new(net.server);
            if round == 0 {
                for export in ["/root", "/image"] {
                    let top = c.mount(export);
                    for path in ["a", "a/b", "a/b/c", "a/b/d"] {
                        let handle = c.walk(&top, path).expect(path);
                        handles.push((path, handle.clone(), number(&mut c, &handle)));
                    }
                }
            }
            for (path, handle, is) in &handles {
                assert_eq!(number(&mut c, handle), *is, "{path}");
            }
            assert_eq!(read(&mut c, &handles[2].1), Ok(b"text".to_vec()));
            assert_eq!(read(&mut c, &handles[7].1), Ok(b"tagged".to_vec()));
        });
        running.stop();
    }
    // With another key handles of inodes are worth nothing; those of paths need none.
    let _running = serve_with(&net, exports(), Key([8; 32]));
    net.inside(address(1), || {
        let mut c = Client::new(net.server);
        assert_eq!(number(&mut c, &handles[0].1), Err(STALE));
        assert_eq!(number(&mut c, &handles[4].1), handles[4].2);
    });
}

#[test]
fn servers_with_the_same_image_give_the_same_handles() {
    let Some(net) = Net::new(&[1]) else {
        return;
    };
    let first = Dir::new("image").with(&[("a/b", "text"), ("a/c", "other"), ("e/f/g", "")]);
    let second = Dir::new("copy");
    fs::remove_dir(&second.0).expect("removed");
    let copied = Command::new("cp")
        .arg("-a")
        .args([&first.0, &second.0])
        .status();
    assert!(copied.expect("cp").success());
    let export = |dir: &Dir| vec![Export::image("/image", &dir.0, 5)];

    let running = serve(&net, export(&first));
    let (mut handles, mut names) = (Vec::new(), Vec::new());
    let list = |c: &mut Client, dir: &nfs_fh3| {
        let args = READDIR3args {
            dir: dir.clone(),
            cookie: 0,
            cookieverf: cookieverf3::default(),
            count: 10_000,
        };
        c.nfs::<READDIR3res>(NFSPROC3_READDIR, &args)
            .unwrap()
            .reply
            .entries
            .0
    };
    net.inside(address(1), || {
        let mut c = Client::new(net.server);
        let top = c.mount("/image");
        for path in ["a", "a/b", "a/c", "e/f/g"] {
            let handle = c.walk(&top, path).expect(path);
            handles.push((handle.clone(), number(&mut c, &handle)));
        }
        names = list(&mut c, &top);
    });
    running.stop();
    let _running = serve(&net, export(&second));
    net.inside(address(1), || {
        let mut c = Client::new(net.server);
        for (handle, is) in &handles {
            assert_eq!(number(&mut c, handle), *is);
        }
        assert_eq!(read(&mut c, &handles[1].0), Ok(b"text".to_vec()));
        let top = c.mount("/image");
        assert_eq!(
            list(&mut c, &top),
            names,
            "cookies and numbers are equal, too"
        );
        // An edit in place and a file that takes its place are found under the handle that a client has.
        fs::write(second.0.join("a/b"), "longer text").expect("written");
        assert_eq!(read(&mut c, &handles[1].0), Ok(b"longer text".to_vec()));
        fs::write(second.0.join("a/new"), "third").expect("written");
        fs::rename(second.0.join("a/new"), second.0.join("a/b")).expect("renamed");
        assert_eq!(read(&mut c, &handles[1].0), Ok(b"third".to_vec()));
        fs::remove_file(second.0.join("a/b")).expect("removed");
        fs::create_dir(second.0.join("a/b")).expect("made");
        assert_eq!(
            number(&mut c, &handles[1].0),
            Err(STALE),
            "another kind of file"
        );
        fs::remove_file(second.0.join("a/c")).expect("removed");
        assert_eq!(number(&mut c, &handles[2].0), Err(STALE));
    });
}

#[test]
fn generations_change_under_running_nodes() {
    let Some(net) = Net::new(&[1]) else {
        return;
    };
    let old = Dir::new("old").with(&[("f", "old")]);
    let new = Dir::new("new").with(&[("f", "new")]);
    let running = serve(&net, vec![Export::image("/old", &old.0, 1)]);
    net.inside(address(1), || {
        let mut c = Client::new(net.server);
        let top = c.mount("/old");
        let f = c.walk(&top, "f").expect("file");
        let both = vec![
            Export::image("/old", &old.0, 1),
            Export::image("/new", &new.0, 2),
        ];
        let replace = |list| running.replace(Exports { list, key: KEY });
        replace(both).expect("replaced");
        assert_eq!(read(&mut c, &f), Ok(b"old".to_vec()));
        let top = c.mount("/new");
        let g = c.walk(&top, "f").expect("file");
        assert_eq!(read(&mut c, &g), Ok(b"new".to_vec()));
        let twice = vec![
            Export::image("/old", &old.0, 1),
            Export::image("/new", &new.0, 1),
        ];
        assert!(replace(twice).is_err());
        assert_eq!(
            read(&mut c, &f),
            Ok(b"old".to_vec()),
            "those before are served"
        );
        replace(vec![Export::image("/new", &new.0, 2)]).expect("replaced");
        assert_eq!(read(&mut c, &f), Err(STALE));
        assert_eq!(read(&mut c, &g), Ok(b"new".to_vec()));
    });
}

#[test]
fn removed_and_replaced_files_are_stale() {
    let Some(net) = Net::new(&[1]) else {
        return;
    };
    let root = Dir::new("stale").with(&[("f", "first"), ("g", "g"), ("d/x", "")]);
    let _running = serve(&net, vec![Export::shared("/root", &root.0)]);
    net.inside(address(1), || {
        let mut c = Client::new(net.server);
        let top = c.mount("/root");
        let f = c.walk(&top, "f").expect("file");
        let d = c.walk(&top, "d").expect("dir");
        assert_eq!(read(&mut c, &f), Ok(b"first".to_vec()));
        // As a package manager replaces a file.
        fs::write(root.0.join("f.new"), "second").expect("written");
        fs::rename(root.0.join("f.new"), root.0.join("f")).expect("renamed");
        assert_eq!(read(&mut c, &f), Err(STALE));
        let f = c.walk(&top, "f").expect("file");
        assert_eq!(read(&mut c, &f), Ok(b"second".to_vec()));
        // Changed in place: the same file.
        fs::write(root.0.join("f"), "third").expect("written");
        assert_eq!(read(&mut c, &f), Ok(b"third".to_vec()));
        // Moved out of the export: its parents are not seen.
        let away = root.0.with_extension("away");
        fs::rename(root.0.join("d"), &away).expect("moved");
        let up = c.walk(&d, "..");
        let above = c.walk(&d, "../..");
        fs::rename(&away, root.0.join("d")).expect("moved back");
        assert_eq!((up, above), (Err(STALE), Err(STALE)));
    });
}

#[test]
fn forged_handles_open_nothing() {
    let Some(net) = Net::new(&[1]) else {
        return;
    };
    let root = Dir::new("forged").with(&[("f", "text")]);
    let list = vec![
        Export::shared("/root", &root.0),
        Export::image("/image", &root.0, 5),
    ];
    let _running = serve(&net, list);
    net.inside(address(1), || {
        let mut c = Client::new(net.server);
        for export in ["/root", "/image"] {
            let top = c.mount(export);
            let f = c.walk(&top, "f").expect("file").data.to_vec();
            for at in 0..f.len() {
                let mut forged = f.clone();
                forged[at] ^= 0x40;
                let object = nfs_fh3 {
                    data: Opaque::owned(forged),
                };
                let got = number(&mut c, &object);
                assert!(
                    matches!(got, Err(STALE | nfsstat3::NFS3ERR_BADHANDLE)),
                    "{export} {at}: {got:?}"
                );
            }
            let object = nfs_fh3 {
                data: Opaque::owned(Vec::new()),
            };
            assert_eq!(number(&mut c, &object), Err(nfsstat3::NFS3ERR_BADHANDLE));
        }
        let top = c.mount("/root");
        let what = what(&top, "f");
        let found: LOOKUP3res = c.nfs(NFSPROC3_LOOKUP, &LOOKUP3args { what });
        assert!(matches!(found, LOOKUP3res::Ok(_)));
    });
}
