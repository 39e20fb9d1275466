//! What boot servers say to each other about images.

use armento_provision::follow::retold;
use serde_json::{Value, json};

pub fn follow(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else {
        return;
    };
    // What was understood is understood in the same way again.
    if let Ok(once) = retold(*kind, bytes) {
        assert_eq!(retold(*kind, &once).expect("its own words"), once);
    }
}

fn said(what: &Value) -> Vec<u8> {
    let text = what.to_string().into_bytes();
    piece(&text)
}

fn piece(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

/// Name and bytes of first inputs: each question and each answer.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let lead = json!({ "server": "srv", "turn": 2 });
    let have = json!({ "images": [{
        "name": "base", "last": 3, "choice": { "number": 2, "turn": 5, "previous": 1 },
        "generations": [
            { "number": 2, "made": 1_760_000_000, "lead": lead, "sign": "00ff" },
            { "number": 3, "made": 1_760_000_001, "lead": lead, "sign": null },
        ],
    }] });
    let item = |path: &str, kind: Value| {
        let mut item = json!({ "path": path, "mode": 493, "uid": 0, "gid": 0 });
        let fields = item.as_object_mut().expect("an object");
        fields.extend(kind.as_object().expect("an object").clone());
        item
    };
    let items = json!([
        item("etc", json!({ "kind": "directory" })),
        item(
            "etc/hosts",
            json!({ "kind": "file", "bytes": 9, "changed": [1, 2], "attributes": [["user.a", "00"]] })
        ),
        item("lib", json!({ "kind": "link", "to": "usr/lib" })),
        item(
            "null",
            json!({ "kind": "device", "block": false, "number": 259 })
        ),
        item("pipe", json!({ "kind": "pipe" })),
    ]);
    let none = said(&json!([]));
    let file = |place: Value| json!({ "ask": "file", "image": "base", "number": 3, "place": place, "from": 7 });
    let sent = [
        said(&json!({ "answer": "now", "bytes": 9 })),
        piece(b"127.0.0.1"),
        piece(b""),
        said(&json!({ "sha256": "00ff", "whole": true })),
    ];
    let all = [
        ("have", 0, said(&json!({ "ask": "have" }))),
        (
            "items",
            0,
            said(&json!({ "ask": "items", "image": "base", "number": 3 })),
        ),
        ("file", 0, said(&file(json!({ "beside": "vmlinuz" })))),
        (
            "file-of-root",
            0,
            said(&file(json!({ "root": "etc/hosts" }))),
        ),
        ("there", 1, said(&have)),
        ("list", 2, [said(&items), none].concat()),
        ("sent", 3, sent.concat()),
        (
            "refused",
            3,
            said(&json!({ "answer": "refused", "why": "no such image" })),
        ),
    ];
    let named = |(name, kind, bytes): (&str, u8, Vec<u8>)| {
        (name.to_owned(), [&[kind][..], &bytes].concat())
    };
    all.into_iter().map(named).collect()
}
