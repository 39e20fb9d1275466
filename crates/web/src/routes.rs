//! What browsers ask, and who answers.
//!
//! | path | what |
//! |---|---|
//! | `GET /`, `/app.js`, `/app.css` | the pages, for everybody: they hold no data |
//! | `POST /api/sign-in` | `{"token":…}`: a cookie for this browser |
//! | `POST /api/sign-out` | the end of it |
//! | `GET /api/me` | who is signed in |
//! | `GET /api/events` | the farm, then its changes (`state.rs`), as server-sent events |
//! | `GET /api/history` | the last hour; `?node=NAME` of one node |
//! | `POST /api/act` | `{"home":…,"action":{"what":…,"pid":…}}`: one process |
//! | `GET /metrics` | OpenMetrics, without signing in: what every user of this machine may see |
//! | `GET /reports/…` | reports of the papers, if a directory is set |

use crate::asset;
use crate::guard::{Guard, Unwanted};
use crate::hub::{Hub, News, NoStream, Watched};
use crate::packed::{self, Packer};
use crate::reply::{Reply, bytes, error, failed, ok, page, signed_out};
use crate::reports;
use crate::watch::watch;
use armento_client::api::{Action, Answer, Ask};
use armento_client::{ANSWER, AskError, MOVE};
use armento_metrics::{OPENMETRICS, Snapshot, render};
use armento_model::NodeName;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderValue, SET_COOKIE};
use axum::http::{HeaderMap, Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// Largest body of a request, bytes: one action.
const BODY_MAX: usize = 8 * 1024;

pub struct Site {
    pub guard: Guard,
    pub hub: Arc<Hub>,
    pub reports: Option<PathBuf>,
}

pub fn router(site: Arc<Site>) -> Router {
    Router::new().fallback(answer).with_state(site)
}

async fn answer(State(site): State<Arc<Site>>, request: Request) -> Reply {
    match site.guard.check(request.headers()) {
        Err(Unwanted::Host) => {
            let text = "This server is not called that. Open the address that `armento web` prints; further names are \
                        given with `names` in the section [web] of its settings.";
            return page(StatusCode::MISDIRECTED_REQUEST, "Another name", text);
        }
        Err(Unwanted::Origin) => {
            let hint = "open the address that `armento web` prints";
            let what = "a page of another site asked this; nothing was done";
            return error(StatusCode::FORBIDDEN, "foreign-page", what, hint);
        }
        Ok(()) => {}
    }
    let path = request.uri().path().to_owned();
    let method = request.method().clone();
    match (&method, path.as_str()) {
        (&Method::POST, "/api/sign-in") => sign_in(&site, request).await,
        (&Method::POST, "/api/sign-out") => sign_out(&site, request.headers()).await,
        (&Method::POST, "/api/act") => act(&site, request).await,
        (&Method::GET, "/api/me") => me(&site, request.headers()).await,
        (&Method::GET, "/api/events") => events(&site, request.headers()).await,
        (&Method::GET, "/metrics") => metrics(&site).await,
        (&Method::GET, "/api/history") => history(&site, &request),
        (&Method::GET, _) if path == "/reports" || path.starts_with("/reports/") => {
            report(&site, request.headers(), &path).await
        }
        (&Method::GET | &Method::HEAD, _) => {
            asset::find(&path, request.headers()).unwrap_or_else(|| {
                page(
                    StatusCode::NOT_FOUND,
                    "No such page",
                    "The dashboard begins at /.",
                )
            })
        }
        _ => error(
            StatusCode::METHOD_NOT_ALLOWED,
            "no-such-question",
            "nothing is answered there",
            "the manual page armento-web lists the questions",
        ),
    }
}

/// Runs what blocks off the server's own thread.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AskError> + Send + 'static,
) -> Result<T, AskError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| Err(AskError::from(std::io::Error::other(e))))
}

