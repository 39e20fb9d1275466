//! What machines ask for by HTTP.

use super::node_files::node_tar;
use super::orders::script;
use super::state::{State, now_ms};
use crate::image::{Wanted, check_name};
use crate::init::{Asked, ImageSeen, Told};
use crate::stage::Step;
use armento_fabric::inventory::Root;
use armento_fabric::render::ipxe;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::connect_info::ConnectInfo;
use axum::extract::{Path as UrlPath, Query, State as Given};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use futures_util::stream;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Files that are sent at once; others wait for their turn. 200 nodes that start together have room.
const SENDS_MAX: usize = 256;
/// Bytes that are read at once for each of them.
const PIECE: usize = 1 << 16;
/// Bytes of what a machine tells.
const TOLD_MAX: usize = 16 << 10;
/// … and how long it may take: it is one packet, which may be lost some times.
const TOLD: Duration = Duration::from_secs(10);

struct Shared {
    state: Arc<State>,
    /// This server, as `http://10.0.0.1:8117`.
    base: String,
    sends: Arc<Semaphore>,
}

type Site = Given<Arc<Shared>>;
type Peer = ConnectInfo<SocketAddr>;

pub fn routes(state: Arc<State>, base: String) -> Router {
    let shared = Shared {
        state,
        base,
        sends: Arc::new(Semaphore::new(SENDS_MAX)),
    };
    Router::new()
        .route("/boot.ipxe", get(first_script))
        .route("/node.ipxe", get(second_script))
        .route("/image/{image}/{generation}/{file}", get(image))
        .route("/node.tar", get(own_files))
        .route("/join", get(join))
        .route("/progress", post(told))
        .route("/time", get(time))
        .route("/status", get(status))
        .with_state(Arc::new(shared))
}

async fn first_script(Given(at): Site) -> String {
    let settings = &at.state.settings;
    ipxe(&at.state.farm(), Some(&settings.server), settings.http)
}

async fn second_script(Given(at): Site, Query(asked): Query<Asked>) -> String {
    at.state.reached(asked.mac, Step::Script);
    let answer = at.state.answer(asked.mac);
    script(&answer, asked.mac, &at.base, &at.state.settings.append)
}

#[derive(serde::Deserialize)]
struct MaybeAsked {
    mac: Option<armento_fabric::addr::Mac>,
}

async fn image(
    Given(at): Site,
    UrlPath((image, generation, file)): UrlPath<(String, u32, String)>,
    Query(asked): Query<MaybeAsked>,
) -> Response {
    let step = match file.as_str() {
        "vmlinuz" => Some(Step::Kernel),
        "initrd" => Some(Step::Initrd),
        "root.erofs" => None,
        _ => {
            return refused(
                StatusCode::NOT_FOUND,
                "an image has vmlinuz, initrd and root.erofs",
            );
        }
    };
    if let Err(what) = check_name(&image) {
        return refused(StatusCode::NOT_FOUND, &what);
    }
    let wanted = Wanted {
        image,
        number: Some(generation),
    };
    let found = match at.state.store.find(&wanted) {
        Ok(found) => found,
        Err(e) => return refused(StatusCode::NOT_FOUND, &e.to_string()),
    };
    let answer = send(&at, &found.file(&file)).await;
    if let (Some(mac), Some(step)) = (asked.mac, step)
        && at.state.farm().node_with(mac).is_some()
    {
        at.state.reached(mac, step);
    }
    answer
}

async fn send(at: &Shared, path: &std::path::Path) -> Response {
    let opened = async {
        let file = File::open(path).await?;
        let len = file.metadata().await?.len();
        std::io::Result::Ok((file, len))
    };
    let (file, len) = match opened.await {
        Ok(opened) => opened,
        Err(e) => return refused(StatusCode::NOT_FOUND, &format!("{}: {e}", path.display())),
    };
    let Ok(permit) = at.sends.clone().acquire_owned().await else {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "this server ends");
    };
    let pieces = stream::try_unfold(
        (file, permit),
        |(mut file, permit): (File, OwnedSemaphorePermit)| async move {
            let mut piece = vec![0; PIECE];
            let n = file.read(&mut piece).await?;
            piece.truncate(n);
            std::io::Result::Ok((n > 0).then(|| (Bytes::from(piece), (file, permit))))
        },
    );
    let head = [
        (header::CONTENT_LENGTH, len.to_string()),
        (header::CONTENT_TYPE, "application/octet-stream".into()),
    ];
    (head, Body::from_stream(pieces)).into_response()
}

