//! Mounts that two nodes share: programs away read and write their files there, and see what programs at home see. What
//! only looks the same is not shared.

use armento_lab::{Lab, Link, Spec};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const ARMENTO: &str = env!("CARGO_BIN_EXE_armento");
/// Longest wait for any event.
const LONG: Duration = Duration::from_secs(60);
/// Of both nodes; and one whom n2 does not know.
const USERS: [(&str, u32, bool); 2] = [("alice", 4001, true), ("carol", 4003, false)];
/// A file system with the same mount in both nodes, a copy of another, and one that shows writes late.
const CONFIG: &str = "dfsa = [\"/data\", \"/other\", \"/memory\", \"/mfs\", \"/none\"]\ndfsa_relaxed = [\"/late\"]\n";

/// Programs of conformance that work on files; whether also where writes are sent when a file is closed.
const GUESTS: [(&str, bool); 10] = [
    ("files", true),
    ("holes", true),
    ("readers", true),
    ("posts", true),
    ("opens", false),
    ("locks", false),
    ("copying", false),
    ("descriptors", false),
    ("rights", false),
    ("closers", false),
];

struct Farm {
    name: String,
    _lab: Lab,
}

/// A block device of this machine, of an image that has no name any more: it goes with its last mount.
struct Disk {
    device: String,
    minor: u64,
}

impl Disk {
    fn of(image: &Path) -> Disk {
        let path = image.to_str().expect("plain");
        let device = tool("losetup", &["--find", "--show", path]);
        fs::remove_file(image).expect("it is there");
        let minor = device
            .trim_start_matches("/dev/loop")
            .parse()
            .expect("a number");
        Disk { device, minor }
    }
}

/// KERNEL: loop(4): a device in use is detached when that ends.
impl Drop for Disk {
    fn drop(&mut self) {
        tool("losetup", &["--detach", &self.device]);
    }
}

