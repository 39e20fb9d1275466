//! A node with Debian 12's own kernel 6.1, in an emulated machine (QEMU without KVM): programs move there and back.
//!
//! ```text
//!   n1 ══ switch ══ n2: eth0 ─ br1 ─ tap0 ══ old, a virtual machine that is a process of n2
//!           ║
//!   n3 ═════╝
//! ```
//!
//! All of it lives in the lab's namespaces, and ends with them. Programs go on when the test has seen where they are:
//! they compute until a file is there, their next gate.

use crate::lab::{self, Farm, until, within};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// Sources of the emulated machine, and the directory for what is built from them.
const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines");
const BUILD: &str = env!("CARGO_TARGET_TMPDIR");
const TOOLS: &str = "qemu-system-x86_64 busybox cpio gcc perl gzip ldd";
/// An emulated processor on a busy machine takes its time to boot.
const BOOT: Duration = Duration::from_secs(240);
/// Control groups v2 on the old node; settings for the guests of a tree.
const GROUPS: &str = "/sys/fs/cgroup";
const WEIGHT: u64 = 50;
const MEM_KIB: u64 = 200_000;
/// Directory of the moved programs on n1 and on the old node.
const MOVED: &str = "/opt/moved";

/// The files that the emulated machine boots from.
struct Parts {
    kernel: PathBuf,
    initrd: PathBuf,
    threads: PathBuf,
}

impl Parts {
    /// `Err`: what is missing.
    fn make() -> Result<Parts, String> {
        let ask = format!(
            "for t in {TOOLS}; do command -v $t >/dev/null || {{ echo $t; exit 1; }}; done; \
             test -e /dev/net/tun || {{ echo /dev/net/tun; exit 1; }}"
        );
        let asked = tool(Command::new("sh").args(["-c", &ask]));
        if !asked.status.success() {
            return Err(String::from_utf8_lossy(&asked.stdout).trim().to_owned());
        }
        let debian = Path::new(BUILD).with_file_name("linux-cloud-amd64");
        let missing = || "Debian 12's kernel (scripts/kernel.sh)".to_owned();
        let kernel = of_6_1(&debian.join("boot"), "vmlinuz-6.1.").ok_or_else(missing)?;
        let modules = of_6_1(&debian.join("lib/modules"), "6.1.").ok_or_else(missing)?;
        let threads = Path::new(BUILD).join("threads");
        let initrd = Path::new(BUILD).join("old.initrd");
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-pthread", "-o"]).arg(&threads);
        works(gcc.arg(format!("{HERE}/threads.c")).arg("-lm"));
        let mut pack = Command::new("sh");
        pack.arg(format!("{HERE}/initramfs.sh")).arg(&initrd);
        pack.arg(modules).arg(env!("CARGO_BIN_EXE_armento"));
        works(pack.arg(&threads).arg(format!("{HERE}/files.pl")));
        Ok(Parts {
            kernel,
            initrd,
            threads,
        })
    }
}

fn of_6_1(dir: &Path, prefix: &str) -> Option<PathBuf> {
    let all = fs::read_dir(dir).ok()?.flatten();
    let mut named = all.filter(|e| e.file_name().to_string_lossy().starts_with(prefix));
    named.next().map(|e| e.path())
}

fn tool(c: &mut Command) -> Output {
    c.output().unwrap_or_else(|e| panic!("{c:?}: {e}"))
}

fn works(c: &mut Command) {
    let out = tool(c);
    assert!(out.status.success(), "{c:?}: {out:?}");
}

/// Copies a file of this machine into a node, which does not see all of them.
fn put(farm: &Farm, node: &str, from: &Path, to: &str) {
    let keep = format!("mkdir -p $(dirname {to}); cat > {to}; chmod 755 {to}");
    let file = File::open(from).unwrap_or_else(|e| panic!("{}: {e}", from.display()));
    let mut c = Command::new(env!("CARGO_BIN_EXE_armento"));
    c.args(["lab", "exec", "--name", &farm.name, node, "--"]);
    works(c.args(["sh", "-c", &keep]).stdin(file));
}

/// The emulated machine.
struct Old<'a> {
    farm: &'a Farm,
    addr: String,
}

