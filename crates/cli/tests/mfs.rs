//! MFS between two nodes: whose files are read and written with which rights, what is exported, and that daemons and nodes
//! may be lost and come back.

use armento_lab::{Lab, Link, Spec};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const ARMENTO: &str = env!("CARGO_BIN_EXE_armento");
/// Longest wait for any event.
const LONG: Duration = Duration::from_secs(60);
/// A node that is silent for so long is lost, milliseconds.
const FREEZE_MS: u64 = 3000;
/// … and its callers have an error by then, on a loaded machine.
const LOST: Duration = Duration::from_secs(20);
/// Users of both nodes, and one whom n2 does not know; dave is another person there.
const USERS: [(&str, u32, Option<&str>); 4] = [
    ("alice", 4001, Some("alice")),
    ("bob", 4002, Some("bob")),
    ("carol", 4003, None),
    ("dave", 4004, Some("david")),
];

struct Farm {
    name: String,
    _lab: Lab,
}

impl Farm {
    fn up(what: &str) -> Option<Farm> {
        let root =
            fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0\t"));
        if !root {
            println!("skipped: {what} needs root (namespaces, mounts, control groups)");
            return None;
        }
        if !Path::new("/dev/fuse").exists() {
            println!("skipped: {what} needs /dev/fuse");
            return None;
        }
        let name = format!("f{}-{what}", std::process::id());
        let spec = Spec {
            name: name.clone(),
            nodes: 2,
            speeds: vec![1.0],
            link: Link::None,
            config: format!("freeze_ms = {FREEZE_MS}\ndead_ms = 30000\n"),
            exe: Some(ARMENTO.into()),
            ..Spec::default()
        };
        let _lab = Lab::up(spec).expect("a lab");
        let farm = Farm { name, _lab };
        for (name, uid, there) in USERS {
            for (node, name) in [("n1", Some(name)), ("n2", there)] {
                let Some(name) = name else { continue };
                let user = format!(
                    "echo '{name}:x:{uid}:{uid}::/tmp:/bin/sh' >> /etc/passwd; echo '{name}:x:{uid}:' >> /etc/group"
                );
                farm.sh(node, &user);
            }
        }
        for node in ["n1", "n2"] {
            farm.mounted(node);
        }
        Some(farm)
    }

    fn run(&self, node: &str, script: &str) -> Output {
        self.run_as(None, node, script)
    }

    fn run_as(&self, user: Option<&str>, node: &str, script: &str) -> Output {
        let user = user.map(|user| ["--user", user]);
        Command::new(ARMENTO)
            .args(["lab", "exec", "--name", &self.name])
            .args(user.iter().flatten())
            .args([node, "--", "sh", "-c", script])
            .stdin(Stdio::null())
            .output()
            .expect("armento runs")
    }

