//! setpe, showmap and mosbestnode.

use super::out::say;
use crate::failed::Failed;
use crate::farm::{Farm, Member, switches};
use crate::parse::{MAP_BYTES_MAX, Map, Setpe, Stream};
use crate::show;
use armento_client::Session;
use armento_client::api::SwitchChange;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::ToSocketAddrs;

pub fn showmap() -> Result<i32, Failed> {
    let farm = Farm::ask(&mut Session::connect()?)?;
    say(&show::showmap(&farm)).map(|()| 0)
}

/// The node where one process more gets most of a processor.
pub fn best_node() -> Result<i32, Failed> {
    let farm = Farm::ask(&mut Session::connect()?)?;
    let open = |m: &&Member| m.is_up() && m.info.cores > 0 && (m.info.here || !m.info.shut);
    let best = farm.members.iter().filter(open).max_by_key(|m| power(m));
    match best {
        Some(m) => say(&format!("{}\n", m.id)).map(|()| 0),
        None => Err(Failed::new(
            "no node takes programs",
            "`armento nodes` shows them",
        )),
    }
}

/// What one process more would get there: thousandths of a standard core.
fn power(m: &Member) -> u64 {
    let core = f64::from(m.info.speed) / 10.0;
    let whole = core * f64::from(m.info.cores);
    // The load is work over power: so many processes run there.
    let running = m.info.load * whole / 1000.0;
    let share = whole / (running + 1.0);
    share.min(core).max(0.0) as u64
}

pub fn setpe(setpe: &Setpe) -> Result<i32, Failed> {
    match setpe {
        Setpe::Write(to) => write(to),
        Setpe::Off => {
            let change = SwitchChange {
                stop: Some(true),
                ..SwitchChange::default()
            };
            switches(&mut Session::connect()?, Some(change))?;
            Ok(0)
        }
        Setpe::Compare { from, check, own } => {
            let map = Map::parse(&read(from)?)?;
            match check {
                true => Ok(0),
                false => compare(&map, *own),
            }
        }
    }
}

fn write(to: &Stream) -> Result<i32, Failed> {
    let farm = Farm::ask(&mut Session::connect()?)?;
    let hosts = farm.members.iter().map(|m| (m.id, m.address().to_owned()));
    let text = Map::write(&hosts.collect());
    match to {
        Stream::Standard => say(&text)?,
        Stream::File(path) => std::fs::write(path, text).map_err(|e| {
            let shown = armento_model::clean(&path.to_string_lossy());
            Failed::new(
                format!("{shown} cannot be written: {e}"),
                "check its directory",
            )
        })?,
    }
    Ok(0)
}

fn read(from: &Stream) -> Result<String, Failed> {
    let mut text = String::new();
    let (read, name) = match from {
        Stream::Standard => {
            let input = io::stdin().lock();
            (
                input.take(MAP_BYTES_MAX).read_to_string(&mut text),
                "standard input".into(),
            )
        }
        Stream::File(path) => {
            let opened = File::open(path);
            let read = opened.and_then(|f| f.take(MAP_BYTES_MAX).read_to_string(&mut text));
            (read, armento_model::clean(&path.to_string_lossy()))
        }
    };
    match read {
        Ok(n) if n as u64 == MAP_BYTES_MAX => Err(Failed::new(
            format!("{name} is longer than {MAP_BYTES_MAX} bytes; nothing was done"),
            "is it a map? `setpe -r` writes the farm as one",
        )),
        Ok(_) => Ok(text),
        Err(e) => Err(Failed::new(
            format!("{name} cannot be read: {e}; nothing was done"),
            "`setpe -w -f /etc/openmosix.map` names the file",
        )),
    }
}