impl Old<'_> {
    fn boot<'a>(farm: &'a Farm, parts: &Parts) -> Old<'a> {
        put(farm, "n2", &parts.kernel, "/tmp/vmlinuz");
        put(farm, "n2", &parts.initrd, "/tmp/initrd");
        for file in ["clock.pl", "door.pl"] {
            let from = Path::new(HERE).join(file);
            put(farm, "n2", &from, &format!("/tmp/{file}"));
        }
        let n2 = farm.sh("n2", "hostname -i | cut -d' ' -f1");
        let n2 = n2.trim();
        let (net, _) = n2.rsplit_once('.').expect("an address");
        let old = Old {
            farm,
            addr: format!("{net}.100"),
        };
        let cable = format!(
            "set -e; ip link add br1 address $(cat /sys/class/net/eth0/address) type bridge
             ip tuntap add tap0 mode tap; ip link set tap0 master br1; ip link set tap0 up
             ip link set br1 up; ip addr flush dev eth0; ip link set eth0 master br1; ip addr add {n2}/24 dev br1
             setsid perl /tmp/clock.pl >/tmp/clock.log 2>&1 </dev/null &"
        );
        farm.sh("n2", &cable);
        // Without MPX, which current processors lack: a program born on a machine with neither MPX nor AVX-512 has no
        // room for the registers of a machine with it, and is refused.
        let start = format!(
            "setsid qemu-system-x86_64 -accel tcg -cpu max,-mpx -smp 1 -m 768 -nographic -no-reboot \
             -kernel /tmp/vmlinuz -initrd /tmp/initrd \
             -append 'console=ttyS0 quiet panic=-1 NODE={} CLOCK={n2}' \
             -netdev tap,id=n,ifname=tap0,script=no,downscript=no \
             -device virtio-net-pci,netdev=n,romfile= >/tmp/boot.log 2>&1 </dev/null &",
            old.addr
        );
        farm.sh("n2", &start);
        let open = || {
            let said = farm.run("n2", "grep -q 'the door opens' /tmp/boot.log");
            said.status.success() && old.run("true").status.success()
        };
        let up = within(BOOT, open);
        assert!(
            up,
            "it did not boot: {}",
            farm.sh("n2", "cat /tmp/boot.log")
        );
        old
    }

    /// It becomes a node.
    fn join(&self) {
        let kernel = self.sh("uname -r");
        assert!(kernel.starts_with("6.1."), "{kernel}");
        let said = self.farm.sh("n1", "armento farm invite");
        let (_, join) = said.split_once("armento join ").expect("the join command");
        let join = join.lines().next().expect("a line");
        self.sh(&format!(
            "mkdir -p /etc/armento; \
             printf 'allow_root = true\nguest_cpu_weight = {WEIGHT}\nguest_mem_max_kib = {MEM_KIB}\n' > /etc/armento/config.toml; \
             armento join {join} --same-machine --name old --listen {}:7717; \
             echo '+cpu +memory' > {GROUPS}/cgroup.subtree_control; mkdir {GROUPS}/armento; \
             setsid sh -c 'echo $$ > {GROUPS}/armento/cgroup.procs; exec armento node' >/tmp/node.log 2>&1 </dev/null &",
            self.addr
        ));
        let nodes = || self.farm.sh("n1", "armento nodes --json");
        until("four nodes", || nodes().matches("\"alive\"").count() == 4);
    }

    fn run(&self, script: &str) -> Output {
        let door = format!("perl /tmp/door.pl {} <<'DOOR'\n{script}\nDOOR\n", self.addr);
        self.farm.run("n2", &door)
    }

    fn sh(&self, script: &str) -> String {
        let out = self.run(script);
        assert!(out.status.success(), "old: {script}: {out:?}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

impl Drop for Old<'_> {
    /// A failed test prints the console output, which ends with the lab.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let logs = [
                self.farm.run("n2", "tail -n 20 /tmp/boot.log"),
                self.run("tail -n 40 /tmp/node.log; dmesg | tail -n 20"),
                self.farm.run("n1", "tail -n 40 /tmp/node.log"),
            ];
            for log in logs {
                eprintln!("{}", String::from_utf8_lossy(&log.stdout));
            }
        }
    }
}

/// The nodes where programs are born.
enum Home<'a> {
    N1(&'a Farm),
    Old(&'a Old<'a>),
}

impl Home<'_> {
    fn run(&self, script: &str) -> Output {
        match self {
            Home::N1(farm) => farm.run("n1", script),
            Home::Old(old) => old.run(script),
        }
    }

    fn sh(&self, script: &str) -> String {
        match self {
            Home::N1(farm) => farm.sh("n1", script),
            Home::Old(old) => old.sh(script),
        }
    }

    fn name(&self) -> &str {
        match self {
            Home::N1(_) => "n1",
            Home::Old(_) => "old",
        }
    }

    /// Waits until programs can move from here to `node`, that is, until this daemon has its CPU features.
    fn wait_for_features_of(&self, node: &str) {
        until("a program that can go there", || {
            let pid = self.sh("armento run --portable --stay sleep 99 >/dev/null 2>&1 & echo $!");
            let went = self.run(&format!("armento migrate {} {node}", pid.trim()));
            self.run(&format!("kill {pid}"));
            went.status.success()
        });
    }

    fn place(&self, pid: &str) -> Option<String> {
        let said = self.sh("armento ps --json 2>/dev/null");
        let doc: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
        let procs = doc["procs"].as_array().cloned().unwrap_or_default();
        let pid: Option<u64> = pid.parse().ok();
        let it = procs.into_iter().find(|p| p["pid"].as_u64() == pid)?;
        it["place"].as_str().map(str::to_owned)
    }

    /// Moves a program born here to each of these nodes in turn, one gate further at each, and compares its output with
    /// a native run.
    fn tour(&self, word: &str, program: &str, tour: &[&str]) {
        let n = tour.len();
        let dir = format!("/tmp/{word}");
        let gates = format!("mkdir -p {dir}/native {dir}/gates; cd {dir}/native; touch $(seq {n})");
        let native = format!("{gates}; cd {dir}; {MOVED}/{program} native {n} > native.out");
        self.sh(&native.replace("FILE", "native.file"));
        let run = format!("armento run --portable --stay {MOVED}/{program} gates {n}");
        let start = format!(
            "cd {dir}; ({run} > out 2> err & echo $! > pid; wait $!; echo $? > code) >/dev/null 2>&1 </dev/null &
             until test -s pid; do sleep 0.1; done; cat pid"
        );
        let pid = self.sh(&start.replace("FILE", "file")).trim().to_owned();
        until("its line in ps", || self.place(&pid).is_some());
        for (i, node) in (1..).zip(tour) {
            let told = self.sh(&format!("armento migrate {pid} {node} 2>&1"));
            println!("{word}, gate {i}: {}", told.trim());
            let there = if *node == "home" { self.name() } else { node };
            until("its arrival", || self.place(&pid).as_deref() == Some(there));
            self.sh(&format!("touch {dir}/gates/{i}"));
            let further = format!("test $(wc -l < {dir}/out) = {i}");
            until("its next line", || self.run(&further).status.success());
        }
        until("its end", || {
            self.run(&format!("test -s {dir}/code")).status.success()
        });
        let end = self.sh(&format!("cd {dir}; cat code err"));
        assert_eq!(end, "0\n", "{word}");
        for (moved, native) in [("out", "native.out"), ("file", "native.file")] {
            let both = |f: &str| self.sh(&format!("cd {dir}; cat {f} 2>/dev/null || true"));
            assert_eq!(both(moved), both(native), "{word}");
        }
    }
}

