//! `armento boot` as users run it: images of a small made-up root, bad input, the answers of the boot server to machines, in
//! namespaces of this test's own. Real machines are in `crates/machines/tests/debian_diskless.rs`.

mod follow;
mod proxy;

use serde_json::Value;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const ARMENTO: &str = env!("CARGO_BIN_EXE_armento");
/// Longest wait for any event.
const LONG: Duration = Duration::from_secs(60);

const FARM: &str = "\
farm = { name = \"t\", boot_servers = [\"srv\"] }
net.mgmt = { cidr = \"10.77.0.0/24\", boot = true }
profile.live = { root = \"live\", lan0 = \"mgmt\" }
profile.memory = { root = \"ram\", lan0 = \"mgmt\" }
node.srv = { id = 1, lan0 = \"mgmt\" }
node.n2 = { id = 2, profile = \"live\", mac = { lan0 = \"52:54:00:77:00:02\" } }
node.n3 = { id = 3, profile = \"memory\", mac = { lan0 = \"52:54:00:77:00:03\" } }
";

/// Network, processes and mounts of their own, which end with this value and with this test. The link lan0 has the addresses of
/// srv and of the nodes n2 and n3.
struct Place {
    holder: Child,
    dir: PathBuf,
}

impl Place {
    fn new(name: &str) -> Option<Place> {
        let root =
            fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0\t"));
        let tools = ["/usr/sbin/dnsmasq", "/usr/lib/ipxe/undionly.kpxe"];
        if !root {
            println!("skipped: namespaces need root");
            return None;
        }
        if let Some(missing) = tools.iter().find(|t| !Path::new(t).exists()) {
            println!("skipped: {missing} is missing (make need-test installs it)");
            return None;
        }
        let dir = std::env::temp_dir().join(format!("armento-boot-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("directory");
        fs::write(dir.join("farm.toml"), FARM).expect("inventory");
        let script = "ip link set lo up; ip link add lan0 type bridge; ip link set lan0 up
            for n in 1 2 3; do ip addr add 10.77.0.$n/24 dev lan0; done; echo ready; exec cat";
        let mut holder = Command::new("unshare")
            .args(["--net", "--pid", "--mount", "--fork", "--kill-child"])
            .args(["--mount-proc", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare");
        let mut line = [0; 6];
        let out = holder.stdout.as_mut().expect("output");
        out.read_exact(&mut line).expect("ready");
        Some(Place { holder, dir })
    }

    fn file(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn command(&self, words: &[&str]) -> Command {
        let holder = self.holder.id();
        let children = format!("/proc/{holder}/task/{holder}/children");
        let first = fs::read_to_string(children).expect("its first process");
        let mut c = Command::new("nsenter");
        c.arg(format!("--target={}", first.trim()));
        c.args(["--net", "--pid", "--mount", "--"]).args(words);
        c.env("ARMENTO_STATE", self.file("state"));
        c.stdin(Stdio::null());
        c
    }

    fn sh(&self, script: &str) -> String {
        let out = self.command(&["sh", "-c", script]).output().expect("sh");
        assert!(out.status.success(), "{script}: {}", said(&out));
        said(&out)
    }

    /// `armento boot …` with this boot directory.
    fn boot(&self, words: &[&str]) -> (i32, String) {
        let dir = format!("--dir={}", self.file("boot"));
        let mut all = vec![ARMENTO, "boot"];
        all.extend(words);
        if words[0] != "add-node" {
            all.push(&dir);
        }
        let out = self.command(&all).output().expect("armento");
        (out.status.code().unwrap_or(-1), said(&out))
    }

    fn good(&self, words: &[&str]) -> String {
        let (code, text) = self.boot(words);
        assert_eq!(code, 0, "{words:?}: {text}");
        text
    }

    /// What it says when it refuses; each refusal has a hint.
    fn bad(&self, words: &[&str]) -> String {
        let (code, text) = self.boot(words);
        assert_eq!(code, 125, "{words:?}: {text}");
        assert!(text.contains("\nhint: "), "{words:?}: {text}");
        text
    }

    fn init(&self) -> String {
        let (farm, tftp) = (self.file("farm.toml"), self.file("tftp"));
        self.good(&["init", "--server=srv", "--farm", &farm, "--tftp", &tftp])
    }

    /// A tree that is just enough for a node: an ELF program in the place of systemd, a kernel, modules.
    fn root(&self, name: &str, machine: u8) -> String {
        let root = self.dir.join(name);
        let modules = root.join("usr/lib/modules/6.12.1-test");
        for dir in ["usr/lib/systemd/system", "usr/bin", "boot", "etc", "srv"] {
            fs::create_dir_all(root.join(dir)).expect("directory");
        }
        fs::create_dir_all(modules.join("kernel")).expect("directory");
        symlink("usr/lib", root.join("lib")).expect("link");
        let mut elf = vec![0; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[18] = machine;
        fs::write(root.join("usr/lib/systemd/systemd"), elf).expect("program");
        fs::write(root.join("boot/vmlinuz-6.12.1-test"), b"kernel").expect("kernel");
        let dep = ["overlay", "nfs", "nfsv3", "loop", "erofs"];
        let dep: String = dep.iter().map(|m| format!("kernel/{m}.ko:\n")).collect();
        fs::write(modules.join("modules.dep"), &dep).expect("modules.dep");
        for line in dep.lines() {
            fs::write(modules.join(line.trim_end_matches(':')), b"module").expect("module");
        }
        fs::write(modules.join("modules.alias"), "").expect("modules.alias");
        fs::write(modules.join("modules.builtin"), "").expect("modules.builtin");
        root.display().to_string()
    }

    fn get(&self, from: &str, path: &str) -> String {
        let script = format!("curl -s --interface {from} 'http://10.77.0.1:8117{path}'");
        self.sh(&script)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

fn said(out: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    )
}

const X86_64: u8 = 62;
const AARCH64: u8 = 183;

#[test]
fn images_have_generations_that_are_whole_or_not_there() {
    let Some(place) = Place::new("images") else {
        return;
    };
    let e = place.bad(&["image", "import", "base", "/"]);
    assert!(e.contains("no boot directory yet"), "{e}");
    place.init();
    let root = place.root("root", X86_64);
    fs::write(place.dir.join("root/srv/a"), "1").expect("file");
    let first = place.good(&["image", "import", "base", &root]);
    assert!(first.contains("base@1 is made; nodes boot it"), "{first}");
    fs::write(place.dir.join("root/srv/a"), "2").expect("file");
    fs::write(place.dir.join("root/srv/b"), "2").expect("file");
    let second = place.good(&["image", "import", "base", &root]);
    assert!(
        second.contains("after `armento boot image use base@2`"),
        "{second}"
    );
    let diff = place.good(&["image", "diff", "base", "1", "2"]);
    assert_eq!(diff, "~ srv/a (content)\n+ srv/b\n");
    // What a command that was killed has left.
    fs::create_dir_all(place.dir.join("boot/images/base/.new-999999/root")).expect("left");
    fs::create_dir_all(place.dir.join("boot/images/base/7/root")).expect("half");
    let list = place.good(&["image", "list", "--json"]);
    let list: Value = serde_json::from_str(&list).expect("json");
    let all = list["generations"].as_array().expect("generations");
    let shown = |g: &Value| (g["generation"].as_u64(), g["current"].as_bool());
    let seen: Vec<_> = all.iter().map(shown).collect();
    assert_eq!(seen, [(Some(1), Some(true)), (Some(2), Some(false))]);

    let e = place.bad(&["image", "back", "base"]);
    assert!(
        e.contains("no generation of `base` was in use before"),
        "{e}"
    );
    let would = place.good(&["image", "use", "base@2", "--dry-run"]);
    assert!(would.contains("would let nodes boot base@2"), "{would}");
    place.good(&["image", "use", "base@2"]);
    let link = || fs::read_link(place.dir.join("boot/images/base/current")).expect("link");
    assert_eq!(link(), Path::new("2"));
    let e = place.bad(&["image", "remove", "base@2"]);
    assert!(e.contains("base@2 is the one that nodes boot"), "{e}");
    place.good(&["image", "back", "base"]);
    assert_eq!(link(), Path::new("1"));
    // The boot server is not running: what its nodes have as their root is not known.
    let e = place.bad(&["image", "remove", "base@2"]);
    assert!(e.contains("does not answer"), "{e}");
    place.good(&["image", "remove", "base@2", "--force"]);
    // A number is never used twice.
    let third = place.good(&["image", "import", "base", &root]);
    assert!(third.contains("base@3 is made"), "{third}");
    assert!(!place.dir.join("boot/images/base/.new-999999").exists());
    // An edit of the live root.
    fs::write(place.dir.join("boot/images/base/1/root/srv/a"), "3").expect("edit");
    assert_eq!(
        place.good(&["image", "diff", "base"]),
        "~ srv/a (content)\n"
    );
    // The initramfs has this program and the modules.
    let script = format!(
        "zstd -dc {}/images/base/1/initrd | cpio -it --quiet",
        place.file("boot")
    );
    if Path::new("/usr/bin/cpio").exists() && Path::new("/usr/bin/zstd").exists() {
        let names = place.sh(&script);
        for name in ["init", "dev/console", "modules/list", "modules/nfsv3.ko"] {
            assert!(names.lines().any(|l| l == name), "{name}: {names}");
        }
    }
}

#[test]
fn roots_that_no_node_could_boot_are_refused_and_leave_nothing() {
    let Some(place) = Place::new("refused") else {
        return;
    };
    place.init();
    let other = place.root("arm", AARCH64);
    let e = place.bad(&["image", "import", "arm", &other]);
    assert!(e.contains("its programs are for aarch64"), "{e}");
    let bare = place.root("bare", X86_64);
    fs::remove_file(place.dir.join("bare/boot/vmlinuz-6.12.1-test")).expect("removed");
    let e = place.bad(&["image", "import", "bare", &bare]);
    assert!(
        e.contains("it has no kernel") && e.contains("--kernel-of"),
        "{e}"
    );
    let e = place.bad(&["image", "import", "x", &place.file("farm.toml")]);
    assert!(e.contains("no tar archive"), "{e}");
    let e = place.bad(&["image", "import", "../x", &bare]);
    assert!(e.contains("no name of an image"), "{e}");
    let e = place.bad(&["image", "use", "none"]);
    assert!(e.contains("there is no image `none`"), "{e}");
    assert_eq!(place.good(&["image", "list"]).lines().count(), 1);
    // A root in an archive, with a kernel of another image.
    let whole = place.root("whole", X86_64);
    place.good(&["image", "import", "whole", &whole]);
    place.sh(&format!(
        "tar -C {} -czf {} .",
        bare,
        place.file("bare.tar.gz")
    ));
    let archive = place.file("bare.tar.gz");
    place.good(&["image", "import", "bare", &archive, "--kernel-of", "whole"]);
    // A full disk.
    place.sh(&format!(
        "mount -t tmpfs -o size=20m none {}/images",
        place.file("boot")
    ));
    let e = place.bad(&["image", "import", "full", &whole]);
    assert!(e.contains("no space is left"), "{e}");
    place.sh(&format!(
        "test -z \"$(ls -A {}/images/full)\"",
        place.file("boot")
    ));
}

#[test]
fn the_boot_server_answers_machines_by_the_inventory() {
    let Some(place) = Place::new("server") else {
        return;
    };
    if !Path::new("/usr/bin/curl").exists() {
        println!("skipped: curl is missing");
        return;
    }
    place.init();
    let root = place.root("root", X86_64);
    fs::write(place.dir.join("root/srv/tagged$$HOST=n3$$"), "n3").expect("tagged");
    place.good(&["image", "import", "base", &root]);
    let log = fs::File::create(place.dir.join("serve.log")).expect("log");
    let dir = place.file("boot");
    let manager = UnixDatagram::bind(place.dir.join("notify")).expect("a socket");
    manager.set_read_timeout(Some(LONG)).expect("a limit");
    let mut serve = place
        .command(&[ARMENTO, "boot", "serve", "--dir", &dir])
        .env("NOTIFY_SOCKET", place.file("notify"))
        .stdout(log.try_clone().expect("log"))
        .stderr(log)
        .spawn()
        .expect("serve");
    let told = |what: &str| {
        let mut message = [0; 256];
        let n = manager.recv(&mut message).expect("a message");
        let message = String::from_utf8_lossy(&message[..n]);
        assert!(message.starts_with(what), "{message}");
    };
    told("READY=1\nSTATUS=boot server srv: http://10.77.0.1:8117");
    let status = place.good(&["status", "--json"]);
    assert!(status.contains("\"silent_servers\": {}"), "{status}");
    let would = place.good(&["reboot", "--rolling", "--at-once=2", "--dry-run"]);
    assert_eq!(
        would,
        "would drain n2, start it again with base@1, wait until it has joined, and undrain it\n\
         would drain n3, start it again with base@1, wait until it has joined, and undrain it\n\
         would do so with 2 nodes at once\nnothing was changed\n"
    );
    // Nodes are drained by this node's daemon, which does not run.
    let e = place.bad(&["reboot", "--rolling"]);
    assert!(e.contains("daemon"), "{e}");
    let first = place.get("10.77.0.2", "/boot.ipxe");
    assert!(first.contains("/node.ipxe?mac=${netX/mac}"), "{first}");
    let script = place.get("10.77.0.2", "/node.ipxe?mac=52:54:00:77:00:02");
    for words in [
        "kernel http://10.77.0.1:8117/image/base/1/vmlinuz?mac=52:54:00:77:00:02",
        "armento.ip=10.77.0.2/24",
        "armento.root=live",
        "armento.servers=10.77.0.1:8117:9117",
        "armento.link=lan0",
    ] {
        assert!(script.contains(words), "{words}: {script}");
    }
    assert_eq!(
        place.get("10.77.0.2", "/image/base/1/vmlinuz?mac=52:54:00:77:00:02"),
        "kernel"
    );
    let tells = |from: &str, body: &str| {
        let script = format!(
            "curl -s -o /dev/null -w '%{{http_code}}' --interface {from} -d '{body}' http://10.77.0.1:8117/progress"
        );
        place.sh(&script)
    };
    let body = r#"{"mac":"52:54:00:77:00:02","step":"network","trouble":"no route"}"#;
    // Another machine that says it is n2.
    assert_eq!(tells("10.77.0.3", body), "403");
    assert_eq!(tells("10.77.0.2", body), "204");
    assert_eq!(tells("10.77.0.2", "{"), "400");
    let why = place.good(&["why", "n2"]);
    assert!(
        why.contains("then it said: no route") && why.contains("perhaps: "),
        "{why}"
    );
    let tar = |from: &str, mac: &str| {
        let script = format!(
            "curl -s --interface {from} 'http://10.77.0.1:8117/node.tar?mac={mac}' | tar -xO etc/hostname srv/tagged 2>/dev/null || true"
        );
        place.sh(&script)
    };
    assert_eq!(tar("10.77.0.3", "52:54:00:77:00:03"), "n3n3\n");
    assert_eq!(tar("10.77.0.3", "52:54:00:77:00:02"), "");
    // This node is in no farm: it makes no tokens, and says so.
    let join = place.get("10.77.0.2", "/join?mac=52:54:00:77:00:02");
    assert!(!join.contains("token\":"), "{join}");
    // A machine without a name asks, waits, is claimed by one line, and is told what to boot.
    let stranger = "52:54:00:77:00:09";
    let wait = place.get("10.77.0.2", &format!("/node.ipxe?mac={stranger}"));
    assert!(
        wait.contains("armento boot claim 52:54:00:77:00:09 NAME"),
        "{wait}"
    );
    assert!(place.good(&["claim"]).contains(stranger));
    let farm = place.file("farm.toml");
    let e = place.bad(&[
        "claim",
        stranger,
        "n2",
        "--profile",
        "live",
        "--farm",
        &farm,
    ]);
    assert!(e.contains("n2 has the card 52:54:00:77:00:02"), "{e}");
    let e = place.bad(&["claim", stranger, "n9", "--farm", &farm]);
    assert!(e.contains("several profiles"), "{e}");
    // A group writes the inventory as well.
    let shared = fs::Permissions::from_mode(0o664);
    fs::set_permissions(&farm, shared.clone()).expect("mode");
    let lines = fs::read_to_string(&farm)
        .expect("inventory")
        .lines()
        .count();
    place.good(&[
        "claim",
        stranger,
        "n9",
        "--profile",
        "live",
        "--farm",
        &farm,
    ]);
    assert_eq!(
        fs::read_to_string(&farm)
            .expect("inventory")
            .lines()
            .count(),
        lines + 1
    );
    let mode = fs::metadata(&farm).expect("inventory").permissions().mode();
    assert_eq!(mode & 0o777, shared.mode());
    until("the server has read the inventory again", || {
        let script = place.get("10.77.0.2", &format!("/node.ipxe?mac={stranger}"));
        script.contains("armento.node=n9")
    });
    // The root of a node that runs is taken away, and comes back.
    let body = r#"{"mac":"52:54:00:77:00:02","step":"joined"}"#;
    assert_eq!(tells("10.77.0.2", body), "204");
    let (image, away) = (place.dir.join("boot/images/base/1"), place.dir.join("away"));
    fs::rename(&image, &away).expect("taken away");
    until("it is said", || {
        let why = place.good(&["why", "n2"]);
        why.contains("its root base@1 is not on srv any more")
    });
    fs::rename(&away, &image).expect("brought back");
    until("it is well", || {
        !place.good(&["why", "n2"]).contains("any more")
    });
    // A broken inventory is not used; the one before is.
    fs::write(&farm, "node.x = {").expect("broken");
    sleep(Duration::from_millis(1500));
    let script = place.get("10.77.0.2", &format!("/node.ipxe?mac={stranger}"));
    assert!(script.contains("armento.node=n9"), "{script}");
    place.sh(&format!(
        "kill -TERM $(pgrep -f 'armento boot serve --dir {dir}' | head -1)"
    ));
    told("STOPPING=1\n");
    assert!(serve.wait().expect("ended").success());
}

fn until(what: &str, check: impl Fn() -> bool) {
    let until = Instant::now() + LONG;
    while !check() {
        assert!(Instant::now() < until, "not in time: {what}");
        sleep(Duration::from_millis(100));
    }
}
