//! Whether what was printed is what the schema says. For tests: it knows what this crate's schemas use, and is stricter than they are:
//! a field that the schema does not name is an error.

use serde_json::{Map, Value};

/// Checks a document by the schema that it names. `whole`: [`crate::document`].
pub fn check_document(whole: &Value, document: &Value) -> Result<(), String> {
    let name = document["schema"].as_str().unwrap_or_default();
    let schema = &whole["documents"][name];
    if schema.is_null() {
        return Err(format!("there is no schema `{name}`"));
    }
    check(whole, schema, document, name)
}

fn check(whole: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(to) = schema["$ref"].as_str() {
        let name = to.rsplit('/').next().unwrap_or_default();
        return check(whole, &whole["$defs"][name], value, at);
    }
    for kind in ["anyOf", "oneOf"] {
        if let Some(all) = schema[kind].as_array() {
            let mut why = String::new();
            for one in all {
                match check(whole, one, value, at) {
                    Ok(()) => return Ok(()),
                    Err(e) => why = e,
                }
            }
            return Err(why);
        }
    }
    if let Some(all) = schema["enum"].as_array()
        && !all.contains(value)
    {
        return Err(format!("{at} is {value}"));
    }
    if !schema["const"].is_null() && schema["const"] != *value {
        return Err(format!("{at} is {value}"));
    }
    if let Some(types) = types(schema)
        && !types.iter().any(|t| is_a(t, value))
    {
        return Err(format!("{at} is {value}, no {}", types.join(" or ")));
    }
    match value {
        Value::Array(all) if schema["items"].is_object() => {
            let each = all.iter().enumerate();
            each.into_iter()
                .try_for_each(|(i, v)| check(whole, &schema["items"], v, &format!("{at}[{i}]")))
        }
        Value::Object(fields) => object(whole, schema, fields, at),
        _ => Ok(()),
    }
}

fn object(
    whole: &Value,
    schema: &Value,
    fields: &Map<String, Value>,
    at: &str,
) -> Result<(), String> {
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        if !fields.contains_key(name) {
            return Err(format!("{at}.{name} is missing"));
        }
    }
    let Some(known) = schema["properties"].as_object() else {
        return Ok(());
    };
    let more = &schema["additionalProperties"];
    for (name, value) in fields {
        let at = format!("{at}.{name}");
        match known.get(name) {
            Some(schema) => check(whole, schema, value, &at)?,
            None if more.is_object() => check(whole, more, value, &at)?,
            None if *more == Value::Bool(true) => {}
            None => return Err(format!("{at} is not in the schema")),
        }
    }
    Ok(())
}

fn types(schema: &Value) -> Option<Vec<&str>> {
    match &schema["type"] {
        Value::String(one) => Some(vec![one]),
        Value::Array(all) => Some(all.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

fn is_a(kind: &str, value: &Value) -> bool {
    match kind {
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => false,
    }
}
