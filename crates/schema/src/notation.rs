//! A short notation for JSON schemas of documents.
//!
//! ```text
//! {pid:int node:str? bytes?:int list:[str] more:{a:num *}}    an object: fields; after a type `?`: or null; after a name `?`: may be missing;
//!                                                          `*`: it has further fields
//! NodeInfo    ProcInfo&{detail:str?}                          a definition; one with other or further fields
//! int num str bool obj any
//! ```

use serde_json::{Map, Value, json};

/// The schema of a text; an error says where it is wrong.
pub fn schema(text: &str, defs: &Map<String, Value>) -> Result<Value, String> {
    let mut parser = Parser { rest: text, defs };
    let schema = parser.whole()?;
    match parser.rest.is_empty() {
        true => Ok(schema),
        false => Err(parser.wrong("nothing more")),
    }
}

struct Parser<'a> {
    rest: &'a str,
    defs: &'a Map<String, Value>,
}

impl Parser<'_> {
    fn wrong(&self, wanted: &str) -> String {
        format!("{wanted} is missing before `{}`", self.rest)
    }

    fn takes(&mut self, sign: char) -> bool {
        self.rest = self.rest.trim_start_matches(' ');
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn word(&mut self) -> &str {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// A type, or null.
    fn whole(&mut self) -> Result<Value, String> {
        let one = self.one()?;
        Ok(match self.takes('?') {
            true => json!({ "anyOf": [one, { "type": "null" }] }),
            false => one,
        })
    }

    fn one(&mut self) -> Result<Value, String> {
        if self.takes('[') {
            let items = self.whole()?;
            return match self.takes(']') {
                true => Ok(json!({ "type": "array", "items": items })),
                false => Err(self.wrong("]")),
            };
        }
        if self.takes('{') {
            return self.fields();
        }
        let word = self.word().to_owned();
        let plain = |kind: &str| Ok(json!({ "type": kind }));
        match word.as_str() {
            "int" => plain("integer"),
            "num" => plain("number"),
            "str" => plain("string"),
            "bool" => plain("boolean"),
            "obj" => Ok(json!({ "type": "object", "additionalProperties": true })),
            "any" => Ok(json!({})),
            name => self.definition(name),
        }
    }

    fn definition(&mut self, name: &str) -> Result<Value, String> {
        let Some(known) = self.defs.get(name).cloned() else {
            return Err(self.wrong(&format!("a definition of `{name}`")));
        };
        if !self.takes('&') {
            return Ok(json!({ "$ref": format!("#/$defs/{name}") }));
        }
        if !self.takes('{') {
            return Err(self.wrong("{"));
        }
        let more = self.fields()?;
        Ok(merged(known, &more))
    }

    /// The fields of an object, behind its `{`.
    fn fields(&mut self) -> Result<Value, String> {
        let mut properties = Map::new();
        let mut required = Vec::new();
        let mut open = false;
        while !self.takes('}') {
            if self.takes('*') {
                open = true;
                continue;
            }
            let name = self.word().to_owned();
            let may_miss = self.takes('?');
            if name.is_empty() || !self.takes(':') {
                return Err(self.wrong("a field"));
            }
            let schema = self.whole()?;
            if !may_miss {
                required.push(name.clone());
            }
            properties.insert(name, schema);
        }
        let mut object =
            json!({ "type": "object", "properties": properties, "required": required });
        if open {
            object["additionalProperties"] = true.into();
        }
        Ok(object)
    }
}

/// `more` takes the place of fields of the same names.
pub fn merged(mut known: Value, more: &Value) -> Value {
    if let Some(fields) = more["properties"].as_object() {
        for (name, schema) in fields {
            known["properties"][name] = schema.clone();
        }
    }
    let new = more["required"].as_array().into_iter().flatten();
    let mut required: Vec<Value> = known["required"].as_array().cloned().unwrap_or_default();
    for name in new {
        if !required.contains(name) {
            required.push(name.clone());
        }
    }
    known["required"] = required.into();
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_schemas() {
        let defs = json!({ "Node": {
            "type": "object", "properties": { "a": { "type": "integer" }, "b": { "type": "string" } }, "required": ["a"],
        } });
        let Value::Object(defs) = defs else {
            panic!("an object");
        };
        let check = |text: &str, want: Value| assert_eq!(schema(text, &defs), Ok(want), "{text}");
        check(
            "[int]",
            json!({ "type": "array", "items": { "type": "integer" } }),
        );
        check("Node", json!({ "$ref": "#/$defs/Node" }));
        check(
            "{a:str? b?:any *}",
            json!({ "type": "object", "required": ["a"], "additionalProperties": true,
                "properties": { "a": { "anyOf": [{ "type": "string" }, { "type": "null" }] }, "b": {} } }),
        );
        let both = schema("Node&{b:num c:bool}", &defs).expect("good");
        assert_eq!(both["required"], json!(["a", "b", "c"]));
        assert_eq!(both["properties"]["b"]["type"], "number");
        for bad in ["", "Nobody", "{a}", "[int", "{a:int", "int int", "Node&"] {
            assert!(schema(bad, &defs).is_err(), "{bad}");
        }
    }
}
