//! Listens, and serves each connection within its bounds.
//!
//! Next: `web/src/routes.rs`.

use crate::guard::Guard;
use crate::hub::Hub;
use crate::routes::{Site, router};
use armento_client::api::WebStart;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// Connections at once; each page holds one for its stream and a few for questions.
const CONNECTIONS_MAX: usize = 256;
/// A connection that has not sent its request by then is closed.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// Largest request line with its headers, bytes.
const HEAD_MAX: usize = 16 * 1024;
/// After a failed accept: memory or descriptors come back.
const PAUSE: Duration = Duration::from_millis(100);

/// Why the dashboard cannot be served. Nothing listens.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    #[error("cannot listen on {addr}: {cause}")]
    Listen { addr: String, cause: io::Error },
    #[error("the certificate or its key cannot be used: {0}")]
    Keys(String),
    #[error("the server cannot run: {0}")]
    Run(io::Error),
}

/// A server that is about to run.
pub struct Bound {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    start: WebStart,
}

impl Bound {
    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.listener.local_addr().map_or(0, |a| a.port())
    }
}

/// Takes the address. After `Ok` browsers can connect, and are served once [`serve`] runs.
pub fn bind(start: WebStart) -> Result<Bound, WebError> {
    let listen = |cause| WebError::Listen {
        addr: start.listen.clone(),
        cause,
    };
    let listener = TcpListener::bind(&start.listen).map_err(listen)?;
    listener.set_nonblocking(true).map_err(listen)?;
    let tls = match &start.keys {
        None => None,
        Some(keys) => Some(acceptor(&keys.chain_pem, &keys.key_pem)?),
    };
    Ok(Bound {
        listener,
        tls,
        start,
    })
}

fn acceptor(chain: &str, key: &str) -> Result<TlsAcceptor, WebError> {
    let bad = |e: String| WebError::Keys(e);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
    let chain = chain.map_err(|e| bad(e.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|e| bad(e.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| bad(e.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|e| bad(e.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves until the process ends.
pub fn serve(bound: Bound) -> Result<(), WebError> {
    let Bound {
        listener,
        tls,
        start,
    } = bound;
    let port = listener.local_addr().map_or(0, |a| a.port());
    let site = Arc::new(Site {
        guard: Guard::new(&start.names, tls.is_some(), port),
        hub: Hub::new(start.socket),
        reports: start.reports,
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(WebError::Run)?;
    runtime.block_on(accept(listener, tls, site))
}

async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    site: Arc<Site>,
) -> Result<(), WebError> {
    let listener = tokio::net::TcpListener::from_std(listener).map_err(WebError::Run)?;
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let router = router(site);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(e) => {
                eprintln!("armento web-server: {e}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Ok(place) = room.clone().try_acquire_owned() else {
            continue;
        };
        // Changes are small and wanted at once.
        let _ = stream.set_nodelay(true);
        let (router, tls) = (router.clone(), tls.clone());
        tokio::spawn(async move {
            match tls {
                None => connection(stream, router).await,
                Some(tls) => {
                    let shaken = tokio::time::timeout(REQUEST_MAX, tls.accept(stream)).await;
                    if let Ok(Ok(stream)) = shaken {
                        connection(stream, router).await;
                    }
                }
            }
            drop(place);
        });
    }
}

/// A browser that breaks the protocol or goes away is its own matter.
async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: axum::Router,
) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_MAX)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let _ = served.await;
}
