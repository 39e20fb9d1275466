//! Versions of the control API: which are sent, and which are understood.
//!
//! Every line carries the version of its sender. A program sends its own and understands the one before, so of two
//! versions the newer side decides whether it still understands the other, and tells a side that is too old. The older
//! side processes what it understands: unknown fields are ignored, unknown orders and reports skipped, unknown requests
//! refused, without effect. So a version may add to any message, and may not change the meaning of a message of the
//! version before.

use crate::api::Refusal;
use armento_model::CONTROL_VERSION;
use serde_json::Value;
use std::sync::OnceLock;

/// For tests: this process acts as a future version, which adds unknown fields to every message.
const TO_COME: &str = "ARMENTO_CONTROL_VERSION";

/// The version that this process sends.
pub fn spoken() -> u32 {
    static SPOKEN: OnceLock<u32> = OnceLock::new();
    let other = || std::env::var(TO_COME).ok()?.parse().ok();
    *SPOKEN.get_or_init(|| other().unwrap_or(CONTROL_VERSION))
}

/// The oldest version that is understood.
pub fn oldest() -> u32 {
    spoken().saturating_sub(1).max(1)
}

pub fn is_to_come() -> bool {
    spoken() > CONTROL_VERSION
}

/// Both versions, for messages.
pub fn both() -> String {
    match (spoken(), oldest()) {
        (new, old) if new == old => new.to_string(),
        (new, old) => format!("{old} and {new}"),
    }
}

/// A refusal for `peer`, which speaks version `v`, if that is too old.
pub fn too_old(peer: &str, v: u32) -> Option<Refusal> {
    (v < oldest()).then(|| Refusal {
        code: "version-mismatch".into(),
        message: format!(
            "{peer} speaks control version {v}, this daemon {}; nothing was done",
            both()
        ),
        hint: "update Armento there: one that is a single version behind is understood".into(),
    })
}

/// Turns a message into one of a future version: each object gets an unknown field. An object with a single key is the
/// name of a variant with its content, to which nothing can be added.
pub fn widen(said: &mut Value) {
    match said {
        Value::Object(fields) => {
            fields.values_mut().for_each(widen);
            if fields.len() > 1 || fields.contains_key("type") {
                fields.insert("to_come".into(), Value::from(vec![0]));
            }
        }
        Value::Array(all) => all.iter_mut().for_each(widen),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Answer, Ask, Body, Dest, Line, Order, Report};
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    #[test]
    fn previous_version_is_understood_and_no_older() {
        assert_eq!(spoken(), CONTROL_VERSION);
        assert!(too_old("it", CONTROL_VERSION).is_none());
        assert!(too_old("it", oldest()).is_none());
        assert!(too_old("it", CONTROL_VERSION + 7).is_none());
        let no = too_old("it", oldest() - 1).expect("too old");
        assert_eq!(no.code, "version-mismatch");
    }

    fn widened<T: Serialize + DeserializeOwned>(value: &T) -> serde_json::Result<T> {
        let mut said = serde_json::to_value(value)?;
        widen(&mut said);
        assert!(said.to_string().contains("to_come"), "{said}");
        serde_json::from_value(said)
    }

    #[test]
    fn added_fields_are_ignored_and_new_messages_not_understood() {
        let line = |body| Line { v: 2, id: 3, body };
        let known = [
            Body::Ask(Ask::Migrate {
                pid: 7,
                to: Dest::Node("n2".parse().expect("name")),
            }),
            Body::Ok(Answer::Done),
            Body::Order(Order::Recall { ticket: 1 }),
            Body::Report(Report::Placed { pid: 1 }),
        ];
        for body in known {
            let said = line(body);
            let heard = widened(&said).expect("it is understood");
            assert_eq!(format!("{heard:?}"), format!("{said:?}"));
        }
        let to_come = [
            Body::Ask(Ask::ToCome),
            Body::Order(Order::ToCome),
            Body::Report(Report::ToCome),
        ];
        for body in to_come {
            assert!(widened(&line(body)).is_err());
        }
    }
}
