//! The order of tags, listings and creation, as tags(7) of unfs3 and the README of ClusterNFS have them.

use armento_provision::view::{Client, Rule, Tag, create, list, lookup, walk};
use std::collections::BTreeSet;
use std::path::Path;

fn client(name: &str, address: &str) -> Client {
    Client {
        name: Some(name.into()),
        address: address.parse().expect("address"),
    }
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|n| (*n).to_owned()).collect()
}

/// Each is stronger than all after it.
const ORDER: [&str; 9] = [
    "f$$IP=10.1.2.3$$",
    "f$$IP=10.1.2.0_24$$",
    "f$$IP=10.1.0.0_16$$",
    "f$$IP=10.0.0.0_8$$",
    "f$$HOST=n1$$",
    "f$$HOST=n1*$$",
    "f$$HOST=n*$$",
    "f$$CLIENT$$",
    "f",
];

#[test]
fn stronger_tags_win_over_all_weaker_ones() {
    let n1 = client("n1", "10.1.2.3");
    for (i, strongest) in ORDER.iter().enumerate() {
        let chosen = lookup(&names(&ORDER[i..]), "f", &n1, &|_| true);
        assert_eq!(chosen.name, *strongest);
        assert!(chosen.exists);
    }
    // The weakest of all before the plain file.
    let always = names(&["f", "f$$ALWAYS=CLIENT$$", "f$$HOST=n2$$"]);
    let chosen = lookup(&always, "f", &n1, &|_| true);
    assert_eq!(
        (chosen.name.as_str(), chosen.exists),
        ("f$$CLIENT$$", false)
    );
}

#[test]
fn tags_of_others_are_passed_over() {
    let check = |who: &Client, dir: &[&str], expected: &str| {
        assert_eq!(
            lookup(&names(dir), "f", who, &|_| true).name,
            expected,
            "{who:?} {dir:?}"
        );
    };
    let n1 = client("n1", "10.1.2.3");
    check(
        &n1,
        &[
            "f",
            "f$$IP=10.1.2.4$$",
            "f$$IP=10.2.0.0_16$$",
            "f$$HOST=n2$$",
            "f$$HOST=m*$$",
        ],
        "f",
    );
    // A prefix is not the whole name, and the whole name no prefix.
    check(&client("n11", "10.1.2.3"), &["f", "f$$HOST=n1$$"], "f");
    check(
        &client("n1.farm", "10.1.2.3"),
        &["f", "f$$HOST=n1$$"],
        "f$$HOST=n1$$",
    );
    // Names that only look like tags.
    check(
        &n1,
        &[
            "f",
            "f$$IP=10.1.2$$",
            "f$$HOST=$$",
            "f$$NOTHING$$",
            "f$$IP=10.1.2.3_33$$",
            "fg$$CLIENT$$",
        ],
        "f",
    );
    let stranger = Client {
        name: None,
        address: "10.1.2.3".parse().expect("address"),
    };
    check(&stranger, &["f", "f$$HOST=*$$"], "f");
    check(&n1, &["f", "f$$HOST=*$$"], "f$$HOST=*$$");
}

#[test]
fn what_a_client_may_not_read_does_not_match() {
    let dir = names(&["f", "f$$IP=10.1.2.3$$", "f$$CLIENT$$"]);
    let secret = |name: &str| !name.contains("IP=");
    let chosen = lookup(&dir, "f", &client("n1", "10.1.2.3"), &secret);
    assert_eq!(chosen.name, "f$$CLIENT$$");
    assert!(chosen.considered[0].fits && !chosen.considered[0].readable);
}

#[test]
fn four_dollars_ask_for_the_plain_file() {
    let dir = names(&["f", "f$$CLIENT$$"]);
    let chosen = lookup(&dir, "f$$$$", &client("n1", "10.1.2.3"), &|_| true);
    assert_eq!(
        (chosen.name.as_str(), &chosen.rule),
        ("f", &Rule::Tag(Tag::Base))
    );
    // Whoever asks for a tagged name as a whole gets it.
    let chosen = lookup(&dir, "f$$CLIENT$$", &client("n1", "10.1.2.3"), &|_| true);
    assert_eq!(chosen.name, "f$$CLIENT$$");
}

#[test]
fn listings_hide_tags_and_what_is_shadowed() {
    let dir = names(&[
        "f",
        "f$$CLIENT$$",
        "g$$HOST=n1$$",
        "h$$HOST=n2$$",
        "$$CREATE=IP$$",
        "k$$CREATE=IP$$",
        "plain",
    ]);
    let n1 = client("n1", "10.1.2.3");
    assert_eq!(list(&dir, &n1, &|_| true), ["f", "g", "plain"]);
    let always = names(&["f", "g$$IP=10.1.2.3$$", "$$ALWAYS=IP$$"]);
    assert_eq!(
        list(&always, &n1, &|_| true),
        ["g"],
        "ALWAYS hides what has no variant"
    );
}

#[test]
fn new_files_go_where_create_and_always_say() {
    let n1 = client("n1", "10.1.2.3");
    let check = |dir: &[&str], expected: &str| {
        assert_eq!(
            create(&names(dir), "f", &n1, &|_| true).name,
            expected,
            "{dir:?}"
        );
    };
    check(&[], "f");
    check(&["f$$CREATE=IP$$"], "f$$IP=10.1.2.3$$");
    check(&["$$CREATE=CLIENT$$"], "f$$CLIENT$$");
    check(&["f$$CREATE=CLIENT$$", "$$CREATE=IP$$"], "f$$CLIENT$$");
    check(&["$$ALWAYS=IP$$"], "f$$IP=10.1.2.3$$");
    // A variant that is there is what is written.
    check(&["f$$HOST=n1$$", "$$CREATE=IP$$"], "f$$HOST=n1$$");
    check(&["f$$HOST=n2$$", "$$CREATE=IP$$"], "f$$IP=10.1.2.3$$");
}

#[test]
fn directories_on_the_way_have_variants_too() {
    let list = |dir: &Path| match dir.to_str() {
        Some("/root") => Ok(names(&["etc", "etc$$HOST=n1$$"])),
        Some("/root/etc$$HOST=n1$$") => Ok(names(&["hostname$$CLIENT$$"])),
        Some("/root/etc") => Ok(names(&["hostname"])),
        other => panic!("{other:?} is listed"),
    };
    let see = |who: &str| {
        let seen = walk(
            Path::new("/root"),
            Path::new("/etc/hostname"),
            &client(who, "10.1.2.3"),
            &list,
        );
        seen.expect("seen").path.display().to_string()
    };
    assert_eq!(see("n1"), "/root/etc$$HOST=n1$$/hostname$$CLIENT$$");
    assert_eq!(see("n2"), "/root/etc/hostname");
    let out = walk(
        Path::new("/root"),
        Path::new("../x"),
        &client("n1", "10.1.2.3"),
        &list,
    );
    assert!(out.is_err());
}
