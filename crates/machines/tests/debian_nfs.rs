//! Our NFS server and the kernel's client: a shared root below an overlay, with a program that another user runs.

use armento_machines::farm::{Farm, SOON, debian_12};
use armento_machines::{Kernel, Kind, Machine};
use armento_nfs::{Caller, Export, Exports, Key, Running, Server};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File, Permissions};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The server's address on the farm's bridge.
const SERVER: &str = "10.9.9.100";
const PORT: u16 = 2049;

fn resolver(address: IpAddr) -> Caller {
    match address {
        IpAddr::V4(a) => Caller::Node(format!("n{}", a.octets()[3])),
        IpAddr::V6(_) => Caller::Refused,
    }
}

/// Serves in the network namespace of the machines.
fn serve(farm: &Farm, exports: Exports) -> Running {
    let space = File::open(farm.site.network()).expect("the namespace");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("inside");
            let address = SocketAddr::new(SERVER.parse().expect("address"), PORT);
            Server::bind(address, exports, resolver).expect("bound")
        });
        thread.join().expect("no panic")
    })
}

fn exports(dir: &Path) -> Exports {
    Exports {
        list: vec![
            Export::shared("/root", dir.join("root")),
            Export::image("/image", dir.join("root"), 1),
            Export::per_node("/own", dir.join("own")),
        ],
        key: Key([3; 32]),
    }
}

/// Some files in several directories, and a few that differ from node to node.
fn fill(dir: &Path) {
    let root = dir.join("root");
    for d in ["bin", "etc", "usr/share/many", "home/alice"] {
        fs::create_dir_all(root.join(d)).expect("dir");
    }
    fs::create_dir_all(dir.join("own")).expect("dir");
    let write = |name: &str, text: &str| fs::write(root.join(name), text).expect("file");
    for i in 0..700 {
        write(
            &format!("usr/share/many/file-{i}"),
            &"line\n".repeat(i * 20),
        );
    }
    write("etc/hostname", "shared\n");
    write("etc/hostname$$HOST=n1$$", "n1\n");
    write("etc/hostname$$HOST=n2$$", "n2\n");
    write(
        "bin/who",
        "#!/bin/sh\nid -un; cat \"$(dirname \"$0\")/../etc/hostname\"\n",
    );
    let mode = |name: &str, mode| {
        fs::set_permissions(root.join(name), Permissions::from_mode(mode)).expect("mode");
    };
    mode("bin/who", 0o755);
    write("etc/motd", "first\n");
    write("etc/secret", "secret\n");
    mode("etc/secret", 0o600);
    std::os::unix::fs::symlink("../bin/who", root.join("etc/link")).expect("link");
}

fn mount(m: &Machine, export: &str, at: &str, how: &str) {
    let options = format!(
        "vers=3,proto=tcp,port={PORT},mountproto=tcp,mountport={PORT},nolock,addr={SERVER},{how}"
    );
    m.sh(
        "root",
        &format!("mkdir -p {at} && mount -i -t nfs -o {options} {SERVER}:{export} {at}"),
    );
}

const SUMS: &str = "find . -type f | LC_ALL=C sort | xargs -d '\\n' sha256sum";

