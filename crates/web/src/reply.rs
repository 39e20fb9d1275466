//! What is sent to browsers: JSON, errors, and the headers that go with everything.

use armento_client::AskError;
use armento_client::api::Refusal;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use axum::http::{HeaderName, Response, StatusCode};
use serde_json::{Value, json};

/// The schema of everything but the stream.
pub const SCHEMA: &str = "armento.web/1";

/// Scripts, styles and connections of this server alone; nothing is framed, nothing is sent elsewhere.
const PAGES: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Reports are pages that others wrote: no scripts, no requests.
pub const REPORTS: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; sandbox; frame-ancestors 'none'";

pub type Reply = Response<Body>;

pub fn bytes(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Reply {
    let mut reply = Response::new(body.into());
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    let fixed: [(HeaderName, &'static str); 6] = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, PAGES),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    reply
}

pub fn ok(mut fields: Value) -> Reply {
    if let Value::Object(fields) = &mut fields {
        fields.insert("schema".into(), SCHEMA.into());
    }
    bytes(StatusCode::OK, "application/json", fields.to_string())
}

/// Why something was not done, as scripts and pages read it.
pub fn error(status: StatusCode, code: &str, message: &str, hint: &str) -> Reply {
    let error = json!({ "code": code, "message": message, "hint": hint });
    let body = json!({ "schema": SCHEMA, "error": error });
    bytes(status, "application/json", body.to_string())
}

pub fn signed_out() -> Reply {
    error(
        StatusCode::UNAUTHORIZED,
        "signed-out",
        "this browser is not signed in",
        "`armento web` on that node prints an address to open",
    )
}

/// The daemon's refusal.
pub fn refused(no: &Refusal) -> Reply {
    let status = match no.code.as_str() {
        "wrong-token" | "used-token" | "expired" => StatusCode::UNAUTHORIZED,
        "not-permitted" | "not-trusted" | "privileged" | "another-user" => StatusCode::FORBIDDEN,
        "no-such-process" | "no-such-node" => StatusCode::NOT_FOUND,
        "unknown-question" | "version-mismatch" => StatusCode::BAD_GATEWAY,
        _ => StatusCode::CONFLICT,
    };
    error(status, &no.code, &no.message, &no.hint)
}

pub fn failed(e: &AskError) -> Reply {
    match e {
        AskError::Refused(no) => refused(no),
        other => {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            error(status, "no-daemon", &other.to_string(), other.hint())
        }
    }
}

/// A page for a person who came by a wrong way.
pub fn page(status: StatusCode, title: &str, text: &str) -> Reply {
    let (title, text) = (escaped(title), escaped(text));
    let body = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><link rel=\"stylesheet\" href=\"/app.css\"><main class=\"alone\"><h1>{title}</h1><p>{text}</p></main></html>"
    );
    bytes(status, "text/html; charset=utf-8", body)
}

pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(escaped("<b a='\"'>&"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;");
    }
}
