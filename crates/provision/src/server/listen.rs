//! Accepts HTTP connections, so many at once, and ends those that stand still. A machine that is switched off, or means harm,
//! takes no room for long.
//!
//! ```text
//! accepted ─► head of a request ─► answer ─┬─► next head …
//!      within HEAD         no stop of STANDS while writing
//!      └──────────────── all of it within WHOLE ────────────┘
//! ```

use axum::Router;
use axum::extract::connect_info::ConnectInfo;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::time::{Instant, Sleep};

/// After a failed accept: memory or descriptors come back.
const PAUSE: Duration = Duration::from_millis(100);

/// How much a boot server takes of its clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once. Those that are too many are closed, and iPXE and the initramfs ask again.
    pub connections: usize,
    /// … of one address: a machine has a few.
    pub of_one: usize,
    /// Until the head of a request is there, also of the next one on the same connection.
    pub head: Duration,
    /// How long a client may take nothing of an answer.
    pub stands: Duration,
    /// A connection in all.
    pub whole: Duration,
    /// Bytes of a head.
    pub head_bytes: usize,
}

impl Limits {
    /// 200 nodes that start together have two connections each; a process may have 1024 open files, unless told otherwise. An
    /// image may take as long as the initramfs waits for it.
    pub const SERVER: Limits = Limits {
        connections: 512,
        of_one: 16,
        head: Duration::from_secs(10),
        stands: Duration::from_secs(30),
        whole: Duration::from_secs(crate::init::LONG_S + 10),
        head_bytes: 16 << 10,
    };
}

/// Serves for ever.
pub async fn serve(listener: TcpListener, routes: Router, limits: Limits) -> io::Result<()> {
    let open = Arc::new(Open::default());
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(e) => {
                tracing::warn!("HTTP: {e}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(place) = open.place(peer.ip(), &limits) else {
            tracing::debug!("HTTP: {peer} has no place");
            continue;
        };
        let routes = routes.clone();
        tokio::spawn(async move {
            let stream = Moves::new(stream, limits.stands);
            let served = connection(stream, peer, routes, limits);
            if tokio::time::timeout(limits.whole, served).await.is_err() {
                tracing::debug!("HTTP: the connection of {peer} took too long");
            }
            drop(place);
        });
    }
}

/// A client that breaks the protocol or goes away is its own matter.
async fn connection<S>(stream: S, peer: SocketAddr, routes: Router, limits: Limits)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let routes = routes.layer(axum::Extension(ConnectInfo(peer)));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_bytes)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    if let Err(e) = served.await {
        tracing::debug!("HTTP: {peer}: {e}");
    }
}

/// Connections that are open, by address.
#[derive(Default)]
struct Open(Mutex<HashMap<IpAddr, usize>>);

impl Open {
    fn place(self: &Arc<Open>, of: IpAddr, limits: &Limits) -> Option<Place> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum: usize = all.values().sum();
        let own = all.get(&of).copied().unwrap_or(0);
        if sum >= limits.connections || own >= limits.of_one {
            return None;
        }
        all.insert(of, own + 1);
        Some(Place {
            open: self.clone(),
            of,
        })
    }
}

/// One open connection.
struct Place {
    open: Arc<Open>,
    of: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.open.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(n) = all.get_mut(&self.of) {
            *n -= 1;
            if *n == 0 {
                all.remove(&self.of);
            }
        }
    }
}

/// A stream whose writes fail when none has succeeded for some time.
struct Moves<S> {
    stream: S,
    stands: Duration,
    /// While a write waits.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S: Unpin> Moves<S> {
    fn new(stream: S, stands: Duration) -> Moves<S> {
        Moves {
            stream,
            stands,
            until: None,
        }
    }

