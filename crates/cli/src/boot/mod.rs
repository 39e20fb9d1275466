//! `armento boot`: what nodes without a disk start from. Each command reads settings and inventory, calls `armento_provision`,
//! and prints.

mod copies;
mod image;
mod init;
mod lag;
mod nodes;
mod place;
mod reboot;
mod rolling;
mod serve;
mod status;
mod view;

use crate::out::Failure;
use anyhow::Result;
use armento_provision::problem::BootError;

#[derive(clap::Subcommand)]
pub enum Cmd {
    /// Make this machine a boot server: its directory, dnsmasq's configuration, iPXE
    Init(init::Args),
    /// Roots of nodes, in generations
    #[command(subcommand)]
    Image(image::Cmd),
    /// Serve the boot of nodes: DHCP or beside it, TFTP, HTTP, NFS
    Serve(serve::Args),
    /// Show how far each machine is in its boot
    Status(status::Args),
    /// Show why a machine is where it is in its boot, and what to do
    Why(status::WhyArgs),
    /// Add a node to the inventory: one line
    AddNode(nodes::AddArgs),
    /// List unknown machines that ask to boot, or give one a name
    Claim(nodes::ClaimArgs),
    /// Start nodes again after their work has moved away
    Reboot(reboot::Args),
    /// Show which file of a shared root each node sees, and why
    View(view::Args),
}

pub fn run(cmd: Cmd) -> Result<i32> {
    match cmd {
        Cmd::Init(args) => init::run(&args),
        Cmd::Image(cmd) => image::run(cmd),
        Cmd::Serve(args) => serve::run(&args),
        Cmd::Status(args) => status::run(&args),
        Cmd::Why(args) => status::why(&args),
        Cmd::AddNode(args) => nodes::add(&args),
        Cmd::Claim(args) => nodes::claim(&args),
        Cmd::Reboot(args) if args.rolling => rolling::run(&args),
        Cmd::Reboot(args) => reboot::run(&args),
        Cmd::View(args) => view::run(&args),
    }
}

impl From<BootError> for Failure {
    fn from(e: BootError) -> Failure {
        Failure {
            hint: e.hint(),
            message: e.to_string(),
        }
    }
}