#[test]
fn a_root_below_an_overlay_runs_programs_of_all_users() {
    let kernels = [Kernel::V6_1, Kernel::V6_12];
    let Some(farm) = Farm::boot_long(&debian_12(Kind::Small, &kernels)) else {
        return;
    };
    farm.site
        .sh(&format!("ip address add {SERVER}/24 dev farm"))
        .expect("an address");
    let dir = farm.site.dir().join("nfs");
    fill(&dir);
    let mut running = serve(&farm, exports(&dir));
    let expected = farm
        .site
        .sh(&format!(
            "cd {}/root && {SUMS} | grep -v '\\$\\$'",
            dir.display()
        ))
        .expect("sums");
    for (export, m) in [("/root", farm.n(1)), ("/image", farm.n(2))] {
        let name = m.name();
        mount(m, export, "/mnt/root", "ro");
        m.sh(
            "root",
            "mkdir -p /mnt/up /mnt/all && mount -t tmpfs up /mnt/up && mkdir /mnt/up/u /mnt/up/w && \
             mount -t overlay -o lowerdir=/mnt/root,upperdir=/mnt/up/u,workdir=/mnt/up/w all /mnt/all",
        );
        // Sums of all files; the host's name is the node's own.
        let sums = |at: &str| {
            let own = m.sh("root", &format!("cd {at} && {SUMS}"));
            let (own, shared) = (without_hostname(&own), without_hostname(&expected));
            assert_eq!(own, shared, "{name} {at}");
        };
        sums("/mnt/root");
        sums("/mnt/all");
        let count = m.sh(
            "root",
            "find /mnt/all | wc -l; ls -a /mnt/all/usr/share/many | wc -l",
        );
        assert_eq!(count.split_whitespace().collect::<Vec<_>>(), ["713", "702"]);

        assert_eq!(m.sh("alice", "cat /mnt/all/etc/motd"), "first\n");
        // NFSACL: without it this is `Operation not supported`.
        let who = m.sh("alice", "/mnt/all/bin/who; /mnt/all/etc/link");
        assert_eq!(who, format!("alice\n{name}\nalice\n{name}\n"));
        assert_eq!(m.sh("root", "/mnt/all/bin/who"), format!("root\n{name}\n"));
        assert_ne!(m.run("alice", "cat /mnt/all/etc/secret").code, 0);
        assert_eq!(m.sh("root", "cat /mnt/all/etc/secret"), "secret\n");
        assert_ne!(m.run("root", "touch /mnt/root/new").code, 0);
        m.sh(
            "root",
            "echo more >> /mnt/all/etc/hostname; touch /mnt/all/new; rm -r /mnt/all/usr",
        );
        assert_eq!(
            m.sh("root", "cat /mnt/all/etc/hostname"),
            format!("{name}\nmore\n")
        );

        // A directory of its own, written and locked out for others.
        mount(m, "/own", "/mnt/own", "rw");
        m.sh(
            "root",
            "set -e; cd /mnt/own; dd if=/dev/urandom of=a bs=1M count=20 conv=fsync 2>&1; cp a b; cmp a b; mv b c; ln c d; \
             ln -s c e; mkdir -p x/y; mknod n c 1 3; mkfifo f; chmod 640 c; chown alice:alice c d; touch -d 2020-01-01 d; \
             truncate -s 5 a; test $(stat -c %s a) = 5; rm -r x; test $(stat -c %h c) = 2; sync",
        );
        m.sh("alice", "test $(cat /mnt/own/c | wc -c) = 20971520");
        assert_ne!(m.run("bob", "cat /mnt/own/c").code, 0);
        m.sh("root", "mkdir /mnt/own/big && cd /mnt/own/big && seq 3000 | xargs touch && test $(ls | wc -l) = 3000 && cd .. && rm -r big");
        assert!(dir.join("own").join(&name).join("c").exists());
    }

    // The server is started anew under the mounts; open files go on.
    let n1 = farm.n(1);
    let read = "exec 3< /mnt/root/usr/share/many/file-699; head -c 5 <&3; touch /tmp/open; \
                while [ ! -e /tmp/go ]; do sleep 0.2; done; echo 3 > /proc/sys/vm/drop_caches; cat <&3 | wc -c";
    n1.sh(
        "root",
        &format!("(setsid sh -c '{read}' > /tmp/out 2>&1 < /dev/null &)"),
    );
    n1.until("an open file", "root", "test -e /tmp/open", SOON);
    running.stop();
    running = serve(&farm, exports(&dir));
    n1.sh("root", "touch /tmp/go");
    n1.until("the rest", "root", "grep -q 69895 /tmp/out", SOON);
    for m in &farm.machines {
        m.sh("root", "echo 3 > /proc/sys/vm/drop_caches; cd /mnt/root && ls -lR > /dev/null && cat etc/hostname");
    }
    // An edit of the shared root is seen through the mount.
    fs::write(dir.join("root/etc/hostname$$HOST=n1$$"), "edited\n").expect("edited");
    n1.until(
        "the edit",
        "root",
        "grep -q edited /mnt/root/etc/hostname",
        SOON,
    );

    // Through the overlay as well; with handles of paths also a file that takes another's place.
    let motd = dir.join("root/etc/motd");
    let shows = |m: &Machine, what: &str| {
        m.until(
            what,
            "alice",
            &format!("grep -q {what} /mnt/all/etc/motd"),
            SOON,
        );
    };
    fs::write(&motd, "second\n").expect("edited");
    farm.machines.iter().for_each(|m| shows(m, "second"));
    fs::write(dir.join("root/etc/motd.new"), "third\n").expect("written");
    fs::rename(dir.join("root/etc/motd.new"), &motd).expect("renamed");
    shows(farm.n(2), "third");

    let clients = running.clients();
    assert_eq!(clients.len(), 2, "{clients:?}");
    for m in &farm.machines {
        m.sh("root", "umount /mnt/all /mnt/up /mnt/root /mnt/own");
    }
    running.stop();
}

fn without_hostname(sums: &str) -> Vec<&str> {
    let lines = sums.lines();
    lines.filter(|l| !l.ends_with("etc/hostname")).collect()
}
