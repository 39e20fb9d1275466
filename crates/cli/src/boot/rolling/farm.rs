//! The farm as a rolling restart acts on it: this node's daemon drains others, a shell starts them again, boot servers say how
//! far they are.

use super::record::Record;
use super::sequence::{Nodes, Start};
use crate::boot::place::Place;
use crate::boot::reboot::{Args, progress, reboot};
use crate::out::say;
use crate::{drain, dry_run};
use anyhow::{Context as _, Result};
use armento_client::api::DrainChange;
use armento_fabric::inventory::Farm;
use armento_lab::Waiting;
use armento_model::NodeName;
use armento_provision::stage::Step;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two looks at all nodes that are under way.
const LOOK: Duration = Duration::from_secs(1);

pub struct Real<'a> {
    place: &'a Place,
    shell: &'a str,
    inventory: &'a Farm,
    quiet: bool,
    began: Instant,
    waiting: Waiting,
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

impl<'a> Real<'a> {
    pub fn new(args: &'a Args, inventory: &'a Farm) -> Real<'a> {
        Real {
            place: &args.place,
            shell: &args.shell,
            inventory,
            quiet: args.json,
            began: Instant::now(),
            waiting: Waiting::new(""),
        }
    }

    /// Whether this node's daemon answers.
    pub fn check(&self) -> Result<()> {
        dry_run::nodes().map(drop)
    }
}

fn named(node: &str) -> Result<NodeName> {
    node.parse()
        .map_err(|e| anyhow::anyhow!("`{node}` is no name of a node: {e}"))
}

impl Nodes for Real<'_> {
    fn is_member(&self, node: &str) -> Result<bool> {
        let all = dry_run::nodes()?;
        Ok(all
            .iter()
            .any(|n| n.name.as_str() == node && n.state == "alive"))
    }

    fn drained(&self, node: &str) -> Result<Option<DrainChange>> {
        let info = drain::info(&named(node)?)?;
        Ok(info.drained.then_some(DrainChange {
            drained: true,
            why: info.why,
            all_home: info.all_home,
        }))
    }

    fn drain(&self, node: &str, change: &DrainChange) -> Result<()> {
        drain::change(&named(node)?, change)
    }

    fn to_go(&self, node: &str) -> Result<Option<u64>> {
        let info = drain::info(&named(node)?)?;
        Ok((!info.is_empty()).then(|| drain::to_go(&info)))
    }

    fn restart(&self, node: &str) -> Result<()> {
        let net = self.inventory.boot_net().map(|n| n.name.clone());
        let node = self.inventory.node(node);
        let address = node.and_then(|n| n.address(&net.unwrap_or_default()));
        let address = address.context("it has no address in the boot net")?;
        reboot(self.shell, &address.to_string()).map_err(anyhow::Error::msg)
    }

    fn last_start(&self, node: &str) -> Result<Option<Start>> {
        let progress = progress(self.place, node)?;
        Ok(progress.map(|p| Start {
            at_ms: p.at_ms(),
            joined: p.step() == Step::Joined,
            image: p.image,
        }))
    }

    fn note(&self, record: &Record) {
        if let Err(e) = record.save(&self.place.boot()) {
            eprintln!("armento: {e}; the same command would begin anew");
        }
    }

    fn say(&self, node: &str, what: &str) {
        self.waiting.say(format!("{node} {what}"));
        if !self.quiet {
            say(&format!("{node} {what}\n"));
        }
    }

    fn wait_for(&self, node: &str, what: &str) {
        self.waiting.say(format!("{node}: {what}"));
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn pause(&self) {
        sleep(LOOK);
    }
}
