//! `armento boot reboot --rolling` on a real farm: its daemons drain nodes and take them back. A machine that starts again is
//! imitated: its daemon ends and begins anew, and it tells the boot server what an initramfs tells.

use super::{json, state};
use crate::trust::Case;
use crate::{Farm, fails_with, text, until};
use std::path::Path;

const TOOLS: [&str; 3] = [
    "/usr/sbin/dnsmasq",
    "/usr/lib/ipxe/undionly.kpxe",
    "/usr/bin/curl",
];
const REBOOT: &str = "armento boot reboot --rolling --json --dir /tmp/boot --shell /tmp/shell";

/// Address, its net, and its last number.
fn address(farm: &Farm, node: &str) -> (String, String, String) {
    let said = farm.sh(node, "hostname -i | cut -d' ' -f1");
    let address = said.trim().to_owned();
    let (net, number) = address.rsplit_once('.').expect("an address");
    (address.clone(), format!("{net}.0/24"), number.to_owned())
}

fn mac(node: &str) -> String {
    format!("52:54:00:00:00:0{}", &node[1..])
}

/// A boot server on n1, with an image that is just enough, for n2 and n3.
fn boot_server(farm: &Farm) {
    let (own, net, _) = address(farm, "n1");
    let number = |node: &str| address(farm, node).2;
    let diskless = |node: &str| {
        format!(
            "node.{node} = {{ id = {}, profile = \"live\", mac = {{ lan0 = \"{}\" }} }}\n",
            number(node),
            mac(node)
        )
    };
    let inventory = format!(
        "farm = {{ name = \"t\", boot_servers = [\"n1\"] }}\nnet.mgmt = {{ cidr = \"{net}\", boot = true }}\n\
         profile.live = {{ root = \"live\", lan0 = \"mgmt\" }}\nnode.n1 = {{ id = {}, lan0 = \"mgmt\" }}\n{}{}",
        number("n1"),
        diskless("n2"),
        diskless("n3")
    );
    let root = "mkdir -p /tmp/root && cd /tmp/root && mkdir -p usr/lib/systemd/system usr/bin boot etc usr/lib/modules/6.12.1-t/kernel
        ln -s usr/lib lib; head -c 64 /proc/self/exe > usr/lib/systemd/systemd; echo kernel > boot/vmlinuz-6.12.1-t
        cd usr/lib/modules/6.12.1-t; touch modules.alias modules.builtin
        for m in overlay nfs nfsv3 loop erofs; do echo module > kernel/$m.ko; echo kernel/$m.ko: >> modules.dep; done";
    farm.sh("n1", root);
    farm.sh("n1", &format!("printf '%s' '{inventory}' > /tmp/farm.toml"));
    farm.sh(
        "n1",
        "armento boot init --server n1 --farm /tmp/farm.toml --dir /tmp/boot --tftp /tmp/tftp >/dev/null
         armento boot image import base /tmp/root --dir /tmp/boot >/dev/null
         setsid armento boot serve --dir /tmp/boot >/tmp/serve.log 2>&1 </dev/null &",
    );
    let answers = format!("curl -sf http://{own}:8117/time");
    until("the boot server", || {
        farm.run("n1", &answers).status.success()
    });
    // The shell of the test: it asks the node itself.
    let shell = r#"cat > /tmp/shell <<'END'
#!/bin/sh
exec perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new("$ARGV[0]:2222") or die "no route\n"; <$s>' "$1"
END
chmod 755 /tmp/shell"#;
    farm.sh("n1", shell);
    for node in ["n2", "n3"] {
        let (server, mac) = (format!("http://{own}:8117"), mac(node));
        let script = format!(
            "#!/bin/sh
pkill -f \"[a]rmento node\\$\"
while pgrep -f \"[a]rmento node\\$\"; do sleep 0.1; done
curl -s \"{server}/node.ipxe?mac={mac}\"
for s in initrd network root system; do
  curl -s -d \"{{\\\"mac\\\":\\\"{mac}\\\",\\\"step\\\":\\\"$s\\\"}}\" {server}/progress
done
setsid armento node >/tmp/node.log 2>&1 </dev/null &
until armento nodes; do sleep 0.1; done
curl -s -d \"{{\\\"mac\\\":\\\"{mac}\\\",\\\"step\\\":\\\"joined\\\"}}\" {server}/progress
"
        );
        farm.sh(
            node,
            &format!("printf '%s' '{script}' > /tmp/again; chmod 755 /tmp/again"),
        );
        listens(farm, node);
    }
}

/// The node starts again for whoever connects.
fn listens(farm: &Farm, node: &str) {
    farm.sh(
        node,
        r#"setsid perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 5, LocalPort => 2222, ReuseAddr => 1) or die;
           while ($c = $s->accept) { system("setsid /tmp/again >/tmp/again.log 2>&1 </dev/null &"); print $c "ok\n"; close $c }' \
           >/dev/null 2>&1 </dev/null & echo $! > /tmp/listens"#,
    );
}

pub fn nodes_start_again_in_turn(farm: &Farm) {
    if let Some(missing) = TOOLS.iter().find(|t| !Path::new(t).exists()) {
        println!("skipped: {missing} is missing (make need-test installs it)");
        return;
    }
    boot_server(farm);
    let guest = Case::start(farm, "n1", "--stay", "booted");
    guest.goes_to("n2");
    let plan = farm.sh("n1", &format!("{REBOOT} --dry-run"));
    assert!(
        plan.contains("drain n2, start it again with base@1"),
        "{plan}"
    );

    // n3 is not reached: n2 is done, and n3 stays as it was left.
    farm.sh("n3", "pkill -F /tmp/listens");
    let out = farm.run("n1", REBOOT);
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    fails_with(&out, &["n3: ", "no route", "started again: n2"]);
    let said = json(&text(&out.stdout));
    assert_eq!(said["nodes"], serde_json::json!(["n2"]), "{said}");
    assert_eq!(said["failed"][0]["node"], "n3", "{said}");
    guest.is_at("n1");
    until("n2 to take part", || state(farm, "n1", "n2") == "alive");
    until("n3 to be drained", || state(farm, "n1", "n3") == "drained");

    // The same command goes on.
    listens(farm, "n3");
    let said = json(&farm.sh("n1", REBOOT));
    assert_eq!(said["passed_over"], serde_json::json!(["n2"]), "{said}");
    assert_eq!(said["nodes"], serde_json::json!(["n3"]), "{said}");
    until("n3 to take part", || state(farm, "n1", "n3") == "alive");
    // It is complete: the next one is a new one.
    let plan = farm.sh("n1", &format!("{REBOOT} --dry-run"));
    assert!(!plan.contains("pass over"), "{plan}");
    guest.ends_well();
    for node in ["n2", "n3"] {
        farm.sh(node, "pkill -F /tmp/listens");
    }
    farm.sh("n1", "pkill -f '[a]rmento boot serve'");
}
