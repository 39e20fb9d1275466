//! Nodes with different addresses see different files under one name: libnfs in network namespaces.

mod common;

use armento_nfs::Export;
use common::call::{Client, what};
use common::space::{Net, PORT, address};
use common::{Dir, serve};
use nfs3_types::mount::{mountres3, mountstat3};
use nfs3_types::nfs3::{
    CREATE3args, CREATE3res, NFS_PROGRAM, REMOVE3args, REMOVE3res, createhow3, nfsstat3, sattr3,
};
use std::fs;
use std::io::Read;
use std::path::Path;

fn url(net: &Net, path: &str) -> String {
    format!("nfs://{}{path}?nfsport={PORT}&mountport={PORT}", net.server)
}

fn has_libnfs() -> bool {
    let there = Path::new("/usr/bin/nfs-cat").exists();
    if !there {
        println!("skipped: nfs-cat (libnfs-utils) is not installed");
    }
    there
}

#[test]
fn each_node_reads_its_own_variant() {
    let Some(net) = Net::new(&[1, 2, 11, 77]) else {
        return;
    };
    if !has_libnfs() {
        return;
    }
    let root = Dir::new("variants").with(&[
        ("etc/hostname", "shared\n"),
        ("etc/hostname$$HOST=n1$$", "one\n"),
        ("etc/hostname$$IP=10.77.0.2$$", "two\n"),
        ("etc/motd$$HOST=n1*$$", "ones\n"),
        ("etc/secret$$HOST=n2$$", "of two\n"),
        ("opt$$HOST=n1$$/a", ""),
        ("opt/b", ""),
    ]);
    let running = serve(&net, vec![Export::shared("/root", &root.0)]);
    let cat = |n, path: &str| net.try_run(address(n), &["nfs-cat", &url(&net, path)]);
    let ls = |n, path: &str| {
        let out = net.run(address(n), &["nfs-ls", &url(&net, path)]);
        let names = out.lines().filter_map(|l| l.split_whitespace().last());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        names.join(" ")
    };
    for (n, name) in [
        (1, "one\n"),
        (2, "two\n"),
        (11, "shared\n"),
        (77, "shared\n"),
    ] {
        assert_eq!(cat(n, "/root/etc/hostname").1, name, "n{n}");
    }
    assert_eq!(ls(1, "/root/etc"), "hostname motd");
    assert_eq!(ls(2, "/root/etc"), "hostname secret");
    assert_eq!(ls(11, "/root/etc"), "hostname motd");
    assert_eq!(ls(77, "/root/etc"), "hostname");
    assert_eq!(ls(1, "/root/opt"), "a");
    assert_eq!(ls(2, "/root/opt"), "b");
    assert_ne!(cat(1, "/root/etc/secret").0, 0);
    // An edit is seen at once, and so is a new variant.
    fs::write(root.0.join("etc/hostname$$HOST=n11$$"), "eleven\n").expect("written");
    assert_eq!(cat(11, "/root/etc/hostname").1, "eleven\n");
    fs::remove_file(root.0.join("etc/hostname$$HOST=n1$$")).expect("removed");
    assert_eq!(cat(1, "/root/etc/hostname").1, "shared\n");

    let clients = running.clients();
    let of = |n| {
        clients
            .iter()
            .find(|c| c.address == address(n))
            .expect("counted")
    };
    assert_eq!(of(1).node.as_deref(), Some("n1"));
    assert_eq!(of(77).node, None);
    assert!(of(2).calls > 5 && of(2).bytes_read == 4, "{:?}", of(2));
}

#[test]
fn refused_addresses_get_no_answer() {
    let Some(net) = Net::new(&[60]) else {
        return;
    };
    let root = Dir::new("refused").with(&[("a", "")]);
    let running = serve(&net, vec![Export::shared("/root", &root.0)]);
    let mut got = Vec::new();
    net.inside(address(60), || {
        let mut client = Client::new(net.server);
        let _ = client.stream.read_to_end(&mut got);
    });
    assert!(got.is_empty());
    assert!(running.clients().is_empty());
}

