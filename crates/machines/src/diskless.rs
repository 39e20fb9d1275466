//! Machines without a disk, and a boot server for them in the same namespaces. For tests: failures panic.
//!
//! ```text
//!   bridge lan0, 10.77.0.1 ─┬─ armento node, armento boot serve (dnsmasq, HTTP, NFS): the node srv
//!                           └─ qemu n2, n3, … at 10.77.0.N: network boot, no disk
//! ```

use crate::farm::armento;
use crate::image::below_build;
use crate::{Site, missing};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A boot under emulation beside another one.
pub const BOOT: Duration = Duration::from_secs(500);
const AGAIN: Duration = Duration::from_secs(1);
/// Words of apt when its mirror cannot be reached.
const NO_MIRROR: [&str; 4] = [
    "Could not resolve",
    "Temporary failure resolving",
    "Could not connect to",
    "Unable to connect to",
];
/// What a boot server is made of, beside what machines need.
const TOOLS: [(&str, &str); 3] = [
    ("/usr/sbin/dnsmasq", "dnsmasq-base"),
    ("/usr/lib/ipxe/snponly.efi", "ipxe"),
    ("/usr/bin/mkfs.erofs", "erofs-utils"),
];
const UEFI: &str = "/usr/share/ovmf/OVMF.fd";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firmware {
    Bios,
    Uefi,
}

/// The program on a machine's card, which asks how to boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rom {
    /// QEMU's: iPXE, which fetches by HTTP itself.
    Ipxe,
    /// One that knows PXE and TFTP alone: with UEFI the firmware's own; with BIOS QEMU's, whose DHCP messages do not say that it
    /// is iPXE.
    Other,
}

/// The cable of a card with [`Rom::Other`] and BIOS.
const PLAIN_ROM: &str = include_str!("../image/plain_rom.py");

/// A boot server and what boots from it.
pub struct BootLab {
    site: Site,
    /// The boot directory: kept between tests, since its image takes minutes.
    boot: PathBuf,
    /// One test at a time changes the image.
    _turn: File,
}

impl BootLab {
    /// `None`: what is missing was printed. `inventory`: the farm's file; the server is `srv` at 10.77.0.1, its link
    /// `lan0`.
    pub fn new_or_skip(inventory: &str, servers: &[u8]) -> Option<BootLab> {
        if let Some(missing) = missing() {
            println!("skipped: machines without a disk need {missing}");
            return None;
        }
        for (path, package) in TOOLS.into_iter().chain([(UEFI, "ovmf")]) {
            if !Path::new(path).exists() {
                println!("skipped: machines without a disk need {package} (a Debian package)");
                return None;
            }
        }
        let boot = below_build().join("diskless");
        fs::create_dir_all(below_build()).expect("the build directory");
        let turn = File::create(boot.with_extension("lock")).expect("a lock");
        turn.lock().expect("a lock");
        // What another test's machines did.
        let _ = fs::remove_file(boot.join("progress.json"));
        let site = Site::new().unwrap_or_else(|e| panic!("{e:#}"));
        let addresses: String = servers
            .iter()
            .map(|n| format!("ip addr add 10.77.0.{n}/24 dev lan0\n"))
            .collect();
        site.sh(&format!(
            "set -e; ip link add lan0 type bridge; {addresses} ip link set lan0 up"
        ))
        .expect("the boot net");
        fs::write(site.dir().join("farm.toml"), inventory).expect("inventory");
        let lab = BootLab {
            boot,
            site,
            _turn: turn,
        };
        Some(lab)
    }

    pub fn dir(&self) -> &Path {
        self.site.dir()
    }

    pub fn site(&self) -> &Site {
        &self.site
    }

    /// `armento` in the namespaces, as the node srv.
    pub fn command(&self, words: &[&str]) -> Command {
        let program = armento().display().to_string();
        let mut c = self.site.inside(&program, words);
        c.env("ARMENTO_STATE", self.dir().join("state"));
        c.env("ARMENTO_SOCKET", self.dir().join("control.sock"));
        c.stdin(Stdio::null());
        c
    }

