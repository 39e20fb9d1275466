//! `armento-machines`: Debian machines by hand.

use anyhow::{Result, bail};
use armento_machines::{Image, Kernel, Kind, Machine, Site, Suite};
use clap::Parser;
use std::sync::Arc;

const HELP: &str = "Examples:
  cargo run --release --bin armento-machines -- up 6.12 6.12
  cargo run --release --bin armento-machines -- up --full 6.12 6.1
  cargo run --release --bin armento-machines -- up --trixie 6.12

Machines are n1, n2, … at 10.9.9.1, 10.9.9.2, …; they end with this command. What it prints shows how to log in.";

/// Starts Debian machines in QEMU for experiments by hand
#[derive(Parser)]
#[command(name = "armento-machines", after_help = HELP)]
enum Cli {
    /// Boot machines and keep them until standard input ends
    Up {
        /// Compilers and the programs of the conformance list as well
        #[arg(long)]
        full: bool,
        /// Debian 13 instead of Debian 12
        #[arg(long)]
        trixie: bool,
        /// Files to copy to /root of each machine
        #[arg(long)]
        put: Vec<std::path::PathBuf>,
        /// A kernel for each machine: 6.1 or 6.12
        #[arg(required = true)]
        kernels: Vec<String>,
    },
    /// Build the small image of Debian 12 where it is missing, and end
    Image,
}

fn main() -> Result<()> {
    let Cli::Up {
        full,
        trixie,
        put,
        kernels,
    } = Cli::parse()
    else {
        return image(Suite::Bookworm, Kind::Small).map(drop);
    };
    let suite = if trixie {
        Suite::Trixie
    } else {
        Suite::Bookworm
    };
    let kind = if full { Kind::Full } else { Kind::Small };
    let image = image(suite, kind)?;
    let site = Arc::new(Site::new()?);
    let mut machines = Vec::new();
    for (number, kernel) in (1..).zip(&kernels) {
        let kernel = match kernel.as_str() {
            "6.1" => Kernel::V6_1,
            "6.12" => Kernel::V6_12,
            other => bail!("no kernel {other}: 6.1 or 6.12"),
        };
        let m = Machine::new(&site, &image, number, kernel)?;
        m.on()?;
        machines.push(m);
    }
    for m in &machines {
        m.wait_up()?;
        for file in &put {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            m.put(file, &format!("/root/{name}"))?;
        }
        let dir = site.dir().display();
        println!(
            "{} is up:  sh {dir}/{}.sh root 'COMMAND'",
            m.name(),
            m.name()
        );
    }
    println!("all are up; they end with standard input (Ctrl-D)");
    let mut rest = String::new();
    while std::io::stdin().read_line(&mut rest)? > 0 {
        rest.clear();
    }
    Ok(())
}

fn image(suite: Suite, kind: Kind) -> Result<Image> {
    match Image::ready(suite, kind)? {
        Ok(image) => Ok(image),
        Err(missing) => bail!("{missing} is missing"),
    }
}
