//! From the name that a client uses to that of the file, and back. Pure.

use super::dirs::Listing;
use armento_provision::view::{Client, create, lookup, split};
use std::borrow::Cow;

/// The file that a client gets for a name; it may be missing.
pub fn existing<'a>(listing: &Listing, asked: &'a [u8], client: &Client) -> Cow<'a, [u8]> {
    named(listing, asked, |names, asked| {
        lookup(names, asked, client, &|_| true).name
    })
}

/// The file that a client makes when it makes a name.
pub fn new<'a>(listing: &Listing, asked: &'a [u8], client: &Client) -> Cow<'a, [u8]> {
    named(listing, asked, |names, asked| {
        create(names, asked, client, &|_| true).name
    })
}

fn named<'a>(
    listing: &Listing,
    asked: &'a [u8],
    choose: impl FnOnce(&std::collections::BTreeSet<String>, &str) -> String,
) -> Cow<'a, [u8]> {
    match std::str::from_utf8(asked) {
        // `NAME$$$$` is the plain file also where no name has a tag.
        Ok(text) if !listing.tagged.is_empty() || text.ends_with("$$$$") => {
            Cow::Owned(choose(&listing.tagged, text).into_bytes())
        }
        _ => Cow::Borrowed(asked),
    }
}

/// The name under which a client sees a file of the directory; none if another file has that name for it.
pub fn shown<'a>(listing: &Listing, name: &'a [u8], client: &Client) -> Option<&'a [u8]> {
    let Ok(text) = std::str::from_utf8(name) else {
        return Some(name);
    };
    if listing.tagged.is_empty() {
        return Some(name);
    }
    let (plain, _) = split(text);
    if plain.is_empty() {
        return None;
    }
    let chosen = lookup(&listing.tagged, plain, client, &|_| true);
    (chosen.name == text).then_some(plain.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::dirs::Named;
    use armento_provision::view::list;
    use std::collections::BTreeSet;

    fn dir(names: &[&str]) -> Listing {
        let tagged = names.iter().filter(|n| split(n).1.is_some());
        Listing::of(
            names
                .iter()
                .map(|n| Named {
                    cookie: 3,
                    name: n.as_bytes().into(),
                    inode: 1,
                })
                .collect(),
            tagged.map(|n| (*n).to_owned()).collect(),
        )
    }

    fn client(name: &str) -> Client {
        Client {
            name: Some(name.into()),
            address: "10.1.2.3".parse().expect("address"),
        }
    }

    /// Shows what `list` of the rules shows, though it looks at one name at a time.
    #[test]
    fn a_listing_shows_each_name_once() {
        let check = |names: &[&str]| {
            let listing = dir(names);
            for who in [client("n1"), client("n2")] {
                let shown: BTreeSet<&[u8]> = names
                    .iter()
                    .filter_map(|n| shown(&listing, n.as_bytes(), &who))
                    .collect();
                let all: BTreeSet<String> = names.iter().map(|n| (*n).to_owned()).collect();
                let expected = list(&all, &who, &|_| true);
                let expected: BTreeSet<&[u8]> = expected.iter().map(|n| n.as_bytes()).collect();
                assert_eq!(shown, expected, "{names:?} {who:?}");
            }
        };
        check(&["a", "b", "b$$NOTHING$$", "c$$"]);
        check(&[
            "f",
            "f$$CLIENT$$",
            "f$$HOST=n1$$",
            "g$$HOST=n1$$",
            "h$$HOST=n3$$",
        ]);
        check(&["f", "k", "k$$CREATE=IP$$", "$$CREATE=CLIENT$$"]);
        check(&["f", "g", "g$$IP=10.1.2.3$$", "$$ALWAYS=IP$$"]);
        check(&["f", "f$$ALWAYS=CLIENT$$", "f$$$$", "m$$$$"]);
    }

    #[test]
    fn names_of_files_follow_the_tags() {
        let tagged = dir(&["f", "f$$HOST=n1$$", "$$CREATE=IP$$"]);
        let get = |asked: &str, who| {
            String::from_utf8(existing(&tagged, asked.as_bytes(), &client(who)).into())
                .expect("text")
        };
        assert_eq!(get("f", "n1"), "f$$HOST=n1$$");
        assert_eq!(get("f", "n2"), "f");
        assert_eq!(get("f$$$$", "n1"), "f");
        assert_eq!(get("f$$HOST=n1$$", "n2"), "f$$HOST=n1$$");
        let made = new(&tagged, b"g", &client("n1"));
        assert_eq!(&made[..], b"g$$IP=10.1.2.3$$");
        assert_eq!(&existing(&tagged, b"\xff$$", &client("n1"))[..], b"\xff$$");
        let plain = dir(&["f"]);
        assert_eq!(&existing(&plain, b"f$$$$", &client("n1"))[..], b"f");
        assert_eq!(&existing(&plain, b"f", &client("n1"))[..], b"f");
    }
}