    /// Output of a command, or its messages.
    pub fn try_sh(&self, words: &[&str]) -> Result<String, String> {
        let out = self.command(words).output().expect("armento");
        match out.status.success() {
            true => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&out.stderr).into_owned()),
        }
    }

    /// Output of a command that must succeed.
    pub fn sh(&self, words: &[&str]) -> String {
        self.try_sh(words)
            .unwrap_or_else(|e| panic!("armento {}: {e}", words.join(" ")))
    }

    /// A command of `armento boot` with this boot directory.
    pub fn boot(&self, words: &[&str]) -> String {
        self.try_boot(words)
            .unwrap_or_else(|e| panic!("armento boot {}: {e}", words.join(" ")))
    }

    pub fn try_boot(&self, words: &[&str]) -> Result<String, String> {
        let dir = format!("--dir={}", self.boot.display());
        let all: Vec<&str> = [&["boot"], words, &[&*dir]].concat();
        self.try_sh(&all)
    }

    /// `armento boot init`, and an image `base` with this program. `false`: no mirror of Debian answers, which was printed.
    /// `change`: what is added to its root.
    pub fn image(&self, change: &dyn Fn(&Path)) -> bool {
        let farm = self.dir().join("farm.toml").display().to_string();
        let tftp = self.dir().join("tftp").display().to_string();
        self.boot(&[
            "init",
            "--server=srv",
            "--farm",
            &farm,
            "--tftp",
            &tftp,
            "--append",
            "console=ttyS0",
        ]);
        let root = |lab: &BootLab| {
            let list: Value =
                serde_json::from_str(&lab.boot(&["image", "list", "--json"])).expect("list");
            let all = list["generations"].as_array().expect("generations").clone();
            let current = all.into_iter().find(|g| g["current"] == true);
            current.map(|g| {
                let dir = PathBuf::from(g["dir"].as_str().expect("dir"));
                (dir.join("root"), format!("base@{}", g["generation"]))
            })
        };
        if root(self).is_none() {
            println!("machines: building an image for nodes without a disk (minutes)");
            // Outside: the namespaces have no way to a mirror.
            let mut build = Command::new(armento());
            build.args(["boot", "image", "build", "base"]);
            build.args(["--kernel", "linux-image-cloud-amd64", "--dir"]);
            let built = build.arg(&self.boot).output().expect("armento");
            if !built.status.success() {
                let e = String::from_utf8_lossy(&built.stderr);
                if NO_MIRROR.iter().any(|words| e.contains(words)) {
                    println!(
                        "skipped: machines without a disk need a mirror of Debian that answers"
                    );
                    return false;
                }
                panic!("{e}");
            }
        }
        let (old, before) = root(self).expect("an image");
        change(&old);
        let old = old.display().to_string();
        self.boot(&["image", "import", "base", &old]);
        let list = self.boot(&["image", "list", "--json"]);
        let list: Value = serde_json::from_str(&list).expect("list");
        let all = list["generations"].as_array().expect("generations");
        let newest = all.iter().filter_map(|g| g["generation"].as_u64()).max();
        self.boot(&[
            "image",
            "use",
            &format!("base@{}", newest.expect("a generation")),
        ]);
        // No boot server runs here, and no node.
        self.boot(&["image", "remove", &before, "--force"]);
        true
    }

    /// The root of the image in use.
    pub fn root(&self) -> PathBuf {
        let current = fs::read_link(self.boot.join("images/base/current")).expect("in use");
        self.boot.join("images/base").join(current).join("root")
    }

    /// A directory of a node that outlives its restarts.
    pub fn persistent(&self, node: &str) -> PathBuf {
        self.boot.join("persistent").join(node)
    }

    /// Starts a program of the server; its output goes to NAME.log in [`BootLab::dir`].
    pub fn start(&self, name: &str, words: &[&str]) -> u32 {
        let log = File::create(self.dir().join(format!("{name}.log"))).expect("log");
        let mut c = self.command(words);
        c.env("ARMENTO_LOG", "debug");
        c.stdout(log.try_clone().expect("log")).stderr(log);
        let mut child = c.spawn().expect(name);
        let pid = child.id();
        std::thread::spawn(move || child.wait());
        pid
    }

    /// The farm's first node, and its boot server.
    pub fn serve(&self) {
        self.farm();
        self.serve_boot();
    }

    /// The farm's first node. Returns token and address for another one's join.
    pub fn farm(&self) -> Vec<String> {
        fs::create_dir_all(self.dir().join("state")).expect("state");
        let said = self.sh(&[
            "farm",
            "init",
            "--listen",
            "10.77.0.1:7117",
            "--name",
            "srv",
        ]);
        self.start("node", &["node"]);
        let line = crate::farm::join_line(&said);
        line.split(' ').skip(2).take(2).map(str::to_owned).collect()
    }

    /// `armento boot serve`.
    pub fn serve_boot(&self) {
        let dir = self.boot.display().to_string();
        self.start("serve", &["boot", "serve", "--dir", &dir]);
        self.until("the boot server answers", Duration::from_secs(30), &|| {
            let status = self.try_boot(&["status", "--json"]).ok()?;
            let status: Value = serde_json::from_str(&status).ok()?;
            status["silent_servers"]
                .as_object()?
                .is_empty()
                .then_some(())
        });
    }

    /// Ends `armento boot serve`.
    pub fn stop_boot(&self) {
        let dir = self.boot.display();
        let script = format!(
            "pkill -TERM -f '[b]oot serve --dir {dir}'; while pgrep -f '[b]oot serve --dir {dir}'; do sleep 0.05; done"
        );
        self.site.sh(&script).expect("its end");
    }

    /// Another boot server, without images yet: the node `name` at 10.77.0.`number`, in a network namespace of its own. `join`: of
    /// [`BootLab::farm`].
    pub fn second(&self, name: &str, number: u8, join: &[String]) -> Second<'_> {
        let pid_file = self.dir().join(format!("{name}.pid"));
        let script = format!("echo $$ > {}; exec sleep infinity", pid_file.display());
        let mut c = self.site.inside("unshare", &["--net", "sh", "-c", &script]);
        let mut holder = c.stdin(Stdio::null()).spawn().expect("a namespace");
        std::thread::spawn(move || holder.wait());
        let first = self.until("a namespace", Duration::from_secs(10), &|| {
            let text = fs::read_to_string(&pid_file).ok()?;
            text.trim().parse::<u32>().ok()
        });
        let wire = format!(
            "set -e; ip link add {name}0 type veth peer name lan0 netns {first}; ip link set {name}0 master lan0 up
             nsenter --target={first} --net sh -c 'ip link set lo up; ip link set lan0 up; ip addr add 10.77.0.{number}/24 dev lan0'"
        );
        self.site.sh(&wire).expect("its cable");
        let dir = self.dir().join(name);
        fs::create_dir_all(&dir).expect("directory");
        let second = Second {
            lab: self,
            first,
            name: name.to_owned(),
            boot: dir.join("boot"),
        };
        let farm = self.dir().join("farm.toml").display().to_string();
        let tftp = dir.join("tftp").display().to_string();
        let boot = second.boot.display().to_string();
        let words = [
            "boot",
            "init",
            "--server",
            name,
            "--farm",
            &farm,
            "--tftp",
            &tftp,
            "--append",
            "console=ttyS0",
            "--dir",
            &boot,
        ];
        let out = second.command(&words).output().expect("armento");
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let listen = format!("10.77.0.{number}:7117");
        let [token, member] = join else {
            panic!("token and address")
        };
        let words = [
            "join",
            token,
            member,
            "--name",
            name,
            "--listen",
            &listen,
            "--same-machine",
        ];
        self.until(
            "the second boot server is a member",
            Duration::from_secs(60),
            &|| {
                let out = second.command(&words).output().expect("armento");
                let said = String::from_utf8_lossy(&out.stderr).into_owned();
                // The farm's first node starts.
                (out.status.success() || said.contains("of a farm already")).then_some(())
            },
        );
        second
    }

    /// Switches on a machine without a disk: card 52:54:00:77:00:NN.
    pub fn on(&self, number: u8, firmware: Firmware, mem_mib: u32) {
        self.on_with(number, firmware, Rom::Ipxe, mem_mib);
    }

    /// The same, with this program on its card.
    pub fn on_with(&self, number: u8, firmware: Firmware, rom: Rom, mem_mib: u32) {
        let tap = format!("tap{number}");
        self.site
            .sh(&format!(
                "ip link show {tap} >/dev/null 2>&1 || {{ ip tuntap add {tap} mode tap && ip link set {tap} master lan0 up; }}"
            ))
            .expect("its cable");
        let file = |kind: &str| {
            self.dir()
                .join(format!("n{number}.{kind}"))
                .display()
                .to_string()
        };
        let mac = format!("mac=52:54:00:77:00:{number:02x}");
        let mut words: Vec<String> = [
            // As `machine.rs`: without cmpxchg16b, with a large cache of translated code.
            "-accel",
            "tcg,tb-size=384",
            "-cpu",
            "max,-mpx,-cx16",
            "-smp",
            "1",
            "-display",
            "none",
            "-nodefaults",
            "-boot",
            "n",
            "-device",
            "virtio-rng-pci",
        ]
        .map(str::to_owned)
        .to_vec();
        words.extend([
            "-m".into(),
            mem_mib.to_string(),
            "-netdev".into(),
            match (firmware, rom) {
                (Firmware::Bios, Rom::Other) => self.hidden(&tap, &file("own"), &file("guest")),
                _ => format!("tap,id=lan,ifname={tap},script=no,downscript=no"),
            },
            "-device".into(),
            match (firmware, rom) {
                (Firmware::Uefi, Rom::Other) => format!("virtio-net-pci,netdev=lan,{mac},romfile="),
                _ => format!("virtio-net-pci,netdev=lan,{mac}"),
            },
            "-serial".into(),
            format!("file:{}", file("console")),
            "-pidfile".into(),
            file("pid"),
        ]);
        if firmware == Firmware::Uefi {
            words.extend(["-bios".into(), UEFI.into()]);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let log = File::create(file("qemu")).expect("log");
        let mut c = self.site.inside("qemu-system-x86_64", &words);
        c.stdin(Stdio::null());
        c.stdout(log.try_clone().expect("log")).stderr(log);
        let mut child = c.spawn().expect("qemu");
        std::thread::spawn(move || child.wait());
    }

    /// Starts a cable on which the ROM's messages do not say that it is iPXE; QEMU's words for it.
    fn hidden(&self, tap: &str, own: &str, guest: &str) -> String {
        let script = self.dir().join("plain_rom.py");
        fs::write(&script, PLAIN_ROM).expect("script");
        let _ = fs::remove_file(own);
        let _ = fs::remove_file(guest);
        let log = File::create(self.dir().join(format!("{tap}.log"))).expect("log");
        let script = script.display().to_string();
        // KERNEL: tun(4): a tap has one user; the cable of the time before the power failed is cut.
        let pids = self.dir().join(format!("{tap}.pid"));
        let cut = format!(
            "test ! -e {0} || {{ kill -KILL $(cat {0}) 2>/dev/null; while kill -0 $(cat {0}) 2>/dev/null; do sleep 0.05; done; }}
             echo $$ > {0}; exec /usr/bin/python3 {script} {tap} {own} {guest}",
            pids.display()
        );
        let mut c = self.site.inside("sh", &["-c", &cut]);
        c.stdin(Stdio::null());
        c.stdout(log.try_clone().expect("log")).stderr(log);
        let mut child = c.spawn().expect("python3");
        std::thread::spawn(move || child.wait());
        self.until("the cable", Duration::from_secs(20), &|| {
            Path::new(own).exists().then_some(())
        });
        format!(
            "dgram,id=lan,local.type=unix,local.path={guest},remote.type=unix,remote.path={own}"
        )
    }

    /// A DHCP server of somebody else, at 10.77.0.250, that gives 10.77.0.100 to 10.77.0.200.
    pub fn foreign_dhcp(&self) {
        let dir = self.dir().display();
        let script = format!(
            "set -e; cd {dir}
             (echo $BASHPID > foreign.pid; exec unshare --net sh -c 'echo up > foreign.up; exec sleep infinity') < /dev/null > /dev/null 2>&1 &
             until test -s foreign.up; do sleep 0.05; done
             ip link add foreign0 type veth peer name lan0 netns $(cat foreign.pid)
             ip link set foreign0 master lan0 up
             nsenter --target=$(cat foreign.pid) --net sh -c 'ip link set lo up; ip link set lan0 up; ip addr add 10.77.0.250/24 dev lan0'
             nsenter --target=$(cat foreign.pid) --net dnsmasq --port=0 --interface=lan0 --bind-dynamic --leasefile-ro --pid-file= \
               --no-ping --conf-file=/dev/null --log-facility={dir}/foreign.log --dhcp-range=10.77.0.100,10.77.0.200,255.255.255.0,1h"
        );
        let out = self.site.inside("bash", &["-c", &script]).output();
        let out = out.expect("bash");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "another DHCP server: {said}");
    }

    /// The power of a machine fails.
    pub fn off(&self, number: u8) {
        let pid = fs::read_to_string(self.dir().join(format!("n{number}.pid"))).expect("pid");
        let script = format!(
            "kill -KILL {0}; while kill -0 {0} 2>/dev/null; do sleep 0.05; done",
            pid.trim()
        );
        self.site.sh(&script).expect("off");
    }

    /// The console of a machine so far.
    pub fn console(&self, number: u8) -> String {
        let bytes = fs::read(self.dir().join(format!("n{number}.console"))).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last step of a node, and what it said went wrong.
    pub fn step(&self, node: &str) -> Option<(String, Option<String>)> {
        let status = self.try_boot(&["status", "--json"]).ok()?;
        let status: Value = serde_json::from_str(&status).ok()?;
        let all = status["machines"].as_array()?;
        let it = all.iter().find(|m| m["node"] == node)?;
        Some((
            it["step"].as_str()?.to_owned(),
            it["trouble"].as_str().map(str::to_owned),
        ))
    }

    /// Waits until a node has joined.
    pub fn joined(&self, node: &str) {
        self.until(&format!("{node} has joined"), BOOT, &|| {
            self.step(node)
                .filter(|(step, _)| step == "joined")
                .map(drop)
        });
    }

    /// Waits for something; shows everything if it does not come.
    pub fn until<T>(&self, what: &str, limit: Duration, check: &dyn Fn() -> Option<T>) -> T {
        let until = Instant::now() + limit;
        loop {
            if let Some(found) = check() {
                return found;
            }
            if Instant::now() > until {
                self.show();
                panic!("not in {} s: {what}", limit.as_secs());
            }
            sleep(AGAIN);
        }
    }

    fn show(&self) {
        let status = self.try_boot(&["status"]);
        eprintln!("== status\n{}", status.unwrap_or_else(|e| e));
        for entry in fs::read_dir(self.dir()).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".log") || name.ends_with(".console") || name.ends_with(".qemu") {
                let bytes = fs::read(entry.path()).unwrap_or_default();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let lines: Vec<&str> = text.lines().collect();
                let last = lines[lines.len().saturating_sub(40)..].join("\n");
                eprintln!("== {name}\n{last}");
            }
        }
    }
}

