//! Machines without a disk: switched on, they become nodes.

use armento_machines::diskless::{BOOT, BootLab, Firmware, Rom};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

const FARM: &str = r#"
farm = { name = "diskless", boot_servers = ["srv"] }
net.mgmt = { cidr = "10.77.0.0/24", boot = true }
profile.live = { root = "live", lan0 = "mgmt", persist = ["/var/log"] }
profile.memory = { root = "ram", lan0 = "mgmt" }
node.srv = { id = 1, lan0 = "mgmt" }
node.n2 = { id = 2, profile = "live", mac = { lan0 = "52:54:00:77:00:02" } }
node.n3 = { id = 3, profile = "memory", mac = { lan0 = "52:54:00:77:00:03" } }
"#;

/// A service that says on the console what the node sees, each second.
fn with_probe(root: &Path) {
    let unit = "[Unit]\nDescription=What a test sees\nAfter=systemd-networkd.service\n\
                [Service]\nExecStart=/usr/local/sbin/probe\n\
                [Install]\nWantedBy=multi-user.target\n";
    let script = "#!/bin/sh\n\
        exec > /dev/console 2>&1\n\
        touch /var/log/was-here\n\
        i=0; took=\n\
        while true; do\n\
          i=$((i+1)); order=$(cat /srv/order)\n\
          if [ \"$order\" != none ] && [ \"$took\" != \"$order-took=7\" ] && [ \"$(cat /proc/sys/kernel/hostname)\" = n2 ]; then\n\
            setpriv --reuid=65534 --regid=65534 --clear-groups armento run --on $order sh -c 'exit 7'\n\
            took=$order-took=$?\n\
          fi\n\
          echo \"probe $(cat /proc/sys/kernel/hostname) root=$(findmnt -no FSTYPE / 2>/dev/null || sed -n 's/^[^ ]* \\/ \\([^ ]*\\).*/\\1/p' /proc/mounts | tail -1)\" \\\n\
            \"link=$(ip -o -4 addr show lan0 | wc -l) edit=$(cat /srv/edit 2>/dev/null) tag=$(cat /srv/tagged 2>/dev/null)\" \\\n\
            \"used=$(awk '/MemTotal/{t=$2}/MemAvailable/{a=$2}END{print int((t-a)/1024)}' /proc/meminfo) $took count=$i\"\n\
          sleep 1\n\
        done\n";
    fs::write(root.join("etc/systemd/system/probe.service"), unit).expect("unit");
    let wants = root.join("etc/systemd/system/multi-user.target.wants/probe.service");
    let _ = fs::remove_file(&wants);
    std::os::unix::fs::symlink("/etc/systemd/system/probe.service", wants).expect("link");
    let probe = root.join("usr/local/sbin/probe");
    fs::write(&probe, script).expect("probe");
    fs::set_permissions(&probe, fs::Permissions::from_mode(0o755)).expect("mode");
    fs::write(root.join("srv/tagged"), "all\n").expect("file");
    fs::write(root.join("srv/tagged$$HOST=n2$$"), "n2\n").expect("file");
    fs::write(root.join("srv/tagged$$IP=10.77.0.3$$"), "n3\n").expect("file");
    // Names that an overlay did not find stay missing for it: the edit is one of a file that is there.
    fs::write(root.join("srv/edit"), "before\n").expect("file");
    fs::write(root.join("srv/order"), "none\n").expect("file");
}

/// Waits until the last line of a machine's probe has these words.
fn seen(lab: &BootLab, number: u8, words: &str) -> String {
    lab.until(
        &format!("n{number}: {words}"),
        Duration::from_secs(60),
        &|| {
            let console = lab.console(number);
            let mut lines = console.lines().rev().filter(|l| l.contains("probe n"));
            lines
                .next()
                .filter(|l| l.contains(words))
                .map(str::to_owned)
        },
    )
}

/// How often the probe has looked.
fn count(line: &str) -> u32 {
    let (_, count) = line.rsplit_once("count=").expect("a count");
    count.trim().parse().expect("a number")
}

