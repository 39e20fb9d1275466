//! The published schema of the control API and of what `--json` prints, and the Python client's types made from it.
//!
//! ```text
//! types of client and model ─► schemars ─► document()  `armento schema`
//!                                              └─► python()  clients/python/src/armento/types.py, by `cargo xtask gen`
//! ```
//! It sends nothing and reads nothing. Requests and answers between daemons, keepers and hosts are not published: they
//! may change with each version.

mod conforms;
mod documents;
mod notation;
mod python;

use armento_client::api::{Answer, Ask, Refusal};
use armento_client::version::spoken;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

pub use conforms::check_document;
pub use documents::DOCUMENTS;
pub use python::python;

/// The schema (JSON Schema 2020-12): `$defs` has each type; `line` is a line of a control session from a command,
/// `reply` the daemon's; `documents` has what `--json` prints, by the name of its schema.
pub fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    generator.subschema_for::<Ask>();
    generator.subschema_for::<Answer>();
    generator.subschema_for::<Refusal>();
    let mut defs = Map::new();
    for (name, schema) in generator.take_definitions(true) {
        defs.insert(name, schema);
    }
    let refer = |name: &str| json!({ "$ref": format!("#/$defs/{name}") });
    let id = json!({ "type": "integer", "minimum": 0, "description": "Chosen by the requester, repeated in the answer." });
    let v = json!({ "type": "integer", "minimum": 1, "description": "The version that the sender speaks." });
    let mut documents = Map::new();
    for (name, text) in DOCUMENTS {
        documents.insert((*name).into(), described(name, text, &defs));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Armento control API",
        "description": "One JSON object a line over the Unix socket of a node's daemon. Unknown fields are to be ignored: a version may add some.",
        "version": spoken(),
        "line": {
            "type": "object",
            "required": ["v", "id", "ask"],
            "properties": { "v": v, "id": id, "ask": refer("Ask") },
        },
        "reply": {
            "type": "object",
            "required": ["v", "id"],
            "properties": { "v": v, "id": id, "ok": refer("Answer"), "err": refer("Refusal") },
        },
        "documents": documents,
        "$defs": defs,
    })
}

/// The schema of what `--json` prints; a field `schema` names it.
fn described(name: &str, text: &str, defs: &Map<String, Value>) -> Value {
    let named = json!({ "properties": { "schema": { "const": name } }, "required": ["schema"] });
    let fields = notation::schema(text, defs).unwrap_or_else(|_| json!({ "type": "object" }));
    match fields["$ref"].as_str().and_then(|to| to.rsplit('/').next()) {
        Some(definition) => notation::merged(defs[definition].clone(), &named),
        None => notation::merged(fields, &named),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_has_a_schema() {
        let doc = document();
        let Value::Object(defs) = doc["$defs"].clone() else {
            panic!("definitions");
        };
        let mut before = "";
        for (name, text) in DOCUMENTS {
            if let Err(e) = notation::schema(text, &defs) {
                panic!("{name}: {e}");
            }
            assert!(before < *name, "{name} is not in order");
            before = name;
            let properties = doc["documents"][name]["properties"].as_object();
            assert!(properties.is_some_and(|p| p.len() > 1), "{name}");
        }
    }

    #[test]
    fn documents_are_checked() {
        let whole = document();
        let check = |document: Value, want: &str| match check_document(&whole, &document) {
            Ok(()) => assert_eq!(want, "", "{document}"),
            Err(e) => assert!(e.contains(want) && !want.is_empty(), "{e}"),
        };
        let migrated = |more: Value| {
            let mut doc = json!({ "schema": "armento.migrate/1", "pid": 7, "node": null });
            if let (Some(doc), Value::Object(more)) = (doc.as_object_mut(), more) {
                doc.extend(more);
            }
            doc
        };
        check(migrated(json!({})), "");
        check(migrated(json!({ "bytes": 5 })), "");
        check(migrated(json!({ "bytes": "5" })), "bytes is");
        check(migrated(json!({ "bite": 5 })), "bite is not in the schema");
        check(
            json!({ "schema": "armento.migrate/1", "node": "n1" }),
            "pid is missing",
        );
        check(json!({ "schema": "armento.none/1" }), "there is no schema");
    }

    /// Every `$ref` of a value.
    fn references(v: &Value, into: &mut Vec<String>) {
        match v {
            Value::Object(fields) => {
                if let Some(Value::String(to)) = fields.get("$ref") {
                    into.push(to.clone());
                }
                fields.values().for_each(|v| references(v, into));
            }
            Value::Array(all) => all.iter().for_each(|v| references(v, into)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_is_defined_and_no_secret_is_published() {
        let doc = document();
        let mut all = Vec::new();
        references(&doc, &mut all);
        assert!(all.len() > 20, "{all:?}");
        for to in all {
            let name = to.strip_prefix("#/$defs/").expect(&to);
            assert!(doc["$defs"].get(name).is_some(), "{to}");
        }
        for inner in ["Identity", "KeeperHello", "Pass", "MfsRoute", "Badge"] {
            assert!(doc["$defs"].get(inner).is_none(), "{inner}");
        }
        let node = &doc["$defs"]["NodeInfo"]["properties"];
        assert_eq!(node["mem_free_kib"]["type"], "integer");
        assert!(doc["documents"]["armento.nodes/1"]["properties"]["nodes"].is_object());
    }
}
