//! One more node in an inventory's text: one line, and nothing else changes.

use super::farm::Farm;
use crate::addr::Mac;
use toml::{Table, Value};

/// What is added.
#[derive(Clone, Debug)]
pub struct NewNode<'a> {
    pub name: &'a str,
    pub mac: Mac,
    /// Without one: the only profile of nodes without a disk.
    pub profile: Option<&'a str>,
    /// Its number; without one, the next after the greatest.
    pub id: Option<u16>,
}

/// A file with its new text. The caller parses it again before it writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// None: the inventory itself; otherwise the file with cards that it names, relative to it.
    pub file: Option<String>,
    /// The line that is added.
    pub line: String,
    pub text: String,
}

/// Adds a node, or the card of a node that the inventory has already in a range with a file of cards. `farm`: the checked
/// inventory of `text`; `open` opens files that it names.
///
/// Errors: why not, and what to do, in two sentences.
pub fn add_node(
    farm: &Farm,
    text: &str,
    new: &NewNode,
    open: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Edit, (String, String)> {
    let fail = |what: String, hint: &str| Err((what, hint.to_owned()));
    if let Some(known) = farm.node_with(new.mac) {
        return fail(
            format!(
                "the card {} is in the inventory: {} has it",
                new.mac, known.name
            ),
            "the same card cannot have two names",
        );
    }
    let root: Table = match toml::from_str(text) {
        Ok(root) => root,
        Err(e) => return fail(e.to_string(), "mend the inventory first"),
    };
    let Some(net) = farm.boot_net() else {
        return fail(
            "no net of the inventory is for booting".into(),
            "add boot = true to a net",
        );
    };
    if let Some(known) = farm.node(new.name) {
        if !known.boot_macs(&net.name).is_empty() {
            return fail(
                format!(
                    "{} has the card {} in the inventory",
                    new.name,
                    known.boot_macs(&net.name)[0]
                ),
                "change it there if the machine has another card now",
            );
        }
        let Some(file) = file_of(&root, new.name) else {
            return fail(
                format!("{} is in the inventory, without a file of cards", new.name),
                "add mac = { LINK = \"…\" } to its line, or macs = \"macs.csv\" to its range",
            );
        };
        let link = known.link_in(&net.name).map_or("", |l| l.name.as_str());
        let line = format!("{},{link},{}", new.name, new.mac);
        let before = open(&file).map_err(|e| (format!("{file}: {e}"), "is it there?".into()))?;
        return Ok(Edit {
            text: format!("{}{line}\n", with_end(&before)),
            line,
            file: Some(file),
        });
    }
    let profiles = root.get("profile").and_then(Value::as_table);
    let diskless: Vec<&String> = profiles
        .into_iter()
        .flatten()
        .filter(|(_, p)| matches!(p.get("root").and_then(Value::as_str), Some("live" | "ram")))
        .map(|(name, _)| name)
        .collect();
    let profile = match (new.profile, diskless.as_slice()) {
        (Some(name), _) => name.to_owned(),
        (None, [only]) => (*only).clone(),
        (None, []) => {
            return fail(
                "the inventory has no profile of nodes without a disk".into(),
                "add one: profile.diskless = { root = \"live\", lan0 = \"NET\" }",
            );
        }
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|n| n.as_str()).collect();
            return fail(
                format!("there are several profiles: {}", names.join(", ")),
                "choose one with --profile",
            );
        }
    };
    let Some(table) = profiles
        .and_then(|p| p.get(&profile))
        .and_then(Value::as_table)
    else {
        return fail(
            format!("the inventory has no profile `{profile}`"),
            "name one that is there",
        );
    };
    let in_net = |v: &Value| match v {
        Value::String(one) => *one == net.name,
        Value::Array(all) => all.iter().any(|n| n.as_str() == Some(&net.name)),
        Value::Table(link) => link.get("net").and_then(Value::as_str) == Some(&net.name),
        _ => false,
    };
    let Some((link, _)) = table.iter().find(|(_, v)| in_net(v)) else {
        return fail(
            format!("profile {profile} has no link in the net {}", net.name),
            "add one: lan0 = \"NET\"",
        );
    };
    let id = new.id.or_else(|| {
        let greatest = farm.nodes.iter().map(|n| n.number).max().unwrap_or(0);
        greatest.checked_add(1)
    });
    let Some(id) = id else {
        return fail("all numbers are given".into(), "choose one with --id");
    };
    let line = format!(
        "node.{} = {{ id = {id}, profile = \"{profile}\", mac = {{ {link} = \"{}\" }} }}",
        quoted(new.name),
        new.mac
    );
    Ok(Edit {
        text: inserted(text, &line),
        line,
        file: None,
    })
}

/// The file of cards of the range that has this node.
fn file_of(root: &Table, name: &str) -> Option<String> {
    let nodes = root.get("node")?.as_table()?;
    let has = |range: &str| {
        super::expand(range, super::NODES_MAX).is_ok_and(|all| all.iter().any(|n| n == name))
    };
    let (_, node) = nodes.iter().find(|(range, _)| has(range))?;
    Some(node.get("macs")?.as_str()?.to_owned())
}

/// A bare key of TOML, or one in quotes.
fn quoted(name: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    match !name.is_empty() && name.bytes().all(bare) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace(['"', '\\'], "")),
    }
}

fn with_end(text: &str) -> String {
    match text.is_empty() || text.ends_with('\n') {
        true => text.to_owned(),
        false => format!("{text}\n"),
    }
}

/// After the last line at the top, which is before the first table of several lines: below it, the line would be part of
/// that table.
fn inserted(text: &str, line: &str) -> String {
    let text = with_end(text);
    let mut at = text.len();
    let mut seen = 0;
    for part in text.split_inclusive('\n') {
        if part.trim_start().starts_with('[') {
            at = seen;
            break;
        }
        seen += part.len();
    }
    let (before, after) = text.split_at(at);
    format!("{before}{line}\n{after}")
}