/// A body of JSON, and nothing else: forms of other sites cannot send that type.
async fn body<T: DeserializeOwned>(request: Request) -> Result<T, Box<Reply>> {
    let bad = |what: &str| {
        let hint = "the manual page armento-web shows what is understood";
        Box::new(error(StatusCode::BAD_REQUEST, "bad-question", what, hint))
    };
    let kind = request.headers().get(CONTENT_TYPE);
    if kind.is_none_or(|k| k.as_bytes() != b"application/json") {
        return Err(bad("this is not application/json; nothing was done"));
    }
    let bytes = to_bytes(request.into_body(), BODY_MAX).await;
    let bytes =
        bytes.map_err(|_| bad("the question is too long, or was cut off; nothing was done"))?;
    serde_json::from_slice(&bytes).map_err(|e| {
        bad(&format!(
            "the question is not understood: {e}; nothing was done"
        ))
    })
}

#[derive(Deserialize)]
struct SignIn {
    token: String,
}

/// Asked with the rights of this server, which are those of no user: nodes, but no processes of users.
async fn metrics(site: &Arc<Site>) -> Reply {
    let hub = site.hub.clone();
    let taken = aside(move || {
        let mut session = hub.session()?;
        let mut snapshot = Snapshot::default();
        for ask in Snapshot::questions() {
            if !snapshot.take(session.ask(ask, ANSWER)?) {
                return Err(crate::hub::unexpected());
            }
        }
        Ok(snapshot)
    });
    match taken.await {
        Ok(snapshot) => bytes(StatusCode::OK, OPENMETRICS, render(&snapshot)),
        Err(e) => failed(&e),
    }
}

async fn sign_in(site: &Arc<Site>, request: Request) -> Reply {
    let SignIn { token } = match body(request).await {
        Ok(given) => given,
        Err(no) => return *no,
    };
    let hub = site.hub.clone();
    let signed = aside(move || hub.session()?.ask(Ask::WebSignIn { token }, ANSWER)).await;
    match signed {
        Ok(Answer::WebSession(who)) => {
            let cookie = site.guard.cookie(&who.secret, who.left_s);
            let reply = ok(json!({ "uid": who.uid, "user": who.user, "left_s": who.left_s }));
            with_cookie(reply, &cookie)
        }
        Ok(_) => failed(&crate::hub::unexpected()),
        Err(e) => failed(&e),
    }
}

async fn sign_out(site: &Arc<Site>, headers: &HeaderMap) -> Reply {
    let Some(secret) = site.guard.secret(headers) else {
        return signed_out();
    };
    let hub = site.hub.clone();
    match aside(move || hub.session()?.ask(Ask::WebSignOut { secret }, ANSWER)).await {
        Ok(_) => with_cookie(ok(json!({})), &site.guard.cookie("", 0)),
        Err(e) => failed(&e),
    }
}

fn with_cookie(mut reply: Reply, cookie: &str) -> Reply {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        reply.headers_mut().insert(SET_COOKIE, cookie);
    }
    reply
}

