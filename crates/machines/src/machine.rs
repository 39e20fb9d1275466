//! One machine: boot, commands as a user, files, network links, power.

use crate::image::Image;
use crate::site::Site;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Memory of a machine, MiB.
pub const MEM_MIB: u32 = 1024;
/// Time limit: an emulated processor on a busy machine boots slowly.
const BOOT: Duration = Duration::from_secs(400);
/// A clean shutdown, systemd's own limits included.
const HALT: Duration = Duration::from_secs(150);
/// Time limit of one command.
const COMMAND_S: u64 = 300;
const AGAIN: Duration = Duration::from_millis(500);
/// Cache of translated code: larger than QEMU's default for one processor, so that a boot translates nothing twice.
const TRANSLATED_MIB: u32 = 384;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    V6_1,
    V6_12,
}

impl Kernel {
    pub fn name(self) -> &'static str {
        match self {
            Kernel::V6_1 => "6.1",
            Kernel::V6_12 => "6.12",
        }
    }
}

/// The result of a command.
#[derive(Clone, Debug)]
pub struct Reply {
    /// As in a shell: 124 when it took too long, 255 when ssh itself failed.
    pub code: i32,
    pub out: String,
    pub err: String,
}

pub struct Machine {
    site: Arc<Site>,
    image: Image,
    /// n1 is 1: also its last address byte.
    pub number: u32,
    pub kernel: Kernel,
    pub mem_mib: u32,
    /// Hardware addresses of its further cards, all on the bridge `farm`.
    cards: Vec<String>,
}

impl Machine {
    /// A machine that has never been on: it is not started yet.
    pub fn new(site: &Arc<Site>, image: &Image, number: u32, kernel: Kernel) -> Result<Machine> {
        let m = Machine {
            site: site.clone(),
            image: image.clone(),
            number,
            kernel,
            mem_mib: MEM_MIB,
            cards: Vec::new(),
        };
        let base = image.dir.join("disk.ext4");
        let mut c = Command::new("qemu-img");
        c.args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"]);
        let made = c.arg(base).arg(m.file("qcow2")).output()?;
        if !made.status.success() {
            bail!("qemu-img: {}", String::from_utf8_lossy(&made.stderr));
        }
        // Its network links, with bridges at the other end.
        m.site.sh(&format!(
            "set -e; for b in farm test; do
               ip tuntap add ${{b}}{number} mode tap; ip link set ${{b}}{number} master ${{b}} up
             done"
        ))?;
        fs::write(m.file("sh"), m.by_hand())?;
        Ok(m)
    }

    /// Before: it is off. A further card, of 10 Gbit/s and full duplex as it says, with this hardware address.
    pub fn add_card(&mut self, mac: &str) -> Result<()> {
        let tap = self.card(self.cards.len());
        self.site.sh(&format!(
            "ip tuntap add {tap} mode tap && ip link set {tap} master farm up"
        ))?;
        self.cards.push(mac.to_owned());
        Ok(())
    }

    /// The other end of a further card's cable.
    fn card(&self, at: usize) -> String {
        format!("card{}-{at}", self.number)
    }

    pub fn name(&self) -> String {
        format!("n{}", self.number)
    }

    pub fn addr(&self) -> String {
        format!("10.9.9.{}", self.number)
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.site.dir().join(format!("{}.{kind}", self.name()))
    }

    /// Switches it on. After: the kernel starts; see [`Machine::wait_up`].
    pub fn on(&self) -> Result<()> {
        let (k, n, name) = (self.kernel.name(), self.number, self.name());
        let kernel = self.image.dir.join(format!("vmlinuz-{k}"));
        if !kernel.is_file() {
            bail!("{:?} has no kernel {k}", self.image.suite);
        }
        let show = |p: &Path| p.display().to_string();
        let initrd = show(&self.image.dir.join(format!("initrd-{k}")));
        let append = format!(
            "root=LABEL=root rw console=ttyS0 quiet panic=-1 systemd.hostname={name} systemd.show_status=0 \
             net.ifnames=1 random.trust_cpu=on mitigations=off"
        );
        let net = |bridge: &str, mac: &str| {
            [
                "-netdev".to_owned(),
                format!("tap,id={bridge},ifname={bridge}{n},script=no,downscript=no"),
                "-device".into(),
                format!("virtio-net-pci,netdev={bridge},mac={mac}:0{n},romfile="),
            ]
        };
        let accel = format!("tcg,tb-size={TRANSLATED_MIB}");
        let mut args: Vec<String> = [
            "-accel",
            &accel,
            // Without cmpxchg16b: emulated, Linux 6.12 ends in a double fault at its first one (QEMU 7.2).
            "-cpu",
            "max,-mpx,-cx16",
            "-smp",
            "1",
            "-display",
            "none",
            "-nodefaults",
            "-rtc",
            "base=utc",
            "-kernel",
            &show(&kernel),
            "-initrd",
            &initrd,
            "-append",
            &append,
            "-device",
            "virtio-rng-pci",
        ]
        .map(str::to_owned)
        .to_vec();
        args.extend(["-m".into(), self.mem_mib.to_string()]);
        args.extend([
            "-serial".into(),
            format!("file:{}", show(&self.file("console"))),
        ]);
        args.extend(["-pidfile".into(), show(&self.file("pid"))]);
        args.extend([
            "-monitor".into(),
            format!("unix:{},server=on,wait=off", show(&self.file("monitor"))),
        ]);
        args.extend([
            "-drive".into(),
            format!(
                "file={},if=virtio,cache=writeback,discard=unmap",
                show(&self.file("qcow2"))
            ),
        ]);
        args.extend(net("farm", "52:54:00:09:09"));
        args.extend(net("test", "52:54:00:0a:09"));
        for (at, mac) in self.cards.iter().enumerate() {
            let tap = self.card(at);
            args.extend([
                "-netdev".into(),
                format!("tap,id={tap},ifname={tap},script=no,downscript=no"),
                "-device".into(),
                format!("virtio-net-pci,netdev={tap},mac={mac},romfile=,speed=10000,duplex=full"),
            ]);
        }
        // The console output of an earlier boot is kept, for diagnosis.
        if self.file("console").exists() {
            let _ = fs::rename(self.file("console"), self.file("console.before"));
        }
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let log = File::create(self.file("qemu"))?;
        let mut c = self.site.inside("qemu-system-x86_64", &words);
        c.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut child = c.spawn().context("qemu")?;
        // nsenter waits for QEMU; reaped here when that ends.
        std::thread::spawn(move || child.wait());
        Ok(())
    }

