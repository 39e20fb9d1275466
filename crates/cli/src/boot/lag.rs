//! Which other boot servers have an image, and which of them lag.

use super::place::{Place, farm};
use anyhow::Result;
use armento_provision::image::Generation;
use armento_provision::init::{ServerStatus, server_status};
use armento_provision::layout::Settings;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Servers that have a generation boot it within a second or two.
const FOLLOWS: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(300);

/// What the other boot servers say, by name.
#[derive(Default)]
pub struct Others {
    own: String,
    all: BTreeMap<String, Result<ServerStatus, String>>,
}

/// Asks all others. None without settings or without others.
pub fn others(place: &Place) -> Others {
    place
        .settings()
        .and_then(|settings| ask(&settings))
        .unwrap_or_default()
}

fn ask(settings: &Settings) -> Result<Others> {
    let farm = farm(settings)?;
    let net = farm.boot_net().map(|n| n.name.clone()).unwrap_or_default();
    let names = farm.boot_servers.iter().filter(|n| **n != settings.server);
    let all = names.filter_map(|name| {
        let address = farm.node(name)?.address(&net)?;
        let said = server_status(SocketAddr::new(address, settings.http));
        Some((name.clone(), said))
    });
    Ok(Others {
        own: settings.server.clone(),
        all: all.collect(),
    })
}

impl Others {
    /// Why a server does not have what this one has.
    fn why(&self, status: &ServerStatus) -> Option<String> {
        let progress = status.follows.get(&self.own)?;
        progress.doing.clone().or_else(|| {
            progress
                .trouble
                .as_ref()
                .map(|t| format!("it cannot follow {}: {t}", self.own))
        })
    }

    /// A line for each server.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, said) in &self.all {
            let status = match said {
                Ok(status) => status,
                Err(e) => {
                    text += &format!("boot server {name} does not answer: {e}\n");
                    continue;
                }
            };
            let images: Vec<String> = status
                .images
                .iter()
                .map(|i| {
                    let used = if i.current { " (in use)" } else { "" };
                    format!("{}@{}{used}", i.image, i.generation)
                })
                .collect();
            let images = match images.is_empty() {
                true => "no image".into(),
                false => images.join(", "),
            };
            let why = self
                .why(status)
                .map_or_else(String::new, |w| format!("; {w}"));
            text += &format!("boot server {name} has {images}{why}\n");
            for note in status.follows.values().flat_map(|p| &p.notes) {
                text += &format!("  {name}: {note}\n");
            }
        }
        text
    }

    pub fn document(&self) -> Value {
        let one = |said: &Result<ServerStatus, String>| match said {
            Ok(s) => json!({ "images": s.images, "follows": s.follows }),
            Err(e) => json!({ "silent": e }),
        };
        let all = self
            .all
            .iter()
            .map(|(name, said)| (name.clone(), one(said)));
        Value::Object(all.collect())
    }
}

/// The servers that do not boot a generation which was just chosen, with the reason. Waits a moment for them.
pub fn of_choice(place: &Place, chosen: &Generation) -> Result<BTreeMap<String, String>> {
    let until = Instant::now() + FOLLOWS;
    loop {
        let others = others(place);
        let follows = |s: &ServerStatus| {
            let mut all = s.images.iter();
            all.any(|i| i.current && i.image == chosen.image && i.generation == chosen.number)
        };
        let mut lagging = BTreeMap::new();
        for (name, said) in &others.all {
            match said {
                Ok(status) if follows(status) => {}
                Ok(status) => {
                    let why = others.why(status);
                    let why = why.unwrap_or_else(|| "it follows when it has a copy".into());
                    lagging.insert(name.clone(), why);
                }
                Err(e) => {
                    let why = format!("it does not answer ({e}); it follows when it is back");
                    lagging.insert(name.clone(), why);
                }
            }
        }
        let waits = others
            .all
            .values()
            .any(|s| s.as_ref().is_ok_and(|s| !follows(s)));
        if !waits || Instant::now() > until {
            return Ok(lagging);
        }
        sleep(AGAIN);
    }
}
