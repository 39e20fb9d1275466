//! `armento boot init`.

use super::place::Place;
use crate::dry_run::{self, DryRun};
use crate::fabric::{Source, node};
use crate::out::{Failure, say, say_json};
use anyhow::Result;
use armento_fabric::inventory::Farm;
use armento_provision::layout::{
    BootDir, COPIES, HTTP, NFS, Settings, TFTP, replace, replace_with_mode,
};
use armento_provision::server::configuration;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const HELP: &str = "Examples:
  armento boot init                       this machine gives addresses in the boot net
  armento boot init --proxy               another DHCP server does; this one adds what is needed to boot
  armento boot init --net mgmt --dry-run
  armento boot init --append console=ttyS0

The inventory names the net (boot = true), the boot servers and their nodes. Afterwards: `armento boot image build base`,
then `armento boot serve`. It can be run again: images stay.";

/// iPXE's programs in Debian's package `ipxe`: for BIOS, for UEFI by the firmware's own driver, for UEFI by iPXE's.
const LOADERS: [&str; 3] = ["undionly.kpxe", "snponly.efi", "ipxe.efi"];

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The net from which nodes boot [default: the one with boot = true]
    #[arg(long, value_name = "N")]
    net: Option<String>,
    /// Another DHCP server gives the addresses
    #[arg(long)]
    proxy: bool,
    /// This boot server's name in the inventory [default: the host's name]
    #[arg(long, value_name = "NODE")]
    server: Option<String>,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    place: Place,
    /// Where iPXE's programs are
    #[arg(long, value_name = "DIR", default_value = "/usr/lib/ipxe")]
    loaders: PathBuf,
    /// What dnsmasq gives by TFTP; readable for everybody
    #[arg(long, value_name = "DIR", default_value = TFTP)]
    tftp: PathBuf,
    /// Port of scripts and images
    #[arg(long, value_name = "P", default_value_t = HTTP)]
    http: u16,
    /// Port of live roots
    #[arg(long, value_name = "P", default_value_t = NFS)]
    nfs: u16,
    /// More words for the kernel of every node
    #[arg(long, value_name = "WORDS", default_value = "")]
    append: String,
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.boot.init/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<i32> {
    let farm = args.source.read()?;
    let server = node(&farm, args.server.as_deref())?;
    check_net(&farm, args.net.as_deref())?;
    if !farm.boot_servers.contains(&server.name) {
        let failure = Failure {
            message: format!(
                "{} is no boot server of the inventory; nothing was changed",
                server.name
            ),
            hint: format!(
                "write it there: farm = {{ name = \"…\", boot_servers = [\"{}\"] }}",
                server.name
            ),
        };
        return Err(failure.into());
    }
    let inventory =
        fs::canonicalize(&args.source.farm).unwrap_or_else(|_| args.source.farm.clone());
    let settings = Settings {
        inventory,
        server: server.name.clone(),
        proxy: args.proxy,
        http: args.http,
        nfs: args.nfs,
        copies: COPIES,
        tftp: args.tftp.clone(),
        append: args.append.clone(),
    };
    let text = configuration(&farm, &settings).map_err(Failure::from)?;
    for loader in &LOADERS[..2] {
        let path = args.loaders.join(loader);
        if !path.is_file() {
            let failure = Failure {
                message: format!("{} is missing; nothing was changed", path.display()),
                hint:
                    "apt-get install ipxe, or name the directory of iPXE's programs with --loaders"
                        .into(),
            };
            return Err(failure.into());
        }
    }
    test(&text)?;
    let boot = args.place.boot();
    let way = match args.proxy {
        true => "beside another DHCP server",
        false => "with addresses of the inventory",
    };
    let net = farm.boot_net().map_or("", |n| n.name.as_str());
    if args.dry.dry_run {
        let would = [
            format!(
                "make {} the boot directory of {}",
                boot.0.display(),
                server.name
            ),
            format!("copy iPXE from {} to it", args.loaders.display()),
            format!("write dnsmasq's configuration for the net {net}, {way}"),
        ];
        return Ok(dry_run::show(&would, args.json));
    }
    write(&boot, &settings, &text, &args.loaders).map_err(Failure::from)?;
    match args.json {
        true => say_json(
            "armento.boot.init/1",
            json!({ "dir": boot.0, "server": server.name, "net": net, "proxy": args.proxy, "dnsmasq": boot.dnsmasq() }),
        ),
        false => say(&format!(
            "{} is a boot server for the net {net}, {way}; its directory is {}\n\n\
             next:   armento boot image build base     a root of Debian's packages\n\
             then:   armento boot serve\n",
            server.name,
            boot.0.display()
        )),
    }
    Ok(0)
}

fn check_net(farm: &Farm, net: Option<&str>) -> Result<()> {
    let booting = farm.boot_net().map(|n| n.name.as_str());
    let failure = match (net, booting) {
        (Some(wanted), _) if !farm.nets.contains_key(wanted) => Failure {
            message: format!("the inventory has no net `{wanted}`; nothing was changed"),
            hint: format!(
                "its nets: {}",
                farm.nets.keys().cloned().collect::<Vec<_>>().join(", ")
            ),
        },
        (_, None) => Failure {
            message: "no net of the inventory is for booting; nothing was changed".into(),
            hint: "add boot = true to one: net.mgmt = { cidr = \"…\", boot = true }".into(),
        },
        (Some(wanted), Some(other)) if wanted != other => Failure {
            message: format!(
                "nodes boot from the net {other}, not from {wanted}; nothing was changed"
            ),
            hint: format!("move boot = true from net.{other} to net.{wanted} in the inventory"),
        },
        _ => return Ok(()),
    };
    Err(failure.into())
}

fn write(
    boot: &BootDir,
    settings: &Settings,
    dnsmasq: &str,
    loaders: &Path,
) -> Result<(), armento_provision::problem::BootError> {
    use armento_provision::problem::At as _;
    for dir in [
        boot.0.clone(),
        boot.images(),
        boot.loaders(),
        boot.persistent(),
    ] {
        fs::create_dir_all(&dir).at(&dir)?;
    }
    for name in LOADERS {
        let from = loaders.join(name);
        if from.is_file() {
            replace(&boot.loaders().join(name), &fs::read(&from).at(&from)?)?;
        }
    }
    if !boot.nfs_key().exists() {
        let mut key = [0; 32];
        armento_provision::server::random(&mut key).at(&boot.nfs_key())?;
        replace_with_mode(&boot.nfs_key(), &key, 0o600)?;
    }
    let closed = fs::Permissions::from_mode(0o600);
    fs::set_permissions(boot.nfs_key(), closed).at(&boot.nfs_key())?;
    replace(&boot.dnsmasq(), dnsmasq.as_bytes())?;
    boot.save_settings(settings)
}

/// dnsmasq itself says whether it understands its configuration.
fn test(text: &str) -> Result<()> {
    use std::io::Write as _;
    use std::process::Stdio;
    let missing = |e: std::io::Error| Failure {
        message: format!("dnsmasq: {e}; nothing was changed"),
        hint: "apt-get install dnsmasq-base".into(),
    };
    let mut child = Command::new("dnsmasq")
        .args(["--test", "--conf-file=/dev/stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(text.as_bytes())?;
    }
    let said = child.wait_with_output()?;
    if said.status.success() {
        return Ok(());
    }
    let failure = Failure {
        message: format!(
            "dnsmasq does not accept its configuration; nothing was changed: {}",
            String::from_utf8_lossy(&said.stderr).trim()
        ),
        hint: "dnsmasq 2.86 or later is needed: dnsmasq --version".into(),
    };
    Err(failure.into())
}