    /// What a write of the stream says, or that it has waited too long.
    fn limited<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let done = write(Pin::new(&mut self.stream), cx);
        if done.is_ready() {
            self.until = None;
            return done;
        }
        let stands = self.stands;
        let wait = || Box::pin(tokio::time::sleep_until(Instant::now() + stands));
        let until = self.until.get_or_insert_with(wait);
        until
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Moves<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Moves<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().limited(cx, |s, cx| s.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.limited(cx, |s, cx| s.poll_write_vectored(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().limited(cx, |s, cx| s.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().limited(cx, |s, cx| s.poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::super::http::body_of;
    use super::*;
    use axum::routing::{get, post};
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    /// More than two sockets hold.
    const LARGE: usize = 64 << 20;

    /// Long enough to be reached by no test that does not wait for it.
    const LONG: Limits = Limits {
        connections: 1,
        of_one: 1,
        head: Duration::from_secs(600),
        stands: Duration::from_secs(600),
        whole: Duration::from_secs(600),
        head_bytes: 16 << 10,
    };
    const SHORT: Duration = Duration::from_millis(200);

    fn server(limits: Limits) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listener");
        listener.set_nonblocking(true).expect("nonblocking");
        let address = listener.local_addr().expect("address");
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            let peer = |ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.to_string() };
            let routes = Router::new()
                .route("/peer", get(peer))
                .route("/large", get(|| async { vec![0_u8; LARGE] }))
                .route("/told", post(|body| async { body_of(body, SHORT).await }));
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).expect("listener");
                serve(listener, routes, limits).await
            })
        });
        address
    }

    fn connect(to: SocketAddr) -> TcpStream {
        TcpStream::connect(to).expect("connected")
    }

    /// All that comes until the server ends the connection.
    fn rest(stream: &mut TcpStream) -> String {
        let mut text = Vec::new();
        // A connection that is closed with something unread ends in a reset.
        let _ = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    fn ask(to: SocketAddr) -> String {
        let mut stream = connect(to);
        let own = stream.local_addr().expect("address").to_string();
        let head = "GET /peer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(head.as_bytes());
        let text = rest(&mut stream);
        match text.ends_with(&own) {
            true => "answered".into(),
            false => text,
        }
    }

    /// Until there is a place again.
    fn is_answered(to: SocketAddr) {
        while ask(to) != "answered" {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A client that asks for something large, and takes nothing of it.
    fn loses_its_place(to: SocketAddr) {
        let mut stream = connect(to);
        let head = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("sent");
        is_answered(to);
        assert!(rest(&mut stream).len() < LARGE);
    }

    #[test]
    fn a_client_that_sends_nothing_or_half_a_head_is_closed() {
        for sent in ["", "GET /pe", "GET /peer HTTP/1.1\r\nHost: x\r\n"] {
            let to = server(Limits {
                head: SHORT,
                ..LONG
            });
            let mut silent = connect(to);
            silent.write_all(sent.as_bytes()).expect("sent");
            let said = rest(&mut silent);
            assert!(!said.contains("200 OK"), "{said}");
            is_answered(to);
        }
    }

    #[test]
    fn a_client_that_keeps_its_connection_is_closed_after_its_answer() {
        let to = server(Limits {
            head: SHORT,
            ..LONG
        });
        let mut stream = connect(to);
        let head = "GET /peer HTTP/1.1\r\nHost: x\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("sent");
        assert!(rest(&mut stream).starts_with("HTTP/1.1 200 OK"));
        is_answered(to);
    }

    #[test]
    fn a_client_that_takes_no_more_of_an_answer_loses_its_place() {
        let to = server(Limits {
            stands: SHORT,
            ..LONG
        });
        loses_its_place(to);
    }

    #[test]
    fn a_connection_ends_after_its_whole_time() {
        let to = server(Limits {
            whole: SHORT,
            ..LONG
        });
        loses_its_place(to);
    }

    #[test]
    fn a_body_that_does_not_come_is_refused() {
        let to = server(LONG);
        let mut stream = connect(to);
        let head = "POST /told HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf";
        stream.write_all(head.as_bytes()).expect("sent");
        let said = rest(&mut stream);
        assert!(said.starts_with("HTTP/1.1 408"), "{said}");
        is_answered(to);
    }

    #[test]
    fn connections_above_the_number_are_closed_at_once() {
        let to = server(LONG);
        let first = connect(to);
        assert_eq!(ask(to), "");
        drop(first);
        is_answered(to);
    }

    #[test]
    fn places_are_counted_by_address() {
        let limits = Limits {
            connections: 3,
            of_one: 2,
            ..LONG
        };
        let open = Arc::new(Open::default());
        let [a, b] = ["10.0.0.1", "10.0.0.2"].map(|a| a.parse::<IpAddr>().expect("address"));
        let first = open.place(a, &limits);
        let _second = open.place(a, &limits);
        assert!(first.is_some() && open.place(a, &limits).is_none());
        let third = open.place(b, &limits);
        assert!(third.is_some() && open.place(b, &limits).is_none());
        drop(first);
        assert!(open.place(b, &limits).is_some());
        drop(third);
        assert_eq!(open.0.lock().expect("lock").len(), 1);
    }
}