/// Says what differs; a farm without differences takes part again if `setpe -off` ended that.
fn compare(map: &Map, own: Option<u16>) -> Result<i32, Failed> {
    let mut session = Session::connect()?;
    let farm = Farm::ask(&mut session)?;
    let differs = differences(&map.hosts(), &farm, own, &resolve);
    if differs.is_empty() {
        let change = SwitchChange {
            stop: Some(false),
            ..SwitchChange::default()
        };
        if switches(&mut session, None)?.stopped {
            switches(&mut session, Some(change))?;
        }
        return Ok(0);
    }
    say(&(differs.join("\n") + "\n"))?;
    Err(Failed::new(
        format!(
            "the map and the farm differ in {} places; nothing was changed",
            differs.len()
        ),
        "a map makes no machine a member: `armento farm invite` prints the command with which a node joins",
    ))
}

fn resolve(host: &str) -> Vec<String> {
    let all = (host, 0).to_socket_addrs();
    all.map(|a| a.take(16).map(|a| a.ip().to_string()).collect())
        .unwrap_or_default()
}

/// One line for each difference.
fn differences(
    hosts: &BTreeMap<u16, String>,
    farm: &Farm,
    own: Option<u16>,
    resolve: &dyn Fn(&str) -> Vec<String>,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut met = Vec::new();
    for (id, host) in hosts {
        let is = |m: &&Member| m.info.name.as_str() == host || m.address() == host;
        let found = farm.members.iter().find(is).or_else(|| {
            let ips = resolve(host);
            farm.members
                .iter()
                .find(|m| ips.iter().any(|ip| ip == m.address()))
        });
        match found {
            None => lines.push(format!(
                "{id} {host}: not a member; `armento farm invite` here prints what to type there"
            )),
            Some(m) if m.id != *id => lines.push(format!(
                "{id} {host}: is {}, with the ID {}",
                m.info.name, m.id
            )),
            Some(_) => {}
        }
        met.extend(found.map(|m| m.id));
    }
    for m in farm.members.iter().filter(|m| !met.contains(&m.id)) {
        lines.push(format!(
            "{} {}: {} is a member and not in the map",
            m.id,
            m.address(),
            m.info.name
        ));
    }
    if let (Some(own), Some(here)) = (own, farm.here())
        && here.id != own
    {
        lines.push(format!("this node has the ID {}, not {own}", here.id));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::farm::tests::node;

    #[test]
    fn each_difference_has_a_line() {
        let farm = Farm::of(vec![
            node("n1", "10.0.0.1:1"),
            node("n2", "10.0.0.2:1"),
            node("n5", "10.0.0.5:1"),
        ]);
        let none = |_: &str| Vec::new();
        let map = |text: &str| Map::parse(text).expect("a map").hosts();
        let all = "1 10.0.0.1 2\n5 n5 1\n";
        assert!(differences(&map(all), &farm, Some(1), &none).is_empty());
        let lines = differences(
            &map("1 10.0.0.1 1\n3 10.0.0.2 1\n4 10.0.0.9 1\n"),
            &farm,
            Some(2),
            &none,
        );
        let begins = [
            "3 10.0.0.2: is n2, with the ID 2",
            "4 10.0.0.9: not a member",
            "5 10.0.0.5: n5 is a member",
            "this node has the ID 1, not 2",
        ];
        assert_eq!(lines.len(), begins.len(), "{lines:?}");
        for (line, begin) in lines.iter().zip(begins) {
            assert!(line.starts_with(begin), "{line}");
        }
        let named = |h: &str| {
            if h == "five.example" {
                vec!["10.0.0.5".to_owned()]
            } else {
                Vec::new()
            }
        };
        let text = "1 10.0.0.1 2\n5 five.example 1\n";
        assert!(differences(&map(text), &farm, None, &named).is_empty());
    }

    #[test]
    fn an_idle_fast_node_is_best() {
        let at = |load: f64, speed: u32, cores: u32| {
            let mut n = node("n1", "10.0.0.1:1");
            (n.load, n.speed, n.cores) = (load, speed, cores);
            power(&Farm::of(vec![n]).members[0])
        };
        assert_eq!(at(0.0, 10_000, 1), 1000);
        assert_eq!(at(1.0, 10_000, 1), 500);
        assert_eq!(at(1.0, 10_000, 2), 666);
        assert!(at(0.0, 20_000, 1) > at(0.0, 10_000, 4));
    }
}