async fn own_files(
    Given(at): Site,
    ConnectInfo(peer): Peer,
    Query(asked): Query<Asked>,
) -> Response {
    if !at.state.is_at(asked.mac, peer.ip()) {
        return stranger();
    }
    let state = at.state.clone();
    let made = tokio::task::spawn_blocking(move || {
        let farm = state.farm();
        let node = farm.node_with(asked.mac)?;
        let generation = match node.root {
            Root::Ram => state.store.of_node(node.image.as_deref()).ok(),
            _ => None,
        };
        Some(node_tar(
            &farm,
            node,
            generation.map(|g| g.root()).as_deref(),
        ))
    });
    match made.await {
        Ok(Some(Ok(bytes))) => bytes.into_response(),
        Ok(Some(Err(e))) => refused(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string()),
        _ => stranger(),
    }
}

async fn join(Given(at): Site, ConnectInfo(peer): Peer, Query(asked): Query<Asked>) -> Response {
    if !at.state.is_at(asked.mac, peer.ip()) {
        return stranger();
    }
    let state = at.state.clone();
    let made = tokio::task::spawn_blocking(move || state.token(asked.mac));
    match made.await {
        Ok(Ok(joining)) => axum::Json(joining).into_response(),
        Ok(Err(why)) => refused(StatusCode::SERVICE_UNAVAILABLE, &why),
        Err(_) => refused(StatusCode::INTERNAL_SERVER_ERROR, "no token was made"),
    }
}

/// A body of at most [`TOLD_MAX`] bytes; else what is answered.
pub(super) async fn body_of(body: Body, limit: Duration) -> Result<Bytes, Response> {
    match tokio::time::timeout(limit, axum::body::to_bytes(body, TOLD_MAX)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(e)) => Err(refused(StatusCode::BAD_REQUEST, &e.to_string())),
        Err(_) => Err(refused(
            StatusCode::REQUEST_TIMEOUT,
            "the rest did not come",
        )),
    }
}

async fn told(Given(at): Site, ConnectInfo(peer): Peer, body: Body) -> Response {
    let body = match body_of(body, TOLD).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    let Ok(told) = serde_json::from_slice::<Told>(&body) else {
        return refused(StatusCode::BAD_REQUEST, "this is no progress of a boot");
    };
    // What comes before the initramfs is seen, not told.
    if !at.state.is_at(told.mac, peer.ip()) || told.step < Step::Initrd {
        return stranger();
    }
    at.state.reached(told.mac, told.step);
    if let Some(trouble) = &told.trouble {
        at.state.trouble(told.mac, trouble);
    }
    StatusCode::NO_CONTENT.into_response()
}

async fn time() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or_else(|_| "0\n".into(), |d| format!("{}\n", d.as_nanos()))
}

async fn status(Given(at): Site) -> Response {
    let state = at.state.clone();
    let images = tokio::task::spawn_blocking(move || images(&state));
    let settings = &at.state.settings;
    axum::Json(json!({
        "schema": "armento.boot.board/1",
        "server": settings.server,
        "now_ms": now_ms(),
        "board": at.state.board(),
        "images": images.await.unwrap_or_default(),
        "follows": at.state.peers.all(),
    }))
    .into_response()
}

/// What a server has, for `armento boot image list` on another one.
fn images(state: &State) -> Vec<ImageSeen> {
    let own = &state.settings.server;
    let seen = |l: crate::image::Listed| {
        Some(ImageSeen {
            made: state.store.made(&l.generation).ok()?,
            lead: state.store.lead(&l.generation, own).server,
            image: l.generation.image,
            generation: l.generation.number,
            current: l.current,
        })
    };
    let list = state.store.list().unwrap_or_default();
    list.into_iter().filter_map(seen).collect()
}

fn stranger() -> Response {
    refused(
        StatusCode::FORBIDDEN,
        "the inventory gives this card another address than yours",
    )
}

fn refused(code: StatusCode, why: &str) -> Response {
    (code, format!("{why}\n")).into_response()
}