fn tool(name: &str, args: &[&str]) -> String {
    let out = Command::new(name).args(args).output();
    let out = out.unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(out.status.success(), "{name} {args:?}: {out:?}");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

fn image(name: &str, mib: u64) -> PathBuf {
    let name = format!("dfsa-{}-{name}", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let file = fs::File::create(&path).expect("a file");
    file.set_len(mib << 20).expect("room");
    let path_of = path.to_str().expect("plain");
    // Few inodes and a short journal: of a large one little is written.
    tool("mkfs.ext4", &["-q", "-N", "2048", "-J", "size=8", path_of]);
    path
}

impl Farm {
    fn up(what: &str) -> Option<Farm> {
        let root =
            fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0\t"));
        if !root {
            println!("skipped: {what} needs root (namespaces, mounts, control groups)");
            return None;
        }
        if !Path::new("/dev/loop-control").exists() {
            println!("skipped: {what} needs loop devices");
            return None;
        }
        let name = format!("f{}-{what}", std::process::id());
        let spec = Spec {
            name: name.clone(),
            nodes: 2,
            speeds: vec![1.0],
            link: Link::None,
            config: CONFIG.into(),
            exe: Some(ARMENTO.into()),
            ..Spec::default()
        };
        let _lab = Lab::up(spec).expect("a lab");
        let farm = Farm { name, _lab };
        farm.mount_all();
        for (name, uid, there) in USERS {
            let add = format!(
                "echo '{name}:x:{uid}:{uid}::/tmp:/bin/sh' >> /etc/passwd; echo '{name}:x:{uid}:' >> /etc/group"
            );
            farm.sh("n1", &add);
            if there {
                farm.sh("n2", &add);
            }
        }
        Some(farm)
    }

    fn mount_all(&self) {
        // On /data no write is posted, for lack of space; on the larger one they are.
        let (data, late, other) = (
            image("data", 256),
            image("late", 6 << 10),
            image("other", 64),
        );
        let copy = other.with_extension("copy");
        fs::copy(&other, &copy).expect("a copy");
        let [data, late, other, copy] = [data, late, other, copy].map(|path| Disk::of(&path));
        for (node, second) in [("n1", &other), ("n2", &copy)] {
            for (disk, at) in [(&data, "/data"), (second, "/other"), (&late, "/late")] {
                let minor = disk.minor;
                self.sh(
                    node,
                    &format!(
                        "mkdir -p {at}; [ -e /tmp/disk{minor} ] || mknod /tmp/disk{minor} b 7 {minor}; mount -t ext4 /tmp/disk{minor} {at}"
                    ),
                );
            }
            self.sh(node, "mkdir /memory; mount -t tmpfs memory /memory");
        }
        self.sh(
            "n1",
            "chmod 1777 /data /late; echo shared | tee /data/sign > /late/sign",
        );
        assert_eq!(
            self.sh("n2", "cat /data/sign /late/sign"),
            "shared\nshared\n"
        );
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

    fn sh_as(&self, user: Option<&str>, node: &str, script: &str) -> String {
        let out = self.run_as(user, node, script);
        assert!(out.status.success(), "{node}: {script}: {out:?}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn sh(&self, node: &str, script: &str) -> String {
        self.sh_as(None, node, script)
    }

    /// Runs a perl program of n1 on n2. Its output, and how many calls home answered.
    fn away(&self, user: Option<&str>, program: &str) -> (String, u64) {
        let list = format!("/tmp/summary-{}", user.unwrap_or("root"));
        let run =
            format!("rm -f {list}; ARMENTO_SUMMARY={list} armento run --on n2 perl -e '{program}'");
        let out = self.sh_as(user, "n1", &run);
        let mut did = String::new();
        until("the summary", || {
            did = String::from_utf8_lossy(&self.run_as(None, "n1", &format!("cat {list}")).stdout)
                .into_owned();
            did.ends_with('\n')
        });
        let did: Value = serde_json::from_str(&did).expect("a line of JSON");
        assert_eq!(did["moves"], 1, "{did}");
        (out, did["forwarded"].as_u64().expect("a count"))
    }

    /// What is known of a mount and n2.
    fn verdict(&self, mount: &str) -> (bool, String) {
        let all: Value = serde_json::from_str(&self.sh("n1", "armento dfsa --json")).expect("JSON");
        let mounts = all["mounts"].as_array().expect("mounts");
        let m = mounts
            .iter()
            .find(|m| m["path"] == mount)
            .expect("declared");
        let n2 = m["nodes"].as_array().expect("nodes");
        let n2 = n2.iter().find(|n| n["node"] == "n2");
        let n2 = n2.unwrap_or_else(|| panic!("{mount} was not looked at: {m}"));
        let why = n2["why"].as_str().expect("text").to_owned();
        (n2["direct"] == true, why)
    }
}

/// A failed test prints the logs.
impl Drop for Farm {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for node in ["n1", "n2"] {
            let said = self.run_as(
                None,
                node,
                "tail -n 40 /var/log/armento.log /var/lib/armento/hosts/*.log; armento dfsa; cat /proc/mounts",
            );
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            println!("{node} of {}:\n{said}", self.name);
        }
    }
}

/// A program makes so many small writes …
const WRITES: u64 = 4000;
/// … and home answers so many calls at most, or at least, where they are made directly, or through home.
const FEW: u64 = 1000;
fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let limit = Instant::now() + LONG;
    while !happened() {
        assert!(Instant::now() < limit, "{what} did not happen");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn files_of_shared_mounts_are_opened_where_the_program_is() {
    let Some(farm) = Farm::up("dfsa") else { return };
    much_is_written_and_read(&farm);
    only_what_is_the_same_is_shared(&farm);
    users_have_their_own_rights(&farm);
    two_writers_append(&farm);
    posted_writes_are_not_overtaken(&farm);
    offsets_are_the_same_everywhere(&farm);
    guests_behave_as_natively(&farm);
    mounts_may_change(&farm);
}

fn much_is_written_and_read(farm: &Farm) {
    let write = r#"sysopen(F, "/data/big", 0102, 0644) or die $!; for $i (1..4096) { $b = pack("N*", map { $i * 7919 + $_ } 1..4096); syswrite(F, $b) == 16384 or die $! } print sysseek(F, 0, 1), "\n""#;
    let (out, forwarded) = farm.away(None, write);
    assert_eq!(out, "67108864\n");
    assert!(forwarded < FEW, "{forwarded}");
    let written = farm.sh("n1", "sha256sum < /data/big");
    assert_eq!(farm.sh("n2", "sha256sum < /data/big"), written);
    let read = r#"use Digest::SHA; open(F, "<:raw", "/data/big") or die $!; print Digest::SHA->new(256)->addfile(*F)->hexdigest, "  -\n""#;
    let (out, forwarded) = farm.away(None, read);
    assert_eq!(out, written);
    assert!(forwarded < FEW, "{forwarded}");
}

fn only_what_is_the_same_is_shared(farm: &Farm) {
    let check = |mount: &str, direct: bool, part: &str| {
        let (is, why) = farm.verdict(mount);
        assert!(is == direct && why.contains(part), "{mount}: {is} {why}");
    };
    check("/data", true, "");
    check("/late", true, "");
    // The same volume by every number, and with other bytes from now on.
    let ids = |node: &str| farm.sh(node, "stat -f -c %i /other; stat -c %i /other");
    assert_eq!(ids("n1"), ids("n2"));
    check("/other", false, "does not find there what this node wrote");
    check("/memory", false, "does not find there what this node wrote");
    check("/mfs", false, "FUSE");
    check("/none", false, "nothing is mounted at /none");
    for mount in ["/other", "/memory"] {
        let write = format!(
            r#"open(F, ">", "{mount}/f") or die $!; syswrite(F, "home") for 1..{WRITES}; close F; print -s "{mount}/f""#
        );
        let (out, forwarded) = farm.away(None, &write);
        assert_eq!(out, (4 * WRITES).to_string());
        // In memory there is enough space for posted writes.
        assert!(
            forwarded > FEW || mount == "/memory",
            "{mount}: {forwarded}"
        );
        let size = farm.sh("n1", &format!("stat -c %s {mount}/f"));
        assert_eq!(size.trim(), out);
        let there = farm.run_as(None, "n2", &format!("ls {mount}/f"));
        assert!(!there.status.success(), "{there:?}");
    }
    let left = "find /data/.armento-dfsa /late/.armento-dfsa /other/.armento-dfsa /memory/.armento-dfsa -type f 2>/dev/null | wc -l";
    for node in ["n1", "n2"] {
        until("the proofs are removed", || farm.sh(node, left) == "0\n");
    }
    let shown = farm.sh("n1", "armento dfsa");
    assert!(
        shown.contains("through home") && shown.contains("direct"),
        "{shown}"
    );
}

fn users_have_their_own_rights(farm: &Farm) {
    farm.sh("n1", "echo secret > /data/roots; chmod 600 /data/roots");
    let own = |name: &str| {
        let program = format!(
            r#"umask 077; open(F, ">", "/data/{name}") or die $!; syswrite(F, "x") for 1..{WRITES}; close F; open(F, "<", "/data/{name}") or die $!; print -s F; open(F, "<", "/data/roots") and die "opened"; print " $!""#
        );
        farm.away(Some(name), &program)
    };
    let want = format!("{WRITES} Permission denied");
    let (out, forwarded) = own("alice");
    assert!(out == want && forwarded < FEW, "{out} {forwarded}");
    let stat = farm.sh("n2", "stat -c '%U %a %s' /data/alice");
    assert_eq!(stat, format!("alice 600 {WRITES}\n"));
    // Nobody of n2 is carol: her programs use the files through home.
    let (out, forwarded) = own("carol");
    assert!(out == want && forwarded > WRITES, "{out} {forwarded}");
    let (direct, why) = farm.verdict("/data");
    assert!(!direct && why.contains("no user with the number"), "{why}");
}

fn two_writers_append(farm: &Farm) {
    let line = |who: &str| {
        format!(
            r#"sysopen(F, "/data/log", 02101, 0644) or die $!; for $i (1..3000) {{ syswrite(F, "{who} $i " . ("{who}" x 50) . "\n") }}"#
        )
    };
    farm.sh(
        "n1",
        &format!(
            "cat > /tmp/append.pl <<'EOF'\n{}\nEOF\nperl /tmp/append.pl & armento run --on n2 perl -e '{}' && wait",
            line("h"),
            line("a")
        ),
    );
    let log = farm.sh("n1", "cat /data/log");
    for who in ["h", "a"] {
        let of = log.lines().filter(|l| l.starts_with(who));
        let want = (1..=3000).map(|i| format!("{who} {i} {}", who.repeat(50)));
        assert!(of.eq(want), "lines of {who} are lost or torn");
    }
    assert_eq!(log.lines().count(), 6000);
}

/// A write by a descriptor that is used through home is posted, and comes before a later one by the file itself.
fn posted_writes_are_not_overtaken(farm: &Farm) {
    let both = r#"sysopen(A, "/late/both", 02102, 0644) or die $!; open(B, ">&", \*A) or die $!; sysopen(C, "/late/both", 02002) or die $!; for $i (1..300) { syswrite(A, "p$i,"); syswrite(C, "d$i,") } sysopen(R, "/late/both", 0) or die $!; sysread(R, $b, 100000); print $b eq join("", map { "p$_,d$_," } 1..300) ? "in order" : "torn: $b""#;
    let (out, _) = farm.away(None, both);
    assert_eq!(out, "in order");
}

/// Over forks, duplicates, programs and moves.
fn offsets_are_the_same_everywhere(farm: &Farm) {
    let program = r#"$^F = 99; $| = 1; $dir = shift; sysopen(F, "$dir/offsets", 01102, 0644) or die $!;
sub at { sysseek(F, 0, 1) + 0 }
for $round (1..8) {
  syswrite(F, "round $round,"); push @at, at();
  if ($pid = fork) { waitpid $pid, 0 } else { syswrite(F, "child $round,"); exit 0 }
  push @at, at();
  open(D, ">&", \*F) or die $!; syswrite(D, "dup $round,"); close D; push @at, at();
  system("printf \"shell $round,\" >&" . fileno(F)); push @at, at();
  sysopen(G, "$dir/offsets", 0) or die $!; sysseek(G, 5, 0); sysread(G, $b, 4);
  open(P, "-|", "cat <&" . fileno(G)) or die $!; { local $/; $rest = <P>; } close P;
  push @at, length($rest), sysseek(G, 0, 1) + 0; close G;
  for (1..200000) { $x += $_ }
}
sysseek(F, 0, 0); sysread(F, $b, 100000); print "@at\n$b\n";"#;
    farm.sh(
        "n1",
        &format!("cat > /tmp/offsets.pl <<'EOF'\n{program}\nEOF\nmkdir /data/native /data/away /data/storm /late/moved /late/storm"),
    );
    let native = farm.sh("n1", "perl /tmp/offsets.pl /data/native");
    assert!(
        native.contains("round 8,child 8,dup 8,shell 8,"),
        "{native}"
    );
    for (how, dir) in [
        ("--on n2", "/data/away"),
        ("--storm 20", "/data/storm"),
        ("--on n2", "/late/moved"),
        ("--storm 20", "/late/storm"),
    ] {
        let run = format!("armento run {how} perl /tmp/offsets.pl {dir}");
        assert_eq!(farm.sh("n1", &run), native, "{how} {dir}");
    }
}

/// The programs of conformance that work on files, in a shared directory.
fn guests_behave_as_natively(farm: &Farm) {
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests");
    for (name, relaxed) in GUESTS {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dfsa-guest-{name}"));
        let (from, to) = (guests.join(format!("{name}.c")), program.to_string_lossy());
        let from = from.to_string_lossy();
        let flags = [
            "-std=gnu11",
            "-O1",
            "-pthread",
            "-w",
            "-o",
            &to,
            &from,
            "-lm",
            "-lrt",
        ];
        tool("gcc", &flags);
        for at in ["/data", "/late"]
            .into_iter()
            .take(1 + usize::from(relaxed))
        {
            let run = |how: &str, dir: &str| {
                let dir = format!("{at}/{name}-{dir}");
                let out = farm.run_as(
                    None,
                    "n1",
                    &format!("rm -rf {dir}; mkdir {dir}; cd {dir}; {how} {to} 2>&1"),
                );
                let text = String::from_utf8_lossy(&out.stdout).into_owned();
                (out.status.code(), text)
            };
            let native = run("", "native");
            // Some end with a number of their own.
            assert!(native.0.is_some() && !native.1.is_empty(), "{name}");
            for (how, dir) in [("--on n2", "away"), ("--storm 20", "storm")] {
                // A gap of conformance (`known_gaps.rs`): memory that it writes from home, whatever file system it is on.
                if (name, dir) == ("copying", "storm") {
                    continue;
                }
                let how = format!("armento run {how}");
                assert_eq!(run(&how, dir), native, "{name} {how} in {at}");
            }
        }
        fs::remove_file(&program).expect("it is there");
    }
}

/// What was known of a mount is void when mounts change, and found out anew.
fn mounts_may_change(farm: &Farm) {
    let waits = r#"$| = 1; print "there\n"; while (!-e "/tmp/go") { select undef, undef, undef, 0.05 } for $n (0, 1) { sysopen(F, "/data/change$n", 0102, 0644) or die $!; syswrite(F, "x"); close F }"#;
    farm.sh(
        "n1",
        &format!("rm -f /tmp/go; ARMENTO_SUMMARY=/tmp/changed setsid armento run --on n2 perl -e '{waits}' > /tmp/there 2>&1 < /dev/null &"),
    );
    until("it is there", || {
        farm.sh("n1", "cat /tmp/there") == "there\n"
    });
    // Another file system takes the place of the shared one.
    farm.sh("n1", "mount -t tmpfs over /data; touch /tmp/go");
    until("its end", || {
        farm.run_as(None, "n1", "[ -s /tmp/changed ]")
            .status
            .success()
    });
    let did: Value = serde_json::from_str(&farm.sh("n1", "tail -n 1 /tmp/changed")).expect("JSON");
    assert_eq!(did["files"]["direct"], 0, "{did}");
    assert_eq!(
        farm.sh("n1", "ls /data; umount /data"),
        "change0\nchange1\n"
    );
}
