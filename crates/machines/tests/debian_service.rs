//! The Debian package: installed, restarted, upgraded, downgraded, crashed, removed, purged, with guests all the while.

use armento_machines::farm::{COUNTER, Farm, Program, debian_12, root};
use armento_machines::{Kernel, Kind, Machine};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Requirement: so many guests survive so many ends of their daemon.
const GUESTS: usize = 8;
const ROUNDS: usize = 20;

/// The package built by `make deb`; `make test-all` builds it first.
fn package() -> Option<PathBuf> {
    let dir = root().join("target/debian");
    let mut all = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let deb = all.find(|e| e.file_name().to_string_lossy().ends_with("_amd64.deb"));
    if deb.is_none() {
        println!("skipped: no package: make deb");
    }
    deb.map(|e| e.path())
}

/// The same package with a higher version.
fn newer(deb: &Path, dir: &Path) -> PathBuf {
    let (tree, to) = (dir.join("newer"), dir.join("newer.deb"));
    let script = format!(
        "set -e; rm -rf {0}; dpkg-deb -R {1} {0}; sed -i 's/^Version: .*/Version: 9.9.9-1/' {0}/DEBIAN/control; \
         dpkg-deb -Zgzip --root-owner-group -b {0} {2}; rm -rf {0}",
        tree.display(),
        deb.display(),
        to.display()
    );
    let out = Command::new("sh")
        .args(["-c", &script])
        .output()
        .expect("sh");
    assert!(out.status.success(), "{out:?}");
    to
}

/// Limits and processes of the guests of n1.
fn guests(m: &Machine) -> String {
    m.sh(
        "root",
        "for g in $(find /sys/fs/cgroup -type d -name 'armento-n1-*' | sort); do echo $g $(cat $g/memory.max) $(sort -n $g/cgroup.procs); done",
    )
}

#[test]
fn guests_survive_every_end_of_the_packaged_daemon() {
    let Some(deb) = package() else { return };
    let kernels = [Kernel::V6_12, Kernel::V6_12];
    let Some(farm) = Farm::boot_long(&debian_12(Kind::Small, &kernels)) else {
        return;
    };
    let newer = newer(&deb, farm.site.dir());
    for m in &farm.machines {
        m.put(&deb, "/root/old.deb").expect("the package");
        m.put(&newer, "/root/new.deb").expect("the newer one");
        m.sh(
            "root",
            "DEBIAN_FRONTEND=noninteractive apt-get install -q -y /root/old.deb",
        );
    }
    farm.join();
    let (n1, n2) = (farm.n(1), farm.n(2));
    let all: Vec<_> = (0..GUESTS)
        .map(|_| Program::start(n1, "alice", "--on n2", COUNTER))
        .collect();
    all.iter().for_each(|p| p.at("n2"));
    let before = guests(n2);
    let ends = [
        "systemctl restart armento",
        "kill -KILL $(systemctl show -p MainPID --value armento)",
        "kill -ABRT $(systemctl show -p MainPID --value armento)",
        "DEBIAN_FRONTEND=noninteractive apt-get install -q -y /root/new.deb",
        "DEBIAN_FRONTEND=noninteractive dpkg --force-downgrade -i /root/old.deb",
    ];
    for round in 0..ROUNDS {
        n2.sh("root", ends[round % ends.len()]);
        // A crash counts against the unit's start limit, as it should; this test crashes it on purpose.
        n2.sh(
            "root",
            "systemctl reset-failed armento; systemctl start armento",
        );
        farm.all_alive();
        assert_eq!(guests(n2), before, "round {round}");
    }
    for p in &all {
        assert_eq!(p.place().as_deref(), Some("n2"), "{}", p.err());
    }

    // Removal sends the guests home first; purge leaves no file.
    n2.sh(
        "root",
        "DEBIAN_FRONTEND=noninteractive apt-get remove -q -y armento",
    );
    for p in &all {
        p.at("n1");
        p.touch("end");
    }
    all.iter().for_each(|p| p.ends(0));
    assert_eq!(guests(n2), "");
    n2.sh(
        "root",
        "DEBIAN_FRONTEND=noninteractive apt-get purge -q -y armento",
    );
    let left = "ls -d /etc/armento /var/lib/armento /run/armento 2>/dev/null; systemctl list-units --all --plain 'armento*' --no-legend";
    assert_eq!(n2.run("root", left).out, "");
}
