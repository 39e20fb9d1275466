//! `armento fabric plan`.

use super::source::{About, node};
use crate::out::{Failure, say, say_json};
use anyhow::Result;
use armento_fabric::diff::{commands, diff};
use armento_fabric::inventory::{Farm, Node};
use armento_fabric::observe::observe;
use armento_fabric::plan::{Device, NodePlan, plan};
use armento_fabric::render::{self, Backend, BootService, Dhcp, File, Form, node_files};
use armento_provision::layout::{HTTP, TFTP};
use serde_json::json;
use std::path::PathBuf;

const HELP: &str = "Examples:
  armento fabric plan                          this node's links, addresses and routes
  armento fabric plan --node n03 --for netplan
  armento fabric plan --for networkd --write /tmp/n1
  armento fabric plan --diff                   the commands that `apply` would run
  armento fabric plan --file hosts             /etc/hosts of the whole farm
  armento fabric plan --file dnsmasq --node srv

Nothing is changed, but for files below the directory of --write.";

const FILES: [&str; 9] = [
    "hosts",
    "openmosix.map",
    "mpd.hosts",
    "mpich",
    "openmpi",
    "pvm",
    "parallel",
    "dnsmasq",
    "ipxe",
];

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    about: About,
    /// The files for this system
    #[arg(long = "for", value_name = "SYSTEM", value_parser = ["ifupdown", "netplan", "networkd", "ip"])]
    backend: Option<String>,
    /// What differs from this machine, and the commands that would mend it
    #[arg(long, conflicts_with_all = ["backend", "file"])]
    diff: bool,
    /// A file of the whole farm instead
    #[arg(long, value_name = "FILE", value_parser = FILES, conflicts_with = "backend")]
    file: Option<String>,
    /// With --file dnsmasq: beside another DHCP server
    #[arg(long, requires = "file")]
    proxy: bool,
    /// Write the files below this directory instead of showing them
    #[arg(long, value_name = "DIR", requires = "backend")]
    write: Option<PathBuf>,
    /// Print JSON (schema armento.fabric.plan/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<i32> {
    let farm = args.about.source.read()?;
    if let Some(file) = &args.file {
        let text = whole(&farm, file, args)?;
        match args.json {
            true => say_json(
                "armento.fabric.plan/1",
                json!({ "file": file, "text": text }),
            ),
            false => say(&text),
        }
        return Ok(0);
    }
    let node = args.about.node(&farm)?;
    let plan = plan(&farm, node);
    if args.diff {
        return difference(&plan, args.json);
    }
    let files = match args.backend.as_deref().and_then(Backend::from_word) {
        Some(backend) => node_files(&plan, backend),
        None => Vec::new(),
    };
    if let Some(dir) = &args.write {
        return write(dir, &files);
    }
    if args.json {
        say_json(
            "armento.fabric.plan/1",
            json!({ "plan": plan, "files": files }),
        );
    } else if args.backend.is_some() {
        let one = |f: &File| format!("### {}\n{}", f.path, f.text);
        say(&files.iter().map(one).collect::<Vec<_>>().join("\n"));
    } else {
        say(&text(&plan));
    }
    Ok(0)
}

fn whole(farm: &Farm, file: &str, args: &Args) -> Result<String> {
    Ok(match file {
        "hosts" => render::hosts(farm),
        "openmosix.map" => {
            let (text, losses) = render::openmosix_map(farm);
            for loss in losses {
                eprintln!("not in the map: {loss}");
            }
            text
        }
        "mpd.hosts" => render::mpd_hosts(farm),
        "mpich" => render::hostfile(farm, Form::Mpich),
        "openmpi" => render::hostfile(farm, Form::OpenMpi),
        "pvm" => render::hostfile(farm, Form::Pvm),
        "parallel" => render::hostfile(farm, Form::Parallel),
        "ipxe" => render::ipxe(farm, farm.boot_servers.first().map(String::as_str), HTTP),
        _ => {
            let server: &Node = match (&args.about.node, farm.boot_servers.first()) {
                (None, Some(first)) => node(farm, Some(first))?,
                (name, _) => node(farm, name.as_deref())?,
            };
            let dhcp = if args.proxy { Dhcp::Proxy } else { Dhcp::Own };
            let failure = || Failure {
                message: format!("{} is not in a net that nodes boot from", server.name),
                hint: "add boot = true to a net and name servers in boot_servers".into(),
            };
            let service = BootService {
                dhcp,
                port: HTTP,
                tftp: TFTP.into(),
            };
            render::dnsmasq(farm, server, &service).ok_or_else(failure)?
        }
    })
}

fn difference(plan: &NodePlan, as_json: bool) -> Result<i32> {
    let seen = observe(plan.sysctls.keys().map(String::as_str)).map_err(|e| Failure {
        message: e.to_string(),
        hint: e.hint().into(),
    })?;
    let (drift, commands) = (diff(plan, &seen), commands(plan, &seen));
    if as_json {
        say_json(
            "armento.fabric.plan/1",
            json!({ "node": plan.node, "drift": drift, "commands": commands }),
        );
        return Ok(0);
    }
    let mut text = String::new();
    for d in &drift {
        text += &format!("# {} {}: {} -> {}\n", d.code, d.link, d.found, d.wanted);
    }
    for command in commands {
        text += &format!("ip {command}\n");
    }
    for d in drift.iter().filter(|d| d.code == "sysctl") {
        text += &format!("sysctl -w {}={}\n", d.link, d.wanted);
    }
    if drift.is_empty() {
        text = format!("{}: nothing differs\n", plan.node);
    }
    say(&text);
    Ok(0)
}

fn write(dir: &std::path::Path, files: &[File]) -> Result<i32> {
    use std::os::unix::fs::PermissionsExt as _;
    for file in files {
        let to = dir.join(file.path.trim_start_matches('/'));
        let parent = to.parent().unwrap_or(dir);
        let written = std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&to, &file.text))
            .and_then(|()| {
                std::fs::set_permissions(&to, std::fs::Permissions::from_mode(file.mode))
            });
        written.map_err(|e| Failure {
            message: format!("cannot write {}: {e}", to.display()),
            hint: "files before it were written; choose another directory".into(),
        })?;
        say(&format!("{}\n", to.display()));
    }
    Ok(0)
}

fn text(plan: &NodePlan) -> String {
    let mut text = format!("{}\n", plan.node);
    for link in &plan.links {
        let what = match &link.device {
            Device::Nic { mac, bond } => {
                let mac = mac.map_or("named by the kernel".to_owned(), |m| m.to_string());
                bond.as_ref()
                    .map_or(mac.clone(), |b| format!("{mac}, in {b}"))
            }
            Device::Bond {
                of,
                mode,
                miimon_ms,
                ..
            } => format!("bond {mode} of {}, miimon {miimon_ms}", of.join(" + ")),
            Device::Vlan { below, id } => format!("VLAN {id} on {below}"),
        };
        let addresses: Vec<String> = link.addresses.iter().map(ToString::to_string).collect();
        text += &format!(
            "  {:<10} {what}, mtu {}  {}\n",
            link.name,
            link.mtu,
            addresses.join(" ")
        );
    }
    for route in &plan.routes {
        text += &format!("  route      {}\n", render::route_words(route));
    }
    for (key, value) in &plan.sysctls {
        text += &format!("  setting    {key} = {value}\n");
    }
    text
}