#[test]
fn machines_without_a_disk_become_nodes_by_bios_and_uefi() {
    if std::env::var_os("ARMENTO_LONG_TESTS").is_none() {
        println!("skipped: a long test (make test-all)");
        return;
    }
    let Some(lab) = BootLab::new_or_skip(FARM, &[1]) else {
        return;
    };
    if !lab.image(&with_probe) {
        return;
    }
    let _ = fs::remove_dir_all(lab.persistent("n2"));
    lab.serve();
    let why = lab.boot(&["why", "n2"]);
    assert!(why.contains("no boot server has heard of it"), "{why}");
    lab.on(2, Firmware::Bios, 1024);
    lab.joined("n2");
    // Its name, its root, its own file of several, its network after networkd has started.
    seen(&lab, 2, "probe n2 root=overlay link=1");
    seen(&lab, 2, "edit=before tag=n2");
    assert!(lab.persistent("n2").join("var/log/was-here").exists());
    // An edit of the shared root is seen by a node that runs.
    fs::write(lab.root().join("srv/edit"), "seen\n").expect("edit");
    seen(&lab, 2, "edit=seen");
    let changes = lab.boot(&["image", "diff", "base"]);
    assert!(changes.contains("~ srv/edit (content)"), "{changes}");

    lab.on(3, Firmware::Uefi, 1536);
    lab.joined("n3");
    seen(&lab, 3, "probe n3 root=overlay link=1");
    seen(&lab, 3, "tag=n3");
    let nodes = lab.sh(&["nodes", "--json"]);
    assert_eq!(nodes.matches("\"alive\"").count(), 3, "{nodes}");
    // It takes programs of the other one. (The processor of this machine has features that emulated ones lack.)
    fs::write(lab.root().join("srv/order"), "n3\n").expect("order");
    seen(&lab, 2, "n3-took=7");

    // A machine without a name: listed, claimed, and then a node of the inventory.
    lab.off(3);
    lab.on(4, Firmware::Bios, 1024);
    lab.until("n4 waits", Duration::from_secs(120), &|| {
        let waiting = lab.try_boot(&["claim"]).ok()?;
        waiting.contains("52:54:00:77:00:04").then_some(())
    });
    let farm = lab.dir().join("farm.toml").display().to_string();
    lab.boot(&[
        "claim",
        "52:54:00:77:00:04",
        "n4",
        "--profile",
        "live",
        "--farm",
        &farm,
    ]);
    lab.joined("n4");
    seen(&lab, 4, "tag=all");

    // The power fails, and comes back: the same node again, with what it kept.
    lab.off(2);
    lab.on(2, Firmware::Bios, 1024);
    lab.until("n2 boots again", Duration::from_secs(60), &|| {
        lab.step("n2")
            .filter(|(step, _)| step != "joined")
            .map(drop)
    });
    lab.joined("n2");
    let used = lab.try_boot(&["image", "remove", "base@1"]);
    assert!(used.is_err() || !lab.root().ends_with("1/root"));
}

#[test]
fn a_live_root_outlives_its_boot_server() {
    if std::env::var_os("ARMENTO_LONG_TESTS").is_none() {
        println!("skipped: a long test (make test-all)");
        return;
    }
    let farm = FARM
        .replace("[\"srv\"]", "[\"b\", \"srv\"]")
        .replace(", persist = [\"/var/log\"]", "")
        + "node.b = { id = 250, lan0 = \"mgmt\" }\n";
    let Some(lab) = BootLab::new_or_skip(&farm, &[1]) else {
        return;
    };
    if !lab.image(&with_probe) {
        return;
    }
    let join = lab.farm();
    let b = lab.second("b", 250, &join);
    b.serve();
    lab.serve_boot();
    b.copied();
    // n2 shall boot from b.
    lab.stop_boot();
    lab.on(2, Firmware::Bios, 1024);
    lab.until("n2 has its root from b", BOOT, &|| {
        lab.step("n2")
            .filter(|(step, _)| ["root", "system"].contains(&&**step))
    });
    // Only this one has the farm's key.
    lab.serve_boot();
    lab.joined("n2");
    seen(&lab, 2, "tag=n2");
    let before = count(&seen(&lab, 2, "edit=before"));
    b.dies();
    println!("the boot server of n2 died");
    let begun = Instant::now();
    fs::write(lab.root().join("srv/edit"), "after\n").expect("edit");
    // The program that sees it is the one that ran before.
    let after = count(&seen(&lab, 2, "edit=after"));
    assert!(after > before, "{before} {after}");
    println!(
        "n2 saw an edit {} s after its boot server died",
        begun.elapsed().as_secs()
    );
    // New nodes still boot.
    lab.on(3, Firmware::Bios, 1536);
    lab.joined("n3");
}