/// A second boot server.
pub struct Second<'a> {
    lab: &'a BootLab,
    /// A process of its network namespace, as the site numbers it.
    first: u32,
    name: String,
    boot: PathBuf,
}

impl Second<'_> {
    fn command(&self, words: &[&str]) -> Command {
        let program = armento().display().to_string();
        let target = format!("--target={}", self.first);
        let enter = [&*target, "--net", "--", &program];
        let all: Vec<&str> = [&enter, words].concat();
        let mut c = self.lab.site.inside("nsenter", &all);
        // Its daemon does not run: it is a member that is away.
        c.env("ARMENTO_STATE", self.boot.with_file_name("state"));
        c.env("ARMENTO_SOCKET", self.boot.with_file_name("control.sock"));
        c.env("ARMENTO_LOG", "debug");
        c.stdin(Stdio::null());
        c
    }

    /// Runs `armento boot serve`.
    pub fn serve(&self) {
        let log = self.lab.dir().join(format!("{}.log", self.name));
        let log = File::create(log).expect("log");
        let dir = self.boot.display().to_string();
        let mut c = self.command(&["boot", "serve", "--dir", &dir]);
        c.stdout(log.try_clone().expect("log")).stderr(log);
        let mut child = c.spawn().expect("serve");
        std::thread::spawn(move || child.wait());
        self.lab.until(
            "the second boot server answers",
            Duration::from_secs(30),
            &|| {
                let status = self.lab.try_boot(&["status", "--json"]).ok()?;
                let status: Value = serde_json::from_str(&status).ok()?;
                let silent = status["silent_servers"].as_object()?;
                (!silent.contains_key(&self.name)).then_some(())
            },
        );
    }

    /// Waits until it has copied the image in use.
    pub fn copied(&self) {
        let wanted = fs::read_link(self.lab.boot.join("images/base/current")).expect("in use");
        self.lab
            .until("the image is copied", Duration::from_secs(240), &|| {
                let has = fs::read_link(self.boot.join("images/base/current")).ok()?;
                (has == wanted).then_some(())
            });
    }

    /// Its cable breaks, and it never comes back: nothing of it says so to anybody.
    pub fn dies(&self) {
        let script = format!("ip link del {}0", self.name);
        self.lab.site.sh(&script).expect("cut");
    }
}
