//! `armento farm discover`: farms that are announced on the local network.

use crate::out::{Failure, say, say_json, table};
use armento_discover::{Announced, DiscoverError, browse};
use armento_noded::Config;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

pub const HELP: &str = "Examples:
  armento farm discover --interface eth0
  armento farm discover --interface eth0 --seconds 10 --json

A daemon announces its farm on the interfaces of its setting `discover`, for instance discover = [\"eth0\"]; by default
on none. Without --interface this command looks on those of this machine's setting. Announcements prove nothing: the
secret of a token goes only to a daemon that proves to be of the token's farm.";

#[derive(clap::Args)]
pub struct Args {
    /// Interface to look on; may be repeated [default: those of the setting `discover`]
    #[arg(long, value_name = "IF")]
    interface: Vec<String>,
    /// How long to look
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Settings [default: /etc/armento/config.toml if it exists]
    #[arg(long, value_name = "F")]
    config: Option<PathBuf>,
    /// Print JSON (schema armento.discovered/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<i32> {
    let config = Config::load(args.config.as_deref()).map_err(Failure::from)?;
    let interfaces = match args.interface.is_empty() {
        true => config.discover,
        false => args.interface,
    };
    if let Some(name) = interfaces.iter().find(|name| !exists(name)) {
        let failure = Failure {
            message: format!("this machine has no interface {name}"),
            hint: "`ip link` shows them".into(),
        };
        return Err(failure.into());
    }
    let found = browse(&interfaces, Duration::from_secs(args.seconds)).map_err(failure)?;
    match args.json {
        true => {
            let one = |a: &Announced| {
                json!({
                    "farm": a.farm, "node": a.node, "address": a.address,
                    "version": a.version, "ca_sha256": a.ca, "admits": a.admits,
                })
            };
            let farms: Vec<_> = found.iter().map(one).collect();
            say_json("armento.discovered/1", json!({ "announcements": farms }));
        }
        false => say(&render(&found, &interfaces)),
    }
    Ok(0)
}

fn exists(interface: &str) -> bool {
    !interface.contains('/')
        && std::path::Path::new("/sys/class/net")
            .join(interface)
            .exists()
}

fn failure(e: DiscoverError) -> Failure {
    let hint = match e {
        DiscoverError::NoInterface => {
            "name one: `armento farm discover --interface eth0`, or set discover in the configuration"
        }
        DiscoverError::Mdns(_) => {
            "is the interface up, and does it have an address? (`ip address`)"
        }
    };
    Failure {
        message: format!("{e}; nothing was looked for"),
        hint: hint.into(),
    }
}

fn render(found: &[Announced], interfaces: &[String]) -> String {
    if found.is_empty() {
        return format!(
            "no farm is announced on {}; a daemon announces it where its setting `discover` names the interface\n",
            interfaces.join(", ")
        );
    }
    let heads = [
        ("FARM", false),
        ("NODE", false),
        ("ADDRESS", false),
        ("VERSION", false),
        ("CERTIFICATE", false),
        ("ADMITS", false),
    ];
    let row = |a: &Announced| {
        vec![
            a.farm.clone(),
            a.node.clone(),
            a.address.to_string(),
            a.version.clone(),
            a.ca.clone(),
            if a.admits { "yes" } else { "no" }.into(),
        ]
    };
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    let mut text = table(&heads, &rows);
    if let Some(first) = found.iter().find(|a| a.admits) {
        text += &format!(
            "\nto join: `armento farm invite` on {} prints a token of that farm; then here\n  armento join TOKEN {}\n",
            first.node, first.address
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn farms_are_shown_with_the_command_that_joins() {
        let one = |node: &str, admits| Announced {
            farm: "armento-1a2b".into(),
            node: node.into(),
            address: "10.0.0.1:7117".parse().expect("address"),
            version: "0.1.0".into(),
            ca: "0011223344556677".into(),
            admits,
        };
        let text = render(&[one("n2", false), one("n1", true)], &["eth0".into()]);
        assert!(text.contains("armento join TOKEN 10.0.0.1:7117"), "{text}");
        assert!(text.contains("on n1 prints"), "{text}");
        assert!(render(&[], &["eth0".into()]).contains("eth0"));
        assert!(!exists("../net") && exists("lo"));
    }
}
