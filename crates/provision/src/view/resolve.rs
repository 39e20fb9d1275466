//! Which of a directory's names a client gets.

use super::tag::{Client, Tag, split};
use std::collections::BTreeSet;

/// Why a name was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The strongest tag that is for this client.
    Tag(Tag),
    /// `ALWAYS`: the tagged name, whether it exists or not; `directory`: for all of the directory.
    Always { tag: Tag, directory: bool },
    /// `CREATE`: made under the tagged name.
    Create { tag: Tag, directory: bool },
    /// No tag is for this client.
    Plain,
}

impl Rule {
    /// A sentence for the user.
    pub fn explain(&self) -> String {
        let place = |directory: &bool| {
            if *directory {
                "the directory"
            } else {
                "the file"
            }
        };
        match self {
            Rule::Tag(Tag::Base) => "`$$$$` asks for the file without tags".into(),
            Rule::Tag(tag) => format!("`{}` is the strongest tag for it", tag.suffix()),
            Rule::Always { tag, directory } => {
                format!(
                    "`{}` of {} sends every client there",
                    tag.suffix(),
                    place(directory)
                )
            }
            Rule::Create { tag, directory } => format!(
                "`{}` of {} says where new files go",
                tag.suffix(),
                place(directory)
            ),
            Rule::Plain => "no tag is for it".into(),
        }
    }
}

/// A tagged name that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {
    pub name: String,
    /// Whether its tag is for this client.
    pub fits: bool,
    /// Whether the client may read it; ClusterNFS passes over what it may not.
    pub readable: bool,
}

/// The name that a client gets for the one it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub name: String,
    pub rule: Rule,
    /// Whether it is in the directory.
    pub exists: bool,
    /// All variants of the name, the strongest first.
    pub considered: Vec<Considered>,
}

/// Looks up `asked` in a directory with these names. `readable`: whether the client may read a name there.
pub fn lookup(
    names: &BTreeSet<String>,
    asked: &str,
    client: &Client,
    readable: &dyn Fn(&str) -> bool,
) -> Chosen {
    let exists = |name: &str| names.contains(name);
    let plain = |name: &str, rule| Chosen {
        name: name.to_owned(),
        rule,
        exists: exists(name),
        considered: Vec::new(),
    };
    match split(asked) {
        (base, Some(Tag::Base)) => return plain(base, Rule::Tag(Tag::Base)),
        // Who asks for a tagged name by its whole name gets it.
        (_, Some(_)) => return plain(asked, Rule::Plain),
        (_, None) => {}
    }
    let mut variants: Vec<(Tag, &String)> = variants(names, asked).collect();
    variants.sort_by(|a, b| (a.0.rank(), a.1).cmp(&(b.0.rank(), b.1)));
    let considered: Vec<Considered> = variants
        .iter()
        .map(|(tag, name)| Considered {
            name: (*name).clone(),
            fits: tag.is_for(client),
            readable: readable(name),
        })
        .collect();
    let first = considered.iter().position(|c| c.fits && c.readable);
    let (name, rule) = match first {
        Some(i) => (considered[i].name.clone(), Rule::Tag(variants[i].0.clone())),
        None => match directive(names, asked, [Tag::AlwaysAddress, Tag::AlwaysClient]) {
            Some((tag, directory)) => (
                asked.to_owned() + &target(&tag, client),
                Rule::Always { tag, directory },
            ),
            None => (asked.to_owned(), Rule::Plain),
        },
    };
    Chosen {
        exists: exists(&name),
        name,
        rule,
        considered,
    }
}

/// The name under which a client's new file is made.
pub fn create(
    names: &BTreeSet<String>,
    asked: &str,
    client: &Client,
    readable: &dyn Fn(&str) -> bool,
) -> Chosen {
    let mut chosen = lookup(names, asked, client, readable);
    if chosen.rule != Rule::Plain || split(asked).1.is_some() {
        return chosen;
    }
    if let Some((tag, directory)) = directive(names, asked, [Tag::CreateAddress, Tag::CreateClient])
    {
        chosen.name = asked.to_owned() + &target(&tag, client);
        chosen.exists = names.contains(&chosen.name);
        chosen.rule = Rule::Create { tag, directory };
    }
    chosen
}

/// The names that a client sees in a directory: each once, under its plain name, if there is something behind it.
pub fn list(
    names: &BTreeSet<String>,
    client: &Client,
    readable: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let plain: BTreeSet<&str> = names
        .iter()
        .map(|n| split(n).0)
        .filter(|n| !n.is_empty())
        .collect();
    let seen = plain
        .into_iter()
        .filter(|n| lookup(names, n, client, readable).exists);
    seen.map(str::to_owned).collect()
}

/// Names with a tag that names clients. A name begins with the plain one: only that part of the directory is looked at.
fn variants<'a>(
    names: &'a BTreeSet<String>,
    asked: &'a str,
) -> impl Iterator<Item = (Tag, &'a String)> {
    let from = format!("{asked}$$");
    let near = names
        .range(from.clone()..)
        .take_while(move |n| n.starts_with(&from));
    near.filter_map(move |name| match split(name) {
        (base, Some(tag)) if base == asked && tag.rank().0 <= 5 && tag != Tag::Base => {
            Some((tag, name))
        }
        _ => None,
    })
}

/// The first of these tags that stands at the name itself, then of those in the directory; whether it is the directory's.
fn directive(names: &BTreeSet<String>, asked: &str, tags: [Tag; 2]) -> Option<(Tag, bool)> {
    let own = tags
        .iter()
        .find(|t| names.contains(&(asked.to_owned() + &t.suffix())));
    let all = || tags.iter().find(|t| names.contains(&t.suffix()));
    own.map(|t| (t.clone(), false))
        .or_else(|| all().map(|t| (t.clone(), true)))
}

fn target(tag: &Tag, client: &Client) -> String {
    match tag {
        Tag::AlwaysAddress | Tag::CreateAddress => Tag::Address(client.address).suffix(),
        _ => Tag::AnyClient.suffix(),
    }
}