    fn sh(&self, node: &str, script: &str) -> String {
        let out = self.run(node, script);
        assert!(out.status.success(), "{node}: {script}: {out:?}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn sh_as(&self, user: &str, node: &str, script: &str) -> String {
        let out = self.run_as(Some(user), node, script);
        assert!(out.status.success(), "{user}: {node}: {script}: {out:?}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// The script fails, and says so.
    fn fails(&self, user: Option<&str>, node: &str, script: &str, why: &str) {
        let out = self.run_as(user, node, script);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success(), "{script}: {out:?}");
        assert!(said.contains(why), "{script}: {said}");
    }

    fn stat(&self, node: &str) -> Value {
        let out = self.run(node, "armento mfs stat --json");
        serde_json::from_slice(&out.stdout).unwrap_or_default()
    }

    fn mounted(&self, node: &str) {
        until("the mount", || self.stat(node)["mounted"] == true);
    }

    fn start_daemon(&self, node: &str, before: &str) {
        let start = format!("setsid {before} armento node >>/tmp/node.log 2>&1 </dev/null &");
        self.sh(node, &start);
        until("the daemon", || {
            self.run(node, "armento nodes").status.success()
        });
        let alive = || {
            self.sh(node, "armento nodes --json")
                .matches("\"alive\"")
                .count()
                == 2
        };
        until("both nodes", alive);
    }

    /// Kills the daemon alone.
    fn kill_daemon(&self, node: &str) {
        let kill = "p=$(cat /var/lib/armento/lock); kill -9 $p; while [ -d /proc/$p/task/$p ] && ! grep -q '^State:.Z' /proc/$p/status; do sleep 0.01; done";
        self.sh(node, kill);
    }

    fn pids(&self, node: &str, verb: &str) -> Vec<String> {
        let all = self.run(node, &format!("pgrep -f '^armento {verb}'"));
        let all = String::from_utf8_lossy(&all.stdout).into_owned();
        all.lines().map(str::to_owned).collect()
    }
}

/// A failed test prints the logs.
impl Drop for Farm {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for node in ["n1", "n2"] {
            let said = self.run(
                node,
                "tail -n 40 /var/log/armento.log /tmp/node.log /var/lib/armento/mfs/*.log; armento mfs stat; ps -ef",
            );
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            println!("{node} of {}:\n{said}", self.name);
        }
    }
}

fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let limit = Instant::now() + LONG;
    while !happened() {
        assert!(Instant::now() < limit, "{what} did not happen");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn files_of_another_node_are_read_and_written() {
    let Some(farm) = Farm::up("mfs") else { return };
    reads_and_writes(&farm);
    users_have_their_own_rights(&farm);
    symbolic_names_follow_the_process(&farm);
    daemons_restart_under_open_files(&farm);
    lost_nodes_are_errors_and_come_back(&farm);
    exports_are_kept(&farm);
    switched_off_and_on(&farm);
    mounts_are_seen_outside_of_the_service(&farm);
    leaving_takes_all_away(&farm);
}

fn reads_and_writes(farm: &Farm) {
    let on_n2 = |script: &str| farm.sh("n2", script);
    assert_eq!(farm.sh("n1", "cat /mfs/n2/etc/hostname"), "n2\n");
    assert_eq!(on_n2("cat /mfs/n1/etc/hostname"), "n1\n");
    assert_eq!(farm.sh("n1", "cat /mfs/n1/etc/hostname"), "n1\n");
    farm.sh(
        "n1",
        "head -c 9000001 /dev/urandom > /tmp/here; cp /tmp/here /mfs/n2/tmp/there; mkdir /mfs/n2/tmp/d; echo x > /mfs/n2/tmp/d/f; mv /mfs/n2/tmp/d/f /mfs/n2/tmp/d/g; ln -s g /mfs/n2/tmp/d/l",
    );
    let sum = |node: &str, file: &str| {
        let sum = farm.sh(node, &format!("sha256sum {file}"));
        sum.split(' ').next().map(str::to_owned)
    };
    let here = sum("n1", "/tmp/here");
    assert_eq!(sum("n2", "/tmp/there"), here);
    assert_eq!(sum("n1", "/mfs/n2/tmp/there"), here);
    assert_eq!(
        on_n2("cd /tmp/d; ls; cat g l; stat -c '%U %G' g"),
        "g\nl\nx\nx\nroot root\n"
    );
    farm.sh("n1", "rm -r /mfs/n2/tmp/d /mfs/n2/tmp/there");
    assert!(!farm.run("n2", "ls /tmp/d").status.success());
    // What the other node changes is seen at once.
    for i in 0..20 {
        on_n2(&format!("echo {i} > /tmp/changing"));
        let seen = farm.sh("n1", "cat /mfs/n2/tmp/changing");
        assert_eq!(seen, format!("{i}\n"));
    }
    farm.fails(None, "n1", "ls /mfs/n9", "No such file");
    farm.fails(None, "n1", "mkdir /mfs/n9", "mkdir");
    let stat = farm.stat("n1");
    assert_eq!(stat["schema"], "armento.mfs/1");
    let streams = stat["streams"].as_array().expect("streams");
    let to_n2 = streams.iter().find(|s| s["node"] == "n2").expect("to n2");
    assert!(to_n2["connected"] == true && to_n2["uid"] == 0, "{to_n2}");
    assert!(
        to_n2["written_bytes"].as_u64() >= Some(9_000_001),
        "{to_n2}"
    );
    let shown = farm.sh("n1", "armento mfs stat");
    assert!(shown.contains("mounted at /mfs"), "{shown}");
}

fn users_have_their_own_rights(farm: &Farm) {
    farm.sh_as("alice", "n2", "umask 077; echo secret > /tmp/hers");
    let read = "cat /mfs/n2/tmp/hers";
    assert_eq!(farm.sh_as("alice", "n1", read), "secret\n");
    farm.fails(Some("bob"), "n1", read, "Permission denied");
    farm.fails(Some("carol"), "n1", read, "Permission denied");
    farm.fails(Some("dave"), "n1", "ls /mfs/n2/tmp", "Permission denied");
    farm.sh_as(
        "alice",
        "n1",
        "umask 027; echo new > /mfs/n2/tmp/made; mkdir /mfs/n2/tmp/dir",
    );
    assert_eq!(
        farm.sh("n2", "stat -c '%U %G %a' /tmp/made /tmp/dir"),
        "alice alice 640\nalice alice 750\n"
    );
    farm.fails(
        Some("bob"),
        "n1",
        "echo x >> /mfs/n2/tmp/made",
        "ermission denied",
    );
    farm.fails(Some("bob"), "n1", "rm -f /mfs/n2/tmp/made", "");
    farm.fails(
        Some("bob"),
        "n1",
        "touch /mfs/n2/etc/x",
        "Permission denied",
    );
    let servers = farm.sh(
        "n2",
        "ps -e -o user:20=,args= | sed -n 's/ *armento mfs-serve$//p' | sort -u",
    );
    for user in ["alice", "bob", "root"] {
        assert!(servers.lines().any(|l| l == user), "{servers}");
    }
    // Nobody sees the streams of others.
    let of = |user| farm.sh_as(user, "n1", "armento mfs stat --json");
    assert!(of("alice").contains("4001") && !of("bob").contains("4001"));
    farm.fails(Some("bob"), "n1", "armento mfs off", "only root");
}

fn symbolic_names_follow_the_process(farm: &Farm) {
    for name in ["here", "home", "lastexec", "selected"] {
        let name = format!("cat /mfs/{name}/etc/hostname");
        assert_eq!(farm.sh("n1", &name), "n1\n");
        assert_eq!(farm.sh("n2", &name), "n2\n");
    }
    let away = |script: &str| farm.sh("n1", &format!("armento run --on n2 {script}"));
    assert_eq!(away("cat /mfs/here/etc/hostname"), "n2\n");
    assert_eq!(away("cat /mfs/home/etc/hostname"), "n1\n");
    // The shell is at n2 when it becomes cat, which then is where it likes.
    let execs = "sh -c 'exec cat /mfs/lastexec/etc/hostname'";
    assert_eq!(away(execs), "n2\n");
    let select = "armento mfs select n2; cat /mfs/selected/etc/hostname; sh -c 'cat /mfs/selected/etc/hostname'";
    assert_eq!(farm.sh("n1", select), "n2\nn2\n");
    assert_eq!(farm.sh("n1", "cat /mfs/selected/etc/hostname"), "n1\n");
    farm.fails(None, "n1", "armento mfs select n9", "no node `n9`");
    farm.fails(
        Some("bob"),
        "n1",
        "armento mfs select n2 1",
        "another user's",
    );
}

/// Lines are written to an open file of n2 while daemons are killed and started again.
fn daemons_restart_under_open_files(farm: &Farm) {
    let writes = "rm -f /tmp/stop; (exec 3>/mfs/n2/tmp/log; i=0; while [ ! -e /tmp/stop ]; do i=$((i+1)); echo $i >&3 || exit; done; echo $i > /tmp/wrote) >/tmp/writer 2>&1 &";
    farm.sh("n1", writes);
    let lines = || {
        farm.sh("n2", "wc -l < /tmp/log")
            .trim()
            .parse::<u64>()
            .unwrap_or(0)
    };
    let grows = || {
        let before = lines();
        until("further lines", || lines() > before);
    };
    grows();
    let (mount, servers) = (farm.pids("n1", "mfs-mount"), farm.pids("n2", "mfs-serve"));
    assert_eq!(mount.len(), 1, "{mount:?}");
    for node in ["n1", "n2"] {
        farm.kill_daemon(node);
        grows();
        // A new stream waits for the daemon.
        farm.start_daemon(node, "");
        grows();
        assert_eq!(farm.sh("n1", "cat /mfs/n2/etc/hostname"), "n2\n");
    }
    assert_eq!(farm.pids("n1", "mfs-mount"), mount);
    let after = farm.pids("n2", "mfs-serve");
    assert!(
        after.iter().any(|p| servers.contains(p)),
        "{servers:?} {after:?}"
    );
    farm.sh("n1", "touch /tmp/stop");
    until("its end", || {
        farm.run("n1", "test -s /tmp/wrote").status.success()
    });
    let count = farm.sh("n1", "cat /tmp/wrote; cat /tmp/writer");
    assert_eq!(
        farm.sh("n2", "wc -l < /tmp/log; tail -n 1 /tmp/log"),
        format!("{count}{count}")
    );
    farm.sh("n2", "seq $(wc -l < /tmp/log) | cmp - /tmp/log");
}

fn lost_nodes_are_errors_and_come_back(farm: &Farm) {
    let read = "cat /mfs/n2/etc/hostname";
    let is_lost = |what: &str| {
        let begun = Instant::now();
        let out = farm.run("n1", read);
        assert!(!out.status.success(), "{what}: {out:?}");
        assert!(begun.elapsed() < LOST, "{what}: {:?}", begun.elapsed());
        println!("{what}: an error after {:?}", begun.elapsed());
    };
    let is_back = || {
        until("n2 is back", || farm.run("n1", read).stdout == b"n2\n");
    };
    // Silent, as behind a cut cable.
    farm.sh("n2", "kill -STOP $(pgrep -f '^armento (node|mfs-serve)')");
    is_lost("silent");
    // The list of nodes does not wait for it.
    assert!(farm.sh("n1", "ls /mfs").contains("n1"));
    farm.sh("n2", "kill -CONT $(pgrep -f '^armento (node|mfs-serve)')");
    is_back();
    // Dead.
    farm.kill_daemon("n2");
    farm.sh("n2", "kill -9 $(pgrep -f '^armento mfs-serve')");
    is_lost("dead");
    farm.start_daemon("n2", "");
    is_back();
}

fn exports_are_kept(farm: &Farm) {
    let export = "[[mfs_export]]\npath = \"/tmp/pub\"\nread_only = true\nhidden = [\"/tmp/pub/hidden\"]\n\
        [[mfs_export]]\npath = \"/tmp/rw\"\n";
    farm.sh(
        "n2",
        &format!(
            "mkdir -p /tmp/pub/hidden /tmp/rw; chmod 777 /tmp/pub /tmp/rw; echo p > /tmp/pub/f; echo h > /tmp/pub/hidden/f; ln -s /etc /tmp/rw/etc; \
             cp /etc/armento/config.toml /tmp/config; printf '{}' >> /etc/armento/config.toml; armento farm reload",
            export.replace('\n', "\\n")
        ),
    );
    until("what is exported", || {
        !farm.run("n1", "ls /mfs/n2/etc").status.success()
            && farm.run("n1", "ls /mfs/n2/tmp/pub").status.success()
    });
    assert_eq!(farm.sh_as("alice", "n1", "cat /mfs/n2/tmp/pub/f"), "p\n");
    let read_only = "Read-only file system";
    farm.fails(Some("alice"), "n1", "touch /mfs/n2/tmp/pub/x", read_only);
    farm.fails(None, "n1", "echo x > /mfs/n2/tmp/pub/f", read_only);
    farm.fails(None, "n1", "cat /mfs/n2/tmp/pub/hidden/f", "No such file");
    farm.fails(None, "n1", "cat /mfs/n2/tmp/hers", "No such file");
    farm.sh_as("alice", "n1", "echo y > /mfs/n2/tmp/rw/x");
    assert_eq!(farm.sh("n2", "cat /tmp/rw/x"), "y\n");
    // No way out by a link, nor to the keys.
    let link = farm.run("n1", "cat /mfs/n2/tmp/rw/etc/shadow");
    assert!(!link.status.success() || farm.sh("n1", "cat /etc/shadow").as_bytes() == link.stdout);
    farm.sh(
        "n2",
        "cp /tmp/config /etc/armento/config.toml; armento farm reload",
    );
    until("all is exported", || {
        farm.run("n1", "cat /mfs/n2/etc/hostname").status.success()
    });
    for hidden in ["var/lib/armento", "mfs", "proc"] {
        farm.fails(None, "n1", &format!("ls /mfs/n2/{hidden}/"), "");
    }
}

fn switched_off_and_on(farm: &Farm) {
    farm.sh("n1", "armento mfs off");
    assert_eq!(farm.sh("n1", "ls /mfs"), "");
    assert_eq!(farm.pids("n1", "mfs-mount").len(), 0);
    // It serves nothing either.
    farm.fails(None, "n2", "cat /mfs/n1/etc/hostname", "");
    farm.kill_daemon("n1");
    farm.start_daemon("n1", "");
    assert_eq!(farm.stat("n1")["on"], false);
    farm.sh("n1", "touch /mfs/in-the-way");
    farm.fails(None, "n1", "armento mfs on", "not empty");
    let doctor = farm.run("n1", "armento doctor");
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(
        doctor.contains("limited  mfs") && doctor.contains("not empty"),
        "{doctor}"
    );
    farm.sh("n1", "rm /mfs/in-the-way; armento mfs on");
    assert_eq!(farm.sh("n1", "cat /mfs/n2/etc/hostname"), "n2\n");
    until("n1 serves again", || {
        farm.run("n2", "cat /mfs/n1/etc/hostname").stdout == b"n1\n"
    });
    // A mount whose process was killed is taken away, and there is another.
    farm.sh("n1", "kill -9 $(pgrep -f '^armento mfs-mount')");
    until("another mount", || {
        farm.run("n1", "cat /mfs/n2/etc/hostname").stdout == b"n2\n"
    });
    assert_eq!(farm.sh("n1", "grep -c ' /mfs ' /proc/mounts"), "1\n");
}

/// As a service, whose mounts nobody else sees, and who sees other files.
fn mounts_are_seen_outside_of_the_service(farm: &Farm) {
    farm.sh("n1", "armento mfs off");
    farm.kill_daemon("n1");
    farm.start_daemon(
        "n1",
        "unshare --mount --propagation slave sh -c 'mount -t tmpfs none /srv; exec \"$@\"' sh",
    );
    farm.sh(
        "n1",
        "mkdir -p /srv; echo seen > /srv/mfs-test; armento mfs on",
    );
    assert_eq!(farm.sh("n1", "cat /mfs/n2/etc/hostname"), "n2\n");
    assert_eq!(farm.sh("n2", "cat /mfs/n1/srv/mfs-test"), "seen\n");
}

fn leaving_takes_all_away(farm: &Farm) {
    farm.sh("n2", "armento leave");
    until("its end", || farm.pids("n2", "mfs-").is_empty());
    assert_eq!(
        farm.sh("n2", "ls /mfs; ls -d /var/lib/armento/mfs || true"),
        ""
    );
    assert!(
        farm.run("n2", "grep ' /mfs ' /proc/mounts")
            .stdout
            .is_empty()
    );
    until("n1 forgets it", || !farm.sh("n1", "ls /mfs").contains("n2"));
    farm.fails(None, "n1", "ls /mfs/n2", "No such file");
    // Also while no daemon runs.
    farm.sh("n1", "cat /mfs/n1/etc/hostname");
    farm.kill_daemon("n1");
    assert!(!farm.pids("n1", "mfs-mount").is_empty());
    farm.sh("n1", "armento leave");
    until("their end", || farm.pids("n1", "mfs-").is_empty());
    assert!(
        farm.run("n1", "grep ' /mfs ' /proc/mounts")
            .stdout
            .is_empty()
    );
}
