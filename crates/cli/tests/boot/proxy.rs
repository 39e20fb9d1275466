//! A boot server beside another's DHCP server: addresses come from that one, what to boot from ours, and machines that are
//! not in the inventory hear nothing from us.

use super::{ARMENTO, LONG, Place, until};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Child;

/// The DHCP server of somebody else, at 10.77.0.250.
const FOREIGN: &str = "port=0\ninterface=lan0\nbind-dynamic\nkeep-in-foreground\nlog-facility=-\npid-file=\nleasefile-ro\nno-ping\n\
    dhcp-authoritative\ndhcp-range=10.77.0.100,10.77.0.200,255.255.255.0,1h\n";
const THEIRS: &str = "10.77.0.250";
const OURS: &str = "10.77.0.1";

/// `foreign` and `client` are network namespaces with a cable to lan0.
const CABLES: &str = "set -e
for w in foreign client; do
  setsid unshare --net sh -c \"echo \\$\\$ > $w.pid; exec sleep infinity\" < /dev/null > /dev/null 2>&1 &
  until test -s $w.pid; do sleep 0.05; done
  ip link add $w type veth peer name lan0 netns $(cat $w.pid)
  ip link set $w master lan0 up
  nsenter --target=$(cat $w.pid) --net sh -c 'ip link set lo up; ip link set lan0 up'
done
nsenter --target=$(cat foreign.pid) --net ip addr add 10.77.0.250/24 dev lan0";

struct Beside<'a> {
    place: &'a Place,
    /// End with the namespaces.
    _servers: [Child; 2],
}