    /// Waits until root can log in and systemd has started everything.
    pub fn wait_up(&self) -> Result<()> {
        let until = Instant::now() + BOOT;
        while Instant::now() < until {
            let ssh = self.ssh(
                "root",
                "systemctl is-system-running --wait || true",
                60,
                false,
            );
            let reply = reply(&ssh)?;
            if matches!(reply.out.trim(), "running" | "degraded") {
                return Ok(());
            }
            if let Ok(said) = fs::read_to_string(self.file("qemu"))
                && !said.trim().is_empty()
            {
                bail!("{}: qemu: {said}", self.name());
            }
            sleep(AGAIN);
        }
        bail!("{} did not boot:\n{}", self.name(), self.console(40))
    }

    pub fn boot(&self) -> Result<()> {
        self.on()?;
        self.wait_up()
    }

    fn ssh(&self, user: &str, script: &str, limit_s: u64, tty: bool) -> Result<Output> {
        let mut c = self.ssh_command(user, limit_s, tty);
        Ok(c.arg(script).stdin(Stdio::null()).output()?)
    }

    fn ssh_words(&self, user: &str) -> Vec<String> {
        let control = self.site.dir().join(format!("{}.{user}.ssh", self.name()));
        let mut words = vec![
            "-i".to_owned(),
            self.image.dir.join("key").display().to_string(),
        ];
        let control = format!("ControlPath={}", control.display());
        for option in [
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "LogLevel=ERROR",
            "ConnectTimeout=10",
            "ServerAliveInterval=5",
            "ServerAliveCountMax=6",
            "ControlMaster=auto",
            "ControlPersist=yes",
            &control,
        ] {
            words.extend(["-o".to_owned(), option.to_owned()]);
        }
        words.push(format!("{user}@fe80::5054:ff:fe0a:90{}%test", self.number));
        words
    }

    fn ssh_command(&self, user: &str, limit_s: u64, tty: bool) -> Command {
        let limit = limit_s.to_string();
        let mut words = vec!["--kill-after=5".to_owned(), limit, "ssh".into()];
        words.extend(tty.then(|| "-tt".to_owned()));
        words.extend(self.ssh_words(user));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.site.inside("timeout", &words)
    }

    /// A script that does what [`Machine::run`] does, for manual use: `sh n1.sh USER 'SCRIPT'`.
    fn by_hand(&self) -> String {
        let words = self.ssh_words("$user").join(" ");
        let enter = self.site.inside("ssh", &[]);
        let enter: Vec<_> = enter
            .get_args()
            .map(|a| a.to_string_lossy().into_owned())
            .collect();
        format!(
            "user=$1; shift\nexec nsenter {} $TTY {words} \"$@\"\n",
            enter.join(" ")
        )
    }

    /// A script in the login shell of a user.
    pub fn run(&self, user: &str, script: &str) -> Reply {
        self.run_for(user, script, COMMAND_S)
    }

    pub fn run_for(&self, user: &str, script: &str, limit_s: u64) -> Reply {
        let out = self.ssh(user, script, limit_s, false);
        reply(&out).unwrap_or_else(|e| panic!("{}: {script}: {e}", self.name()))
    }

    /// As [`Machine::run`], with a terminal.
    pub fn typed(&self, user: &str, script: &str) -> Reply {
        let out = self.ssh(user, script, COMMAND_S, true);
        reply(&out).unwrap_or_else(|e| panic!("{}: {script}: {e}", self.name()))
    }

    /// Output of a script that must succeed.
    pub fn sh(&self, user: &str, script: &str) -> String {
        let reply = self.run(user, script);
        assert!(
            reply.code == 0,
            "{} {user}: {script}: {reply:?}",
            self.name()
        );
        reply.out
    }