#[test]
fn create_and_always_say_where_new_files_go() {
    let Some(net) = Net::new(&[1, 2]) else {
        return;
    };
    let root = Dir::new("create").with(&[
        ("own/$$CREATE=IP$$", ""),
        ("always/$$ALWAYS=CLIENT$$", ""),
        ("always/f", "hidden"),
    ]);
    let _running = serve(&net, vec![Export::shared("/root", &root.0).writable()]);
    let create = |n, dir: &str, name: &str| {
        net.inside(address(n), || {
            let mut c = Client::new(net.server);
            let top = c.mount("/root");
            let dir = c.walk(&top, dir).expect("dir");
            let args = CREATE3args {
                where_: what(&dir, name),
                how: createhow3::GUARDED(sattr3::default()),
            };
            match c.nfs(NFS_PROGRAM::NFSPROC3_CREATE, &args) {
                CREATE3res::Ok(_) => Ok(()),
                CREATE3res::Err((why, _)) => Err(why),
            }
        })
    };
    assert_eq!(create(1, "own", "log"), Ok(()));
    assert_eq!(create(1, "own", "log"), Err(nfsstat3::NFS3ERR_EXIST));
    assert_eq!(create(2, "own", "log"), Ok(()));
    assert_eq!(create(1, "always", "f"), Ok(()));
    for name in [
        "own/log$$IP=10.77.0.1$$",
        "own/log$$IP=10.77.0.2$$",
        "always/f$$CLIENT$$",
    ] {
        assert!(root.0.join(name).exists(), "{name}");
    }
    // A node removes its own variant, not that of another.
    net.inside(address(2), || {
        let mut c = Client::new(net.server);
        let top = c.mount("/root");
        let dir = c.walk(&top, "own").expect("dir");
        let object = what(&dir, "log");
        let gone: REMOVE3res = c.nfs(NFS_PROGRAM::NFSPROC3_REMOVE, &REMOVE3args { object });
        assert!(matches!(gone, REMOVE3res::Ok(_)));
    });
    assert!(root.0.join("own/log$$IP=10.77.0.1$$").exists());
    assert!(!root.0.join("own/log$$IP=10.77.0.2$$").exists());
}

#[test]
fn each_node_has_a_directory_of_its_own() {
    let Some(net) = Net::new(&[1, 2, 77]) else {
        return;
    };
    let all = Dir::new("own");
    let _running = serve(&net, vec![Export::per_node("/own", &all.0)]);
    let make = |n: u8| {
        net.inside(address(n), || {
            let mut c = Client::new(net.server);
            let top = c.mount("/own");
            let name = format!("of-{n}$$HOST=n1$$");
            let args = CREATE3args {
                where_: what(&top, &name),
                how: createhow3::UNCHECKED(sattr3::default()),
            };
            let made: CREATE3res = c.nfs(NFS_PROGRAM::NFSPROC3_CREATE, &args);
            assert!(matches!(made, CREATE3res::Ok(_)), "{made:?}");
            // The directory above is not reached.
            assert_eq!(c.walk(&top, ".."), Ok(top.clone()));
            top
        })
    };
    let top = make(1);
    make(2);
    assert!(all.0.join("n1/of-1$$HOST=n1$$").exists());
    assert!(all.0.join("n2/of-2$$HOST=n1$$").exists());
    net.inside(address(2), || {
        let mut c = Client::new(net.server);
        assert_eq!(
            c.walk(&top, "of-1$$HOST=n1$$"),
            Err(nfsstat3::NFS3ERR_STALE)
        );
    });
    net.inside(address(77), || {
        let mut c = Client::new(net.server);
        let refused = c.try_mount("/own");
        assert!(matches!(refused, mountres3::Err(mountstat3::MNT3ERR_ACCES)));
    });
}

#[test]
fn readers_outlive_a_restart_of_the_server() {
    let Some(net) = Net::new(&[1, 2, 3, 4, 5, 6, 7, 8]) else {
        return;
    };
    if !has_libnfs() {
        return;
    }
    // Larger than what sockets hold, so that all readers are in the middle.
    let content: Vec<u8> = (0..64_u32 << 20).map(|i| (i / 5) as u8).collect();
    let root = Dir::new("outlive");
    fs::write(root.0.join("big"), &content).expect("written");
    let copies = Dir::new("copies");
    let export = || vec![Export::shared("/root", &root.0)];
    let running = serve(&net, export());
    std::thread::scope(|scope| {
        let (net, copies) = (&net, &copies);
        let readers: Vec<_> = (1..=8_u8)
            .map(|i| {
                let copy = copies.0.join(i.to_string()).display().to_string();
                let from = url(net, "/root/big");
                scope.spawn(move || net.run(address(i), &["nfs-cp", &from, &copy]))
            })
            .collect();
        let begun = |s: &armento_nfs::ClientStats| s.bytes_read > 2 << 20;
        while running.clients().iter().filter(|s| begun(s)).count() < 8 {
            std::thread::yield_now();
        }
        running.stop();
        let _again = serve(net, export());
        for reader in readers {
            reader.join().expect("copied");
        }
    });
    for i in 1..=8 {
        let copy = fs::read(copies.0.join(i.to_string())).expect("a copy");
        assert!(copy == content, "{i}");
    }
}