impl<'a> Beside<'a> {
    fn new(place: &'a Place) -> Beside<'a> {
        Beside::new_with(place, ":4011 ")
    }

    /// `port`: when our dnsmasq has this one, it answers.
    fn new_with(place: &'a Place, port: &str) -> Beside<'a> {
        let here = place.dir.display();
        place.sh(&format!("cd {here}\n{CABLES}"));
        fs::write(place.dir.join("foreign.conf"), FOREIGN).expect("configuration");
        let log = |name: &str| fs::File::create(place.dir.join(name)).expect("log");
        let script = format!(
            "cd {here}; exec nsenter --target=$(cat foreign.pid) --net dnsmasq --conf-file=foreign.conf"
        );
        let foreign = place
            .command(&["sh", "-c", &script])
            .stdout(log("foreign.log"))
            .stderr(log("foreign.err"))
            .spawn()
            .expect("dnsmasq");
        let serve = place
            .command(&[ARMENTO, "boot", "serve", "--dir", &place.file("boot")])
            .stdout(log("serve.log"))
            .stderr(log("serve.err"))
            .spawn()
            .expect("serve");
        let lab = Beside {
            place,
            _servers: [foreign, serve],
        };
        until("both servers listen", || {
            let ours = lab.place.sh("ss -Hlun");
            ours.contains(port) && lab.inside("foreign", "ss -Hlun").contains(":67 ")
        });
        lab
    }

    fn inside(&self, name: &str, script: &str) -> String {
        let here = self.place.dir.display();
        self.place.sh(&format!(
            "cd {here}; exec nsenter --target=$(cat {name}.pid) --net -- {script}"
        ))
    }

    /// What a machine is answered.
    fn asks(&self, mac: &str, arch: u8, kind: &str) -> Value {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/boot/pxe.py");
        let said = self.inside(
            "client",
            &format!(
                "env BOOT={OURS} python3 {} lan0 {mac} {arch} {kind}",
                script.display()
            ),
        );
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"))
    }
}

/// The servers that answered, with the addresses that they give.
fn answers(said: &Value, step: &str) -> Vec<(String, String)> {
    let word = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let all = said[step].as_array().into_iter().flatten();
    let mut all: Vec<_> = all
        .map(|a| (word(&a["server"]), word(&a["address"])))
        .collect();
    all.sort();
    all
}

#[test]
fn beside_another_dhcp_server_only_the_boot_file_is_ours() {
    // A minute: clients that get no answer wait for it.
    if std::env::var_os("ARMENTO_LONG_TESTS").is_none() {
        println!("skipped: takes minutes; `make test-all` runs it");
        return;
    }
    let Some(place) = Place::new("proxy") else {
        return;
    };
    if !Path::new("/usr/bin/python3").exists() {
        println!("skipped: python3 is missing");
        return;
    }
    let (farm, tftp) = (place.file("farm.toml"), place.file("tftp"));
    let init = place.good(&[
        "init",
        "--proxy",
        "--server=srv",
        "--farm",
        &farm,
        "--tftp",
        &tftp,
    ]);
    assert!(init.contains("beside another DHCP server"), "{init}");
    let lab = Beside::new(&place);
    let url = "http://10.77.0.1:8117/boot.ipxe";
    // Firmware of BIOS and of UEFI (RFC 4578: 0, 7 and 9), then iPXE itself.
    for (arch, kind, file) in [
        (0, "rom", "undionly.kpxe"),
        (7, "rom", "snponly.efi"),
        (9, "rom", "snponly.efi"),
        (0, "ipxe", url),
        (7, "ipxe", url),
    ] {
        let said = lab.asks("52:54:00:77:00:02", arch, kind);
        let offers = answers(&said, "discover");
        assert_eq!(offers.len(), 2, "{arch} {kind}: {said}");
        assert_eq!(offers[0], (OURS.into(), "0.0.0.0".into()), "{said}");
        assert_eq!(offers[1].0, THEIRS, "{said}");
        let given = answers(&said, "request");
        assert_eq!(given, [offers[1].clone()], "{arch} {kind}: {said}");
        let boot = &said["boot"];
        assert_eq!(boot[0]["file"], file, "{arch} {kind}: {said}");
        assert_eq!(boot[0]["server"], OURS, "{said}");
    }
    // What it names is there.
    for file in ["undionly.kpxe", "snponly.efi"] {
        let fetch = format!("curl -sS -o {file} tftp://{OURS}/{file}");
        lab.inside(
            "client",
            &format!(
                "sh -c 'ip addr add 10.77.0.9/24 dev lan0; {fetch}; ip addr del 10.77.0.9/24 dev lan0'"
            ),
        );
        let loader = |dir: &Path| fs::read(dir.join(file)).expect("loader");
        assert!(
            loader(&place.dir) == loader(Path::new("/usr/lib/ipxe")),
            "{file}"
        );
    }
    // A node that is up asks for an address only; a machine that is not ours asks for anything, and for an address of another net.
    let stranger = "52:54:00:77:00:99";
    for (mac, kind) in [
        ("52:54:00:77:00:02", "plain"),
        (stranger, "rom"),
        (stranger, "ipxe"),
        (stranger, "plain"),
    ] {
        let said = lab.asks(mac, 0, kind);
        for step in ["discover", "request"] {
            let servers = answers(&said, step);
            assert_eq!(servers.len(), 1, "{mac} {kind} {step}: {said}");
            assert_eq!(servers[0].0, THEIRS, "{mac} {kind} {step}: {said}");
        }
        assert_eq!(answers(&said, "boot"), [], "{mac} {kind}: {said}");
    }
    let said = lab.asks(stranger, 0, "reboot 10.9.9.9");
    assert!(
        answers(&said, "reboot").iter().all(|(s, _)| s == THEIRS),
        "{said}"
    );
    // It asked how to boot: it can be claimed, and is then answered.
    until("the stranger is listed", || {
        place.good(&["claim"]).contains(stranger)
    });
    place.good(&[
        "claim",
        stranger,
        "n9",
        "--profile",
        "live",
        "--farm",
        &farm,
    ]);
    let begun = std::time::Instant::now();
    loop {
        let said = lab.asks(stranger, 0, "rom");
        if said["boot"][0]["file"] == "undionly.kpxe" {
            break;
        }
        assert!(begun.elapsed() < LONG, "{said}");
    }
}

#[test]
fn two_farms_on_one_wire_answer_their_own_machines_only() {
    let Some(place) = Place::new("wire") else {
        return;
    };
    if !Path::new("/usr/bin/python3").exists() {
        println!("skipped: python3 is missing");
        return;
    }
    place.init();
    // The other server stands for the other farm: it answers everything.
    let lab = Beside::new_with(&place, ":67 ");
    let own = lab.asks("52:54:00:77:00:02", 0, "rom");
    let servers = answers(&own, "discover");
    assert!(
        servers.contains(&(OURS.into(), "10.77.0.2".into())),
        "{own}"
    );
    for kind in ["rom", "plain"] {
        let said = lab.asks("52:54:00:77:00:99", 0, kind);
        assert!(
            answers(&said, "discover").iter().all(|(s, _)| s == THEIRS),
            "{said}"
        );
    }
    // Another farm's machine asks again for the address that it has there: no refusal by ours.
    let said = lab.asks("52:54:00:77:00:99", 0, "reboot 10.9.9.9");
    assert!(
        answers(&said, "reboot").iter().all(|(s, _)| s == THEIRS),
        "{said}"
    );
}
