//! Hardware addresses of cards: inline, or a CSV file with the columns node, link, address.

use super::reader::{Source, Table};
use crate::addr::Mac;
use std::collections::BTreeMap;

/// Addresses by node and link, with the line that has each.
pub(super) type Macs = BTreeMap<(String, String), Known>;

/// A hardware address and where it is written.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) mac: Mac,
    pub(super) file: Option<String>,
    pub(super) line: usize,
}

/// Opens a file that the inventory names; the error is a text for the user.
pub type Open<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// The addresses of `mac = { lan0 = "…" }` for one node.
pub(super) fn inline(node: &str, table: &Table, all: &mut Macs) {
    for (link, value) in table.others() {
        let Some(text) = value.text(link) else {
            continue;
        };
        match text.parse() {
            Ok(mac) => {
                let known = Known {
                    mac,
                    file: None,
                    line: value.line,
                };
                all.insert((node.to_owned(), link.to_owned()), known);
            }
            Err(e) => table.source.complain(value.line, format!("{e}"), FORM),
        }
    }
}

const FORM: &str = "six octets, as on the card's label and in `ip link`: 00:1b:21:aa:bb:cc";

/// The addresses of a CSV file. Lines: `node,link,address`; a first line of these words, empty lines and comments (`#`)
/// are passed over.
pub(super) fn csv(source: &Source, file: &str, text: &str, all: &mut Macs) {
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let parts: Vec<&str> = line.split(',').map(str::trim).collect();
        let complain = |what: String, remedy: &str| source.complain_of(file, i + 1, what, remedy);
        let [node, link, mac] = parts[..] else {
            if !line.is_empty() {
                complain(
                    format!("`{line}` is no line of three fields"),
                    "node,link,address",
                );
            }
            continue;
        };
        if i == 0 && mac.parse::<Mac>().is_err() && !mac.contains([':', '-']) {
            continue;
        }
        match mac.parse() {
            Ok(mac) => {
                let known = Known {
                    mac,
                    file: Some(file.to_owned()),
                    line: i + 1,
                };
                let before = all.insert((node.to_owned(), link.to_owned()), known);
                if let Some(before) = before.filter(|b| b.mac != mac) {
                    let what = format!(
                        "{node} {link} has a second address, after that of line {}",
                        before.line
                    );
                    complain(what, "keep the one on the card");
                }
            }
            Err(e) => complain(e.to_string(), FORM),
        }
    }
}