/// Of a browser without a cookie this is no failure: its page asks it first.
async fn me(site: &Arc<Site>, headers: &HeaderMap) -> Reply {
    let Some(secret) = site.guard.secret(headers) else {
        return ok(json!({ "signed_in": false }));
    };
    let hub = site.hub.clone();
    match aside(move || hub.acting(&secret)).await {
        Ok((_, who)) => ok(json!({
            "signed_in": true, "uid": who.uid, "user": who.user, "left_s": who.left_s, "reports": site.reports.is_some(),
            "pages": asset::version(),
        })),
        Err(e) => failed(&e),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Act {
    home: NodeName,
    action: Action,
}

async fn act(site: &Arc<Site>, request: Request) -> Reply {
    let Some(secret) = site.guard.secret(request.headers()) else {
        return signed_out();
    };
    let Act { home, action } = match body(request).await {
        Ok(given) => given,
        Err(no) => return *no,
    };
    let hub = site.hub.clone();
    let done = aside(move || hub.ask(&secret, Ask::Do { home, action }, MOVE)).await;
    match done {
        Ok(answer) => ok(json!({ "answer": answer })),
        Err(e) => failed(&e),
    }
}

/// Only for a browser whose farm is watched: its stream was allowed by the daemon, and ends with its session.
fn history(site: &Site, request: &Request) -> Reply {
    let secret = site.guard.secret(request.headers());
    let Some(watched) = secret.and_then(|s| site.hub.known(&s)) else {
        return signed_out();
    };
    let asked = request.uri().query().and_then(|q| q.strip_prefix("node="));
    // A name that is none finds nothing.
    let node = asked.map(str::to_owned);
    let loads = site.hub.loads().shown(node.as_deref());
    let counts = match node {
        None => watched.lock().counts.shown(),
        Some(_) => Value::Null,
    };
    ok(json!({ "loads": loads, "counts": counts }))
}

async fn events(site: &Arc<Site>, headers: &HeaderMap) -> Reply {
    let Some(secret) = site.guard.secret(headers) else {
        return signed_out();
    };
    let hub = site.hub.clone();
    let watched = tokio::task::spawn_blocking(move || watch(&hub, &secret)).await;
    match watched {
        Ok(Ok(watched)) => stream(watched, packed::wanted(headers)),
        Ok(Err(NoStream::Ask(e))) => failed(&e),
        Ok(Err(NoStream::Full)) => error(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            "too many pages are open",
            "close some, or use the dashboard of another node",
        ),
        Err(e) => failed(&AskError::from(std::io::Error::other(e))),
    }
}

/// Where a stream is.
enum Next {
    Begin(Arc<str>),
    Changes,
    Over,
}

fn stream(watched: Arc<Watched>, packs: bool) -> Reply {
    let packer = match Packer::new(packs) {
        Ok(packer) => packer,
        Err(e) => return failed(&AskError::from(e)),
    };
    let (full, changes) = watched.join();
    let first = (watched, changes, packer, Next::Begin(full));
    let messages = futures_util::stream::unfold(
        first,
        |(watched, mut changes, mut packer, next)| async move {
            let (text, next) = match next {
                Next::Over => return None,
                Next::Begin(full) => (full, Next::Changes),
                Next::Changes => receive(&watched, &mut changes).await?,
            };
            let sent = packer.message(format!("data: {text}\n\n"));
            Some((sent, (watched, changes, packer, next)))
        },
    );
    let kind = "text/event-stream";
    let reply = bytes(StatusCode::OK, kind, Body::from_stream(messages));
    if packs { packed::mark(reply) } else { reply }
}

async fn receive(watched: &Watched, changes: &mut Receiver<News>) -> Option<(Arc<str>, Next)> {
    match changes.recv().await {
        Ok(News { text, last: true }) => Some((text, Next::Over)),
        Ok(News { text, .. }) => Some((text, Next::Changes)),
        // It was too slow: everything anew, and what came in between is dropped.
        Err(RecvError::Lagged(_)) => {
            *changes = changes.resubscribe();
            Some((watched.full(), Next::Changes))
        }
        Err(RecvError::Closed) => None,
    }
}

async fn report(site: &Arc<Site>, headers: &HeaderMap, path: &str) -> Reply {
    let Some(secret) = site.guard.secret(headers) else {
        let text = "Sign in first: `armento web` prints an address to open.";
        return page(StatusCode::UNAUTHORIZED, "Not signed in", text);
    };
    let (hub, dir) = (site.hub.clone(), site.reports.clone());
    let path = path.to_owned();
    let read = aside(move || {
        hub.acting(&secret)?;
        Ok(reports::read(dir.as_deref(), &path))
    });
    read.await.unwrap_or_else(|e| failed(&e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::header::{COOKIE, HOST, ORIGIN};

    fn site() -> Arc<Site> {
        Arc::new(Site {
            guard: Guard::new(&[], false, 7118),
            hub: Hub::new("/nonexistent/armento.sock".into()),
            reports: None,
        })
    }

    fn ask(
        method: Method,
        path: &str,
        more: &[(axum::http::HeaderName, &str)],
        text: &str,
    ) -> (StatusCode, String) {
        let mut request = Request::builder().method(method).uri(path);
        let has_host = more.iter().any(|(name, _)| name == HOST);
        if !has_host {
            request = request.header(HOST, "127.0.0.1:7118");
        }
        for (name, value) in more {
            request = request.header(name, *value);
        }
        let request = request
            .body(Body::from(text.to_owned()))
            .expect("a request");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let reply = answer(State(site()), request).await;
            let status = reply.status();
            let bytes = to_bytes(reply.into_body(), 1 << 20).await.expect("a body");
            (status, String::from_utf8_lossy(&bytes).into_owned())
        })
    }

    #[test]
    fn nobody_gets_data_without_being_signed_in() {
        assert!(
            ask(Method::GET, "/api/me", &[], "")
                .1
                .contains("\"signed_in\":false")
        );
        for path in [
            "/api/events",
            "/api/history",
            "/api/history?node=n1",
            "/reports/",
            "/reports/a.html",
        ] {
            assert_eq!(
                ask(Method::GET, path, &[], "").0,
                StatusCode::UNAUTHORIZED,
                "{path}"
            );
        }
        let json = [(CONTENT_TYPE, "application/json")];
        let act = r#"{"home":"n1","action":{"what":"stop","pid":1}}"#;
        assert_eq!(
            ask(Method::POST, "/api/act", &json, act).0,
            StatusCode::UNAUTHORIZED
        );
        // A cookie of one's own making is shown to the daemon, of which there is none here.
        let cookie = [
            (COOKIE, "armento-7118=cafe"),
            (CONTENT_TYPE, "application/json"),
        ];
        for path in ["/api/me", "/api/events"] {
            assert_eq!(
                ask(Method::GET, path, &cookie, "").0,
                StatusCode::SERVICE_UNAVAILABLE
            );
        }
        assert_eq!(
            ask(Method::GET, "/api/history", &cookie, "").0,
            StatusCode::UNAUTHORIZED
        );
        assert_eq!(
            ask(Method::POST, "/api/act", &cookie, act).0,
            StatusCode::SERVICE_UNAVAILABLE
        );
    }

    #[test]
    fn foreign_names_and_pages_are_refused() {
        let (status, text) = ask(Method::GET, "/", &[(HOST, "evil.example")], "");
        assert_eq!(status, StatusCode::MISDIRECTED_REQUEST);
        assert!(text.contains("armento web"));
        let foreign = [
            (ORIGIN, "http://evil.example"),
            (CONTENT_TYPE, "application/json"),
        ];
        let (status, text) = ask(Method::POST, "/api/sign-in", &foreign, "{\"token\":\"a\"}");
        assert_eq!(status, StatusCode::FORBIDDEN);
        assert!(text.contains("foreign-page"));
    }

    #[test]
    fn hostile_questions_are_refused_with_a_reason() {
        let cookie = [
            (COOKIE, "armento-7118=cafe"),
            (CONTENT_TYPE, "application/json"),
        ];
        let deep = "[".repeat(4000);
        let long = format!("{{\"home\":\"{}\"}}", "n".repeat(BODY_MAX));
        let bad = [
            "",
            "{",
            "null",
            "[]",
            deep.as_str(),
            long.as_str(),
            r#"{"home":"n1"}"#,
            r#"{"home":"../n1","action":{"what":"stop","pid":1}}"#,
            r#"{"home":"n1","action":{"what":"kill","pid":1}}"#,
            r#"{"home":"n1","action":{"what":"stop","pid":"1"}}"#,
            r#"{"home":"n1","action":{"what":"stop","pid":99999999999}}"#,
            r#"{"home":"n1","action":{"what":"stop","pid":1},"uid":0}"#,
        ];
        for text in bad {
            let (status, said) = ask(Method::POST, "/api/act", &cookie, text);
            assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
            assert!(
                said.contains("bad-question") && said.contains("nothing was done"),
                "{said}"
            );
        }
        let form = [(CONTENT_TYPE, "text/plain")];
        assert_eq!(
            ask(Method::POST, "/api/sign-in", &form, "{\"token\":\"a\"}").0,
            StatusCode::BAD_REQUEST
        );
        assert_eq!(
            ask(Method::DELETE, "/api/act", &[], "").0,
            StatusCode::METHOD_NOT_ALLOWED
        );
        assert_eq!(
            ask(Method::GET, "/../etc/passwd", &[], "").0,
            StatusCode::NOT_FOUND
        );
    }
}