/// Guests are in a cgroup v2 beside the daemon's, with limits: a guest that exceeds its memory ends, and no other
/// process.
fn limits_apply_to_guests_only(n1: &Home, old: &Old) {
    let start = |program: &str, name: &str| {
        let run = format!("armento run --portable --stay {program} >/dev/null 2>&1");
        let pid = n1.sh(&format!(
            "({run} & echo $! > /tmp/{name}.pid; wait $!; echo $? > /tmp/{name}.code) >/dev/null 2>&1 </dev/null &
             until test -s /tmp/{name}.pid; do sleep 0.1; done; cat /tmp/{name}.pid"
        ));
        let pid = pid.trim().to_owned();
        until("its line in ps", || n1.place(&pid).is_some());
        n1.sh(&format!("armento migrate {pid} old"));
        pid
    };
    let sleeper = start("sleep 600", "sleeper");
    let its = old.sh("sed 's/^0:://' /proc/$(pidof sleep | cut -d' ' -f1)/cgroup");
    let its = its.trim();
    assert!(its.starts_with("/armento/armento-n1-"), "{its}");
    let beside = old.sh(&format!(
        "cd {GROUPS}/armento; wc -l < cgroup.procs; wc -l < daemon/cgroup.procs"
    ));
    assert_eq!(beside, "0\n1\n");
    let limits = old.sh(&format!("cd {GROUPS}{its}; cat cpu.weight memory.max"));
    assert_eq!(limits, format!("{WEIGHT}\n{}\n", MEM_KIB * 1024));

    let grows = r#"perl -e 'select undef, undef, undef, 0.2 until -e "/tmp/grow"; $n = 3e8; $x = "a" x $n; sleep 600'"#;
    start(grows, "hog");
    n1.sh("touch /tmp/grow");
    until("its end", || {
        n1.run("test -s /tmp/hog.code").status.success()
    });
    assert_eq!(n1.sh("cat /tmp/hog.code"), "137\n");
    assert_eq!(n1.place(&sleeper).as_deref(), Some("old"));
    n1.sh(&format!("kill {sleeper}"));
    until("the end of their groups", || {
        old.sh(&format!(
            "ls -d {GROUPS}/armento/armento-* 2>/dev/null || true"
        ))
        .is_empty()
    });
}

#[test]
fn programs_move_to_and_from_debian_12_kernel() {
    if !lab::long() {
        return;
    }
    let parts = match Parts::make() {
        Ok(parts) => parts,
        Err(what) => return println!("skipped: a machine with Linux 6.1 needs {what}"),
    };
    let Some(farm) = Farm::up("kernel", None) else {
        return;
    };
    put(&farm, "n1", &parts.threads, &format!("{MOVED}/threads"));
    let files = Path::new(HERE).join("files.pl");
    put(&farm, "n1", &files, &format!("{MOVED}/files.pl"));
    let old = Old::boot(&farm, &parts);
    old.join();

    let n1 = Home::N1(&farm);
    n1.wait_for_features_of("old");
    let tour = ["old", "home", "old", "n3", "old", "home"];
    n1.tour("files", "files.pl FILE", &tour);
    n1.tour("threads", "threads", &tour);
    limits_apply_to_guests_only(&n1, &old);

    let there = Home::Old(&old);
    there.wait_for_features_of("n1");
    let tour = ["n1", "home", "n3", "n1", "home", "n1", "home"];
    there.tour("files", "files.pl FILE", &tour);
    there.tour("threads", "threads", &tour);
}
