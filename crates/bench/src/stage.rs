//! Labs for the benches: no quota, unshaped links, taken down with the value or with this process.

use crate::programs::Programs;
use crate::run::{self, Limit};
use crate::sys;
use anyhow::{Context, Result, bail};
use armento_lab::{Lab, Link, Node, Spec};
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// Workloads run as an ordinary user: root's programs stay home unless a node allows them.
pub const USER: &str = "nobody";
/// Time limit for actions of less than a second.
pub const SOON: u64 = 20;
/// Time limit for touching memory that the hypervisor must provide first.
const WARM: u64 = 60;
/// A guest kernel reports free memory 2 s after it was freed (PAGE_REPORTING_DELAY in mm/page_reporting.c, Linux 6.18).
const REPORTED: Duration = Duration::from_secs(3);

/// Shared by all benches.
pub struct Stage {
    pub armento: PathBuf,
    pub programs: Programs,
    pub quick: bool,
    /// Part of the names of the selected cases; empty: all.
    pub only: String,
    pub limit: Limit,
}

/// Differences between the farms of the benches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Farm {
    /// Every node on the same core.
    pub one_core: bool,
    pub plain: bool,
    /// Processes move only by command.
    pub no_policy: bool,
    /// New programs are placed round-robin.
    pub deals: bool,
    /// Guests leave when their node's owner comes; the owner counts as away after three seconds.
    pub owner_first: bool,
    /// Unlimited if not given.
    pub link: Option<Link>,
}

impl Farm {
    fn config(self) -> String {
        let mut text = String::new();
        if self.plain {
            text += "wire = \"plain\"\n";
        }
        if self.no_policy {
            text += "policy = \"none\"\n";
        }
        if self.deals {
            text += "policy = \"static\"\n";
        }
        if self.owner_first {
            text += "owner_first = true\nowner_idle_ms = 3000\n";
        }
        text
    }
}

impl Stage {
    /// A farm of three nodes.
    pub fn farm(&self, farm: Farm) -> Result<Lab> {
        let spec = Spec {
            name: format!("bench-{}", std::process::id()),
            nodes: 3,
            speeds: vec![1.0],
            mem: None,
            link: farm.link.unwrap_or(Link::None),
            farm: false,
            exe: Some(self.armento.clone()),
            ..Spec::default()
        };
        let lab = up(spec, farm.one_core)?;
        for node in lab.nodes() {
            let mut c = node.command("sh");
            c.args([
                "-c",
                "mkdir -p /etc/armento && printf %s \"$1\" >/etc/armento/config.toml",
                "sh",
                &farm.config(),
            ]);
            run::lines(c, Limit::secs(SOON))?;
        }
        armento_lab::farm::start(&lab).context("the farm could not be made")?;
        Ok(lab)
    }

    /// A workload in a node, without Armento.
    pub fn native(&self, node: &Node, program: &str, args: &[&str]) -> Command {
        let mut c = node.command_as(USER, self.programs.path(program));
        c.args(args);
        c
    }

    /// The same under `armento run OPTIONS`.
    pub fn armento(&self, node: &Node, options: &[&str], program: &str, args: &[&str]) -> Command {
        let mut c = node.command_as(USER, "armento");
        c.arg("run")
            .args(options)
            .arg(self.programs.path(program))
            .args(args);
        c
    }

    /// Touches so much memory and frees it, so that the next allocation uses memory that this machine already has: a
    /// virtual one returns free memory to its hypervisor, and the first touch then costs 1.5 s a GiB
    /// (docs/kernel-notes.md). Waits before that, so that memory freed earlier is returned now and not
    /// during the measurement. All nodes have the same memory.
    pub fn warm(&self, lab: &Lab, mib: u64, pages: &[&str]) -> Result<()> {
        sleep(REPORTED);
        let size = mib.to_string();
        let warm = [&["warm", &size], pages].concat();
        run::lines(self.native(lab.node(2), "bulk", &warm), Limit::secs(WARM)).map(drop)
    }

    /// `few` with `--quick`.
    pub fn rounds(&self, usual: usize, few: usize) -> usize {
        if self.quick { few } else { usual }
    }
}

/// A lab pins its nodes to the cores of the process that starts it.
fn up(spec: Spec, one_core: bool) -> Result<Lab> {
    let all = sys::affinity()?;
    if one_core {
        let first = sys::members(&all);
        let first = first.first().context("no processor to run on")?;
        sys::set_affinity(&sys::only(*first))?;
    }
    let lab = Lab::up(spec);
    sys::set_affinity(&all)?;
    lab
}

/// Figures of a move, from its own report.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// CLOCK_MONOTONIC around the command.
    pub begin_ns: u64,
    pub end_ns: u64,
    pub pause_ms: f64,
    /// From the order to the resumption on the target.
    pub took_ms: f64,
    pub bytes: f64,
}

/// `armento migrate PID TO`, run on the home node.
pub fn migrate(home: &Node, pid: u32, to: &str, limit: Limit) -> Result<Moved> {
    let mut c = home.command("armento");
    c.args(["migrate", &pid.to_string(), to, "--json"]);
    let begin_ns = sys::now_ns();
    let lines = run::lines(c, limit)?;
    let end_ns = sys::now_ns();
    let Some([pause_us, total_us, bytes]) = parse_moved(&lines.concat()) else {
        bail!("`armento migrate` said: {}", lines.join(" / "))
    };
    Ok(Moved {
        begin_ns,
        end_ns,
        pause_ms: pause_us / 1e3,
        took_ms: total_us / 1e3,
        bytes,
    })
}

/// Output of `armento migrate --json`: microseconds of pause and in all, bytes.
fn parse_moved(json: &str) -> Option<[f64; 3]> {
    let said: serde_json::Value = serde_json::from_str(json).ok()?;
    let all = ["pause_us", "total_us", "bytes"].map(|k| said[k].as_f64());
    let [Some(pause), Some(total), Some(bytes)] = all else {
        return None;
    };
    Some([pause, total, bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_migrate_is_parsed() {
        let json = r#"{"pid": 8, "node": "n2", "pause_us": 4200, "total_us": 9000, "bytes": 70}"#;
        assert_eq!(parse_moved(json), Some([4200.0, 9000.0, 70.0]));
        assert_eq!(parse_moved(r#"{"pid": 812, "node": null}"#), None);
    }

    #[test]
    fn settings_of_farms() {
        assert_eq!(Farm::default().config(), "");
        let farm = Farm {
            plain: true,
            no_policy: true,
            one_core: true,
            ..Farm::default()
        };
        assert_eq!(farm.config(), "wire = \"plain\"\npolicy = \"none\"\n");
    }
}
