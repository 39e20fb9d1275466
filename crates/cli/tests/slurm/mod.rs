//! Debian's Slurm on three nodes of a lab: a controller on n1, a daemon on each, munge between them.

use crate::lab::until;
use armento_lab::{Lab, Link, Share, Spec};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const ARMENTO: &str = env!("CARGO_BIN_EXE_armento");
const PROGRAMS: [&str; 4] = ["slurmctld", "slurmd", "munged", "srun"];
const CONF: &str = "ClusterName=lab
SlurmctldHost=n1
SlurmUser=root
AuthType=auth/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmctldPidFile=/tmp/slurm/ctld.pid
SlurmdPidFile=/tmp/slurm/d.pid
SlurmdSpoolDir=/tmp/slurm/spool
StateSaveLocation=/tmp/slurm/state
SlurmctldLogFile=/tmp/slurm/ctld.log
SlurmdLogFile=/tmp/slurm/d.log
SwitchType=switch/none
SelectType=select/linear
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=n[1-3] CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
";
/// slurmd looks for systemd's control group unless it is told the version.
const START: &str = "{ grep -q :1000: /etc/passwd || echo u:x:1000:1000::/tmp:/bin/sh >> /etc/passwd; } &&
mkdir -p /tmp/slurm/state /tmp/slurm/spool /etc/slurm /run/munge /tmp/r && chown 1000:1000 /tmp/r && cp /shared/slurm.conf /etc/slurm/ &&
if [ -d /sys/fs/cgroup/cpu ]; then printf 'CgroupPlugin=cgroup/v1\\nCgroupMountpoint=/sys/fs/cgroup\\n' > /etc/slurm/cgroup.conf; fi &&
cp /shared/munge.key /etc/munge/munge.key && chmod 400 /etc/munge/munge.key &&
chown munge:munge /etc/munge/munge.key /run/munge /var/lib/munge /var/log/munge &&
setpriv --reuid munge --regid munge --clear-groups munged --force >/tmp/slurm/munged 2>&1 &&
if [ $(hostname) = n1 ]; then slurmctld; fi && slurmd -N $(hostname)";

/// Nodes with Slurm, and a directory that they share.
pub struct Cluster {
    name: String,
    _lab: Lab,
}

impl Cluster {
    /// `None`, with a line that says why, where there is no Slurm.
    pub fn up() -> Option<Cluster> {
        let root =
            fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0\t"));
        let installed = |p: &&str| {
            ["/usr/sbin", "/usr/bin"]
                .iter()
                .any(|dir| Path::new(dir).join(p).exists())
        };
        if let Some(lacks) = PROGRAMS.iter().find(|p| !installed(p)) {
            println!(
                "skipped: a farm of a Slurm allocation needs {lacks}: apt-get install slurmctld slurmd slurm-client munge"
            );
            return None;
        }
        if !root {
            println!("skipped: Slurm on a lab needs root");
            return None;
        }
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("slurm");
        let _ = fs::remove_dir_all(&shared);
        fs::create_dir_all(shared.join("meet")).expect("directory");
        fs::write(shared.join("slurm.conf"), CONF).expect("written");
        fs::write(shared.join("munge.key"), [b'k'; 1024]).expect("written");
        let name = format!("f{}-slurm", std::process::id());
        let _lab = Lab::up(Spec {
            name: name.clone(),
            nodes: 3,
            speeds: vec![1.0],
            link: Link::None,
            farm: false,
            shares: vec![Share {
                dir: shared,
                at: "/shared".into(),
            }],
            exe: Some(ARMENTO.into()),
            ..Spec::default()
        })
        .expect("a lab");
        let cluster = Cluster { name, _lab };
        cluster.sh("n1", "chown 1000:1000 /shared/meet");
        for node in ["n1", "n2", "n3"] {
            cluster.sh(node, START);
        }
        until("three nodes of Slurm", || {
            cluster.sh("n1", "sinfo -h -o %t,%D").trim() == "idle,3"
        });
        Some(cluster)
    }

    pub fn run(&self, node: &str, script: &str) -> Output {
        Command::new(ARMENTO)
            .args([
                "lab", "exec", "--name", &self.name, node, "--", "sh", "-c", script,
            ])
            .stdin(Stdio::null())
            .output()
            .expect("armento runs")
    }

    pub fn sh(&self, node: &str, script: &str) -> String {
        let out = self.run(node, script);
        assert!(out.status.success(), "{node}: {script}: {out:?}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}
