//! `armento fabric` and `armento boot view` as users run them: changes that come back, changes that stay, drift, faults, in
//! network namespaces of this machine.

use serde_json::Value;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const ARMENTO: &str = env!("CARGO_BIN_EXE_armento");
/// Longest wait for any event.
const LONG: Duration = Duration::from_secs(60);

/// A machine: a network namespace with one card, `eth0`, whose other end is `far` in the same namespace; its own view of
/// /sys; a directory for its files.
struct Machine {
    holder: Child,
    dir: PathBuf,
}

const FARM: &str = "\
net.a = { cidr = \"10.0.0.0/24\" }
node.x = { id = 7, lan0 = \"a\", mac = { lan0 = \"02:00:00:00:00:07\" } }
";

impl Machine {
    fn new(name: &str, farm: &str) -> Option<Machine> {
        let root =
            fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0\t"));
        if !root {
            println!("skipped: network namespaces need root");
            return None;
        }
        let dir =
            std::env::temp_dir().join(format!("armento-fabric-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("directory");
        fs::write(dir.join("farm.toml"), farm).expect("inventory");
        let mut holder = Command::new("unshare")
            .args([
                "--net",
                "--mount",
                "sh",
                "-c",
                "mount -t sysfs none /sys && echo ready && exec cat",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare");
        let mut line = [0; 6];
        holder
            .stdout
            .as_mut()
            .expect("output")
            .read_exact(&mut line)
            .expect("ready");
        let machine = Machine { holder, dir };
        machine.ip("link add dev eth0 address 02:00:00:00:00:07 type veth peer name far");
        machine.ip("link set dev far up");
        machine.ip("link set dev eth0 up");
        machine.ip("address add 172.16.0.1/24 dev eth0");
        machine.ip("route add 172.20.0.0/16 via 172.16.0.9");
        Some(machine)
    }

    fn run(&self, words: &[&str]) -> Output {
        let ns = |kind: &str| {
            format!(
                "--{kind}=/proc/{}/ns/{}",
                self.holder.id(),
                if kind == "mount" { "mnt" } else { kind }
            )
        };
        let mut command = Command::new("nsenter");
        command
            .args([ns("net"), ns("mount")])
            .args(words)
            .stdin(Stdio::null());
        command.output().expect("nsenter")
    }

    fn ip(&self, words: &str) {
        let output = self.run(&[&["ip"], &*words.split_whitespace().collect::<Vec<_>>()].concat());
        assert!(
            output.status.success(),
            "ip {words}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// `armento fabric VERB …` with this machine's inventory and state, as node x.
    fn fabric(&self, words: &[&str]) -> (i32, String) {
        let (farm, state) = (self.file("farm.toml"), self.file("state"));
        let mut all = vec![ARMENTO, "fabric"];
        all.extend(words);
        if !matches!(words[0], "confirm" | "undo") {
            all.extend(["--farm", &farm]);
        }
        if matches!(words[0], "apply" | "check" | "doctor" | "plan") {
            all.extend(["--node", "x"]);
        }
        if matches!(words[0], "apply" | "confirm" | "undo") {
            all.extend(["--state", &state]);
        }
        let output = self.run(&all);
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        (output.status.code().unwrap_or(-1), text)
    }

    fn file(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// Links with their addresses of IPv4, and the routes.
    fn state(&self) -> String {
        let links = self.run(&["ip", "-4", "-o", "address"]);
        let routes = self.run(&["ip", "route"]);
        format!(
            "{}{}",
            String::from_utf8_lossy(&links.stdout),
            String::from_utf8_lossy(&routes.stdout)
        )
    }

    fn wait(&self, what: &str, done: impl Fn() -> bool) {
        let until = Instant::now() + LONG;
        while !done() {
            assert!(
                Instant::now() < until,
                "{what}: not within {LONG:?}; now\n{}",
                self.state()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // What still waits for its timer ends now.
        let _ = fs::remove_dir_all(self.dir.join("state"));
        let _ = self.holder.kill();
        let _ = self.holder.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn change_that_is_not_confirmed_comes_back() {
    let Some(m) = Machine::new("undone", FARM) else {
        return;
    };
    let before = m.state();
    let (code, text) = m.fabric(&["apply", "--confirm", "2"]);
    assert_eq!(code, 0, "{text}");
    let changed = m.state();
    assert!(
        changed.contains("lan0")
            && changed.contains("10.0.0.7/24")
            && !changed.contains("172.16.0.1"),
        "{changed}"
    );
    m.wait("the old network", || {
        !m.dir.join("state/pending").exists() && m.state() == before
    });
    let (code, text) = m.fabric(&["confirm"]);
    assert_eq!(code, 125, "{text}");
    assert!(text.contains("hint:"), "{text}");
    assert!(!m.dir.join("root").exists(), "no file was written");
}

#[test]
fn confirmed_change_stays_and_writes_its_files() {
    let Some(m) = Machine::new("kept", FARM) else {
        return;
    };
    assert_eq!(m.fabric(&["check"]).0, 1, "nothing is as planned yet");
    let (code, text) = m.fabric(&["apply", "--confirm", "600", "--for", "networkd"]);
    assert_eq!(code, 0, "{text}");
    let (code, text) = m.fabric(&["apply", "--confirm", "600"]);
    assert!(
        code == 125 && text.contains("waits for"),
        "a second change is refused: {text}"
    );
    assert!(
        !m.dir.join("root").exists(),
        "files are written by confirm only"
    );
    let root = m.file("root");
    // A file of ours for another back end, and one of the administrator.
    let old = m.dir.join("root/etc/netplan");
    fs::create_dir_all(&old).expect("directory");
    let (_, mine) = m.fabric(&["plan", "--for", "netplan"]);
    let mine = mine
        .lines()
        .skip(1)
        .map(|l| format!("{l}\n"))
        .collect::<String>();
    fs::write(old.join("60-armento.yaml"), mine).expect("file");
    fs::write(old.join("10-own.yaml"), "network: {}\n").expect("file");
    let (code, text) = m.fabric(&["confirm", "--root", &root]);
    assert_eq!(code, 0, "{text}");
    let written =
        fs::read_to_string(Path::new(&root).join("etc/systemd/network/10-armento-lan0.network"))
            .expect("written");
    assert!(written.contains("Address=10.0.0.7/24"), "{written}");
    assert!(!old.join("60-armento.yaml").exists() && old.join("10-own.yaml").exists());
    let (code, text) = m.fabric(&["check"]);
    assert_eq!(code, 0, "{text}");
    m.ip("link set dev lan0 mtu 1400");
    m.ip("address add 10.0.0.9/24 dev lan0");
    let (code, text) = m.fabric(&["check", "--json"]);
    let found: Value = serde_json::from_str(&text).expect("JSON");
    let codes: Vec<&str> = found["drift"]
        .as_array()
        .expect("drift")
        .iter()
        .filter_map(|d| d["code"].as_str())
        .collect();
    assert_eq!((code, codes), (1, vec!["mtu", "address"]), "{text}");
    assert!(!m.dir.join("state/pending").exists());
}

#[test]
fn change_that_fails_is_undone_at_once() {
    let farm = FARM.replace("lan0 = \"a\",", "lan0 = \"a\", lan1 = \"b\",")
        + "net.b = { cidr = \"10.1.0.0/24\" }\n";
    let Some(m) = Machine::new("failed", &farm) else {
        return;
    };
    let before = m.state();
    let (code, text) = m.fabric(&["apply", "--confirm", "600"]);
    assert!(
        code == 125 && text.contains("hint:"),
        "there is no card lan1: {text}"
    );
    assert_eq!(m.state(), before);
    assert!(!m.dir.join("state/pending").exists(), "nothing waits");
}

#[test]
fn change_of_an_earlier_start_of_the_machine_is_over() {
    let Some(m) = Machine::new("reboot", FARM) else {
        return;
    };
    assert_eq!(m.fabric(&["apply", "--confirm", "600"]).0, 0);
    // What a reboot leaves: the record, with another start's number.
    let record = m.dir.join("state/pending/change.json");
    let text = fs::read_to_string(&record).expect("record");
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("boot id");
    fs::write(&record, text.replace(id.trim(), "an-earlier-one")).expect("record");
    let (code, text) = m.fabric(&["confirm"]);
    assert!(code == 125 && text.contains("no change waits"), "{text}");
    let (code, text) = m.fabric(&["apply", "--confirm", "600"]);
    assert_eq!(code, 0, "it is in nobody's way: {text}");
    assert_eq!(m.fabric(&["undo"]).0, 0);
}

#[test]
fn broken_inventories_change_nothing() {
    let Some(m) = Machine::new("broken", &FARM[..FARM.len() - 20]) else {
        return;
    };
    let before = m.state();
    for verb in ["plan", "apply", "check", "doctor", "cost"] {
        let (code, text) = m.fabric(&[verb]);
        assert!(
            code == 125 && text.contains("farm.toml:2") && text.contains("hint:"),
            "{verb}: {text}"
        );
    }
    assert_eq!(m.state(), before);
}

#[test]
fn dry_runs_change_nothing() {
    let Some(m) = Machine::new("dry", FARM) else {
        return;
    };
    let before = m.state();
    let (code, text) = m.fabric(&["apply", "--dry-run"]);
    assert!(
        code == 0 && text.contains("address replace 10.0.0.7/24"),
        "{text}"
    );
    let (code, text) = m.fabric(&["plan", "--diff"]);
    assert!(code == 0 && text.contains("name lan0"), "{text}");
    assert_eq!(m.state(), before);
    assert!(!m.dir.join("state").exists());
}

#[test]
fn views_name_the_file_and_the_reason() {
    let dir = std::env::temp_dir().join(format!("armento-fabric-view-{}", std::process::id()));
    fs::create_dir_all(dir.join("root/etc")).expect("directory");
    for name in [
        "hostname",
        "hostname$$HOST=n2$$",
        "hostname$$HOST=n9$$",
        "hostname$$IP=10.0.0.3$$",
    ] {
        fs::write(dir.join("root/etc").join(name), name).expect("file");
    }
    let farm = dir.join("farm.toml");
    fs::write(
        &farm,
        "net.a = { cidr = \"10.0.0.0/24\" }\nnode.\"n[1-3]\" = { first_id = 1, lan0 = \"a\" }\n",
    )
    .expect("inventory");
    let mut command = Command::new(ARMENTO);
    command
        .args(["boot", "view", "/etc/hostname", "--json", "--root"])
        .arg(dir.join("root"))
        .arg("--farm")
        .arg(&farm);
    let output = command.output().expect("armento");
    let seen: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let files: Vec<&str> = seen["views"]
        .as_array()
        .expect("views")
        .iter()
        .filter_map(|v| v["file"].as_str()?.rsplit('/').next())
        .collect();
    assert_eq!(
        files,
        ["hostname", "hostname$$HOST=n2$$", "hostname$$IP=10.0.0.3$$"]
    );
    assert_eq!(seen["unknown_nodes"][0], "n9");
    fs::remove_dir_all(&dir).expect("removed");
}