/// Waits until a node has fetched its script, as iPXE does.
fn has_ipxe(lab: &BootLab, node: &str) {
    lab.until(&format!("{node} runs iPXE"), BOOT, &|| {
        let (step, _) = lab.step(node)?;
        (!["asked", "address", "loader"].contains(&&*step)).then_some(())
    });
}

/// What the boot server's dnsmasq has sent by TFTP, whole.
fn sent(lab: &BootLab, file: &str) -> usize {
    let log = fs::read_to_string(lab.dir().join("serve.log")).expect("log");
    let whole = |l: &&str| l.contains(": sent ") && l.contains(&format!("/{file} to "));
    log.lines().filter(whole).count()
}

#[test]
fn cards_without_ipxe_load_it_by_tftp() {
    if std::env::var_os("ARMENTO_LONG_TESTS").is_none() {
        println!("skipped: a long test (make test-all)");
        return;
    }
    let Some(lab) = BootLab::new_or_skip(FARM, &[1]) else {
        return;
    };
    if !lab.image(&with_probe) {
        return;
    }
    lab.serve();
    // Firmware of UEFI with its own PXE, as far as its script.
    lab.on_with(3, Firmware::Uefi, Rom::Other, 1024);
    has_ipxe(&lab, "n3");
    lab.off(3);
    assert!(sent(&lab, "snponly.efi") > 0);
    // A machine without a name asks, and gives up; it is claimed, and switched on again.
    lab.on_with(4, Firmware::Bios, Rom::Other, 1024);
    lab.until("n4 asks", Duration::from_secs(120), &|| {
        let waiting = lab.try_boot(&["claim"]).ok()?;
        waiting.contains("52:54:00:77:00:04").then_some(())
    });
    lab.off(4);
    let farm = lab.dir().join("farm.toml").display().to_string();
    let card = "52:54:00:77:00:04";
    lab.boot(&["claim", card, "n4", "--profile", "live", "--farm", &farm]);
    lab.on_with(4, Firmware::Bios, Rom::Other, 1024);
    lab.joined("n4");
    assert!(sent(&lab, "undionly.kpxe") > 0);
    seen(&lab, 4, "tag=all");
}

#[test]
fn nodes_boot_beside_another_dhcp_server() {
    if std::env::var_os("ARMENTO_LONG_TESTS").is_none() {
        println!("skipped: a long test (make test-all)");
        return;
    }
    let Some(lab) = BootLab::new_or_skip(FARM, &[1]) else {
        return;
    };
    if !lab.image(&with_probe) {
        return;
    }
    let farm = lab.dir().join("farm.toml").display().to_string();
    let tftp = lab.dir().join("tftp").display().to_string();
    let words = [
        "init",
        "--proxy",
        "--server=srv",
        "--farm",
        &farm,
        "--tftp",
        &tftp,
    ];
    lab.boot(&[&words[..], &["--append", "console=ttyS0"]].concat());
    lab.foreign_dhcp();
    lab.serve();
    // QEMU's iPXE as far as its script, and a ROM that is not iPXE as far as a node.
    lab.on(3, Firmware::Bios, 1024);
    has_ipxe(&lab, "n3");
    lab.off(3);
    lab.on_with(2, Firmware::Bios, Rom::Other, 1024);
    lab.joined("n2");
    assert!(sent(&lab, "undionly.kpxe") > 0);
    seen(&lab, 2, "link=1");
    let theirs = fs::read_to_string(lab.dir().join("foreign.log")).expect("log");
    for card in ["52:54:00:77:00:02", "52:54:00:77:00:03"] {
        let gave = |l: &str| l.contains("DHCPACK") && l.contains(card);
        assert!(theirs.lines().any(gave), "{card}: {theirs}");
    }
}