    /// Copies a file of this machine to it, with its mode.
    pub fn put(&self, from: &Path, to: &str) -> Result<()> {
        let mut c = self.ssh_command("root", COMMAND_S, false);
        c.arg(format!(
            "cat > {to}.new && chmod 755 {to}.new && mv {to}.new {to}"
        ));
        let file = File::open(from).with_context(|| from.display().to_string())?;
        let out = c.stdin(file).output()?;
        if !out.status.success() {
            bail!(
                "{}: {to}: {}",
                self.name(),
                String::from_utf8_lossy(&out.stderr)
            );
        }
        Ok(())
    }

    pub fn get(&self, from: &str, to: &Path) -> Result<()> {
        let mut c = self.ssh_command("root", COMMAND_S, false);
        let out = c.arg(format!("cat {from}")).stdin(Stdio::null()).output()?;
        if !out.status.success() {
            bail!(
                "{}: {from}: {}",
                self.name(),
                String::from_utf8_lossy(&out.stderr)
            );
        }
        Ok(fs::write(to, out.stdout)?)
    }

    /// Connects or disconnects its link to the farm. The link of the test stays connected.
    pub fn cable(&self, plugged: bool) -> Result<()> {
        let (n, state) = (self.number, if plugged { "up" } else { "down" });
        self.site
            .sh(&format!("ip link set farm{n} {state}"))
            .map(drop)
    }

    /// Switches it off at once: data that the kernel had not written is lost.
    pub fn power_cut(&self) -> Result<()> {
        let pid = fs::read_to_string(self.file("pid"))?;
        let gone = format!(
            "kill -KILL {0}; while kill -0 {0} 2>/dev/null; do sleep 0.05; done",
            pid.trim()
        );
        self.site.sh(&gone)?;
        self.forget_logins()
    }

    /// Stops the machine, as in a suspend; `resume` continues it.
    pub fn suspend(&self) -> Result<()> {
        self.monitor("stop")
    }

    pub fn resume(&self) -> Result<()> {
        self.monitor("cont")
    }

    fn monitor(&self, word: &str) -> Result<()> {
        let mut s = UnixStream::connect(self.file("monitor"))?;
        s.write_all(format!("{word}\n").as_bytes())?;
        // QEMU reads the line asynchronously; closing the connection early would discard it.
        s.set_read_timeout(Some(Duration::from_secs(5)))?;
        sleep(Duration::from_millis(200));
        Ok(())
    }

    /// A clean reboot by root's `reboot`; returns when logins work again.
    pub fn reboot(&self) -> Result<()> {
        let boot = self.sh("root", "cat /proc/sys/kernel/random/boot_id");
        self.run("root", "systemctl reboot");
        self.forget_logins()?;
        let until = Instant::now() + HALT + BOOT;
        while Instant::now() < until {
            let now = self.ssh("root", "cat /proc/sys/kernel/random/boot_id", 20, false)?;
            let now = String::from_utf8_lossy(&now.stdout).into_owned();
            if !now.trim().is_empty() && now != boot {
                return self.wait_up();
            }
            sleep(AGAIN);
        }
        bail!("{} did not come back:\n{}", self.name(), self.console(40))
    }

    /// Closes shared ssh connections of an earlier boot: ssh would wait for their time-outs.
    fn forget_logins(&self) -> Result<()> {
        let (dir, name) = (self.site.dir().display(), self.name());
        let masters = format!(
            "for s in {dir}/{name}.*.ssh; do [ ! -S $s ] || ssh -q -o ControlPath=$s -O exit x 2>/dev/null; rm -f $s; done"
        );
        self.site.sh(&masters).map(drop)
    }

    /// The last lines of its console.
    pub fn console(&self, lines: usize) -> String {
        let text = fs::read(self.file("console")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Waits until a script succeeds.
    pub fn until(&self, what: &str, user: &str, script: &str, limit: Duration) {
        let until = Instant::now() + limit;
        loop {
            let reply = self.run(user, script);
            if reply.code == 0 {
                return;
            }
            assert!(
                Instant::now() < until,
                "{}: {what}: {script}: {reply:?}",
                self.name()
            );
            sleep(AGAIN);
        }
    }
}

impl Drop for Machine {
    /// A failed test prints the machine's console and logs.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let seen = self.ssh(
            "root",
            "journalctl -b -o short-precise -n 60 --no-pager -u armento; dmesg | tail -n 15; armento ps; armento nodes",
            30,
            false,
        );
        let seen = reply(&seen).map_or_else(|e| e.to_string(), |r| r.out);
        eprintln!(
            "== {}: console\n{}\n== {}: journal\n{seen}",
            self.name(),
            self.console(20),
            self.name()
        );
    }
}

fn reply(out: &Result<Output>) -> Result<Reply> {
    let out = out.as_ref().map_err(|e| anyhow::anyhow!("{e}"))?;
    Ok(Reply {
        code: out.status.code().unwrap_or(255),
        out: String::from_utf8_lossy(&out.stdout).into_owned(),
        err: String::from_utf8_lossy(&out.stderr).into_owned(),
    })
}
