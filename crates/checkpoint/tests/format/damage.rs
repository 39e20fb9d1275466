//! Files that are damaged, forged, or no checkpoints.

use crate::{Dir, header, read_all, write_small};
use armento_checkpoint::format::{FormatError, Overwrite, Writer, inspect};
use std::fs;

#[test]
fn other_files_are_refused_by_name() {
    let dir = Dir::new();
    let path = dir.at("c");
    write_small(&path);
    let whole = fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(dir.at("other"), bytes).unwrap();
        read_all(&dir.at("other")).unwrap_err()
    };
    assert!(matches!(refused(b""), FormatError::NotACheckpoint(_)));
    assert!(matches!(
        refused(b"#!/bin/sh\n"),
        FormatError::NotACheckpoint(_)
    ));
    let mut other = whole.clone();
    other[8] = 9;
    let what = refused(&other);
    assert!(matches!(what, FormatError::OtherVersion { found: 9, .. }));
    assert!(what.to_string().contains("format 9"), "{what}");
    let mut machine = header();
    machine.machine = "pdp11".into();
    let w = Writer::create(&dir.at("pdp"), &machine, Overwrite::No).unwrap();
    w.finish().unwrap();
    let what = read_all(&dir.at("pdp")).unwrap_err();
    assert!(what.to_string().contains("pdp11"), "{what}");
    let mut long = whole.clone();
    long.push(0);
    assert!(matches!(refused(&long), FormatError::Changed { .. }));
    assert!(matches!(
        refused(&whole[..whole.len() - 1]),
        FormatError::Truncated { .. }
    ));
    assert!(matches!(
        read_all(&dir.0).unwrap_err(),
        FormatError::NotACheckpoint(_)
    ));
}

#[test]
fn each_damaged_byte_and_each_truncation_is_an_error() {
    let dir = Dir::new();
    let path = dir.at("c");
    write_small(&path);
    let whole = fs::read(&path).unwrap();
    assert!(whole.len() > 4000, "{} bytes", whole.len());
    read_all(&path).unwrap();
    let other = dir.at("other");
    for at in places(0, whole.len()) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&other, &bytes).unwrap();
        assert!(read_all(&other).is_err(), "byte {at} was changed unseen");
    }
    for length in places(0, whole.len()) {
        fs::write(&other, &whole[..length]).unwrap();
        let found = read_all(&other);
        let named = match length {
            0 => matches!(found, Err(FormatError::NotACheckpoint(_))),
            _ => matches!(found, Err(FormatError::Truncated { .. })),
        };
        assert!(named, "{length} bytes: {found:?}");
    }
}

/// Every byte of the beginning, where most kinds of fields are, and of the end; of what lies between every eleventh.
fn places(from: usize, to: usize) -> impl Iterator<Item = usize> {
    let ends = move |at: &usize| *at < 800 || at + 200 > to || at.is_multiple_of(11);
    (from..to).filter(ends)
}

/// A forger gives a changed file a digest that fits.
#[test]
fn forged_files_end_in_errors_and_never_in_panics() {
    let dir = Dir::new();
    let path = dir.at("c");
    write_small(&path);
    let whole = fs::read(&path).unwrap();
    let body = whole.len() - 32;
    let other = dir.at("other");
    for at in places(16, body) {
        let mut bytes = whole.clone();
        bytes[at] ^= [0x01, 0x80, 0xff][at % 3];
        let digest = ring::digest::digest(&ring::digest::SHA256, &bytes[..body]);
        bytes[body..].copy_from_slice(digest.as_ref());
        fs::write(&other, &bytes).unwrap();
        // Other content may be sound; that no call panics is what is tested.
        drop(read_all(&other));
        drop(inspect(&other));
    }
}
