//! The published schema of the control API and of what `--json` prints, and the Python client's types made from it.
//!
//! ```text
//! types of client and model ─► schemars ─► document()  `armento schema`
//!                                              └─► python()  clients/python/src/armento/types.py, by `cargo xtask gen`
//! ```
//! It sends nothing and reads nothing. Requests and answers between daemons, keepers and hosts are not published: they
//! may change with each version.

mod python;

use armento_client::api::{Answer, Ask, Refusal};
use armento_client::version::spoken;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

pub use python::python;

/// What a command's `--json` prints.
struct Document {
    schema: &'static str,
    /// A list, and the definition of its items.
    list: Option<(&'static str, &'static str)>,
    /// The definition whose fields it has.
    fields_of: Option<&'static str>,
}

const fn list(schema: &'static str, name: &'static str, of: &'static str) -> Document {
    Document {
        schema,
        list: Some((name, of)),
        fields_of: None,
    }
}

const fn one(schema: &'static str, of: &'static str) -> Document {
    Document {
        schema,
        list: None,
        fields_of: Some(of),
    }
}

const DOCUMENTS: [Document; 7] = [
    list("armento.nodes/1", "nodes", "NodeInfo"),
    list("armento.ps/1", "procs", "ProcInfo"),
    list("armento.log/1", "entries", "LogEntry"),
    one("armento.farm-status/1", "SwitchInfo"),
    one("armento.trust/1", "TrustInfo"),
    one("armento.mfs/1", "MfsInfo"),
    one("armento.dfsa/1", "DfsaInfo"),
];

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
    for d in DOCUMENTS {
        let mut fields = Map::new();
        fields.insert("schema".into(), json!({ "const": d.schema }));
        if let Some((name, item)) = d.list {
            let items = refer(item);
            fields.insert(name.into(), json!({ "type": "array", "items": items }));
        }
        let required: Vec<&String> = fields.keys().collect();
        let mut doc = json!({ "type": "object", "required": required, "properties": fields });
        if let Some(of) = d.fields_of {
            doc["$ref"] = refer(of)["$ref"].clone();
        }
        documents.insert(d.schema.into(), doc);
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

#[cfg(test)]
mod tests {
    use super::*;

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
