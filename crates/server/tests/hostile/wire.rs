//! Speaking to a server by hand: TLS or not, HTTP/1 and HTTP/2, and bytes that no client would send.

use std::sync::Arc;

use axum::http::{HeaderMap, Request, Response};
use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::support::{LONG, Secured};

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// A code of gRPC; OK where there is none.
    pub(crate) code: Code,
    pub(crate) reason: String,
    pub(crate) body: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// Which certificate is shown, and which protocols are offered.
fn config(server: &Secured, certificate: Option<&str>, protocol: &[u8]) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(server.path("tls/ca.pem")).unwrap()).unwrap();
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let mut config = match certificate {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let chain = vec![CertificateDer::from_pem_file(server.path(&format!("{name}.pem"))).unwrap()];
            let key = PrivateKeyDer::from_pem_file(server.path(&format!("{name}.key"))).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    config
}

pub(crate) async fn tcp(server: &Secured) -> TcpStream {
    tcp_from(server, HERE).await
}

/// Where most connections come from. There are more addresses of this machine: 127.0.0.2 and so on.
const HERE: u8 = 1;

/// A connection from 127.0.0.`host`.
async fn tcp_from(server: &Secured, host: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, host], 0).into()).unwrap();
    socket.connect(([127, 0, 0, 1], server.port).into()).await.unwrap()
}

/// A connection by TLS, to a server that has to be called so.
pub(crate) async fn tls(
    server: &Secured,
    name: &str,
    certificate: Option<&str>,
    protocol: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    tls_from(server, HERE, name, certificate, protocol).await
}

async fn tls_from(
    server: &Secured,
    host: u8,
    name: &str,
    certificate: Option<&str>,
    protocol: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    let connector = TlsConnector::from(Arc::new(config(server, certificate, protocol)));
    let name = ServerName::try_from(name.to_owned()).unwrap();
    timeout(LONG, connector.connect(name, tcp_from(server, host).await)).await.unwrap()
}

/// A connection of HTTP/2.
pub(crate) async fn http2(
    server: &Secured,
    certificate: Option<&str>,
) -> std::io::Result<SendRequest<Bytes>> {
    http2_on(tls(server, "localhost", certificate, b"h2").await?).await
}

/// The same, from 127.0.0.`host`.
pub(crate) async fn http2_from(server: &Secured, host: u8) -> SendRequest<Bytes> {
    let stream = tls_from(server, host, "localhost", None, b"h2").await.unwrap();
    http2_on(stream).await.unwrap()
}

async fn http2_on(stream: TlsStream<TcpStream>) -> std::io::Result<SendRequest<Bytes>> {
    let (sender, connection) = h2::client::handshake(stream).await.map_err(std::io::Error::other)?;
    tokio::spawn(async move {
        // How it ends is what its requests tell.
        let _ = connection.await;
    });
    Ok(sender)
}

/// A message as gRPC frames it.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap());
    frame.put_slice(message);
    frame.freeze()
}

/// A call of gRPC with these bytes as its body.
pub(crate) async fn grpc(
    server: &Secured,
    certificate: Option<&str>,
    path: &str,
    headers: &[(&str, &str)],
    body: Bytes,
) -> Result<Answer, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let sender = http2(server, certificate).await.map_err(|error| told(&error))?;
    let mut sender = timeout(LONG, sender.ready()).await.unwrap().map_err(|error| told(&error))?;
    let uri = format!("https://{}{path}", server.address);
    let mut request = Request::post(uri).header("content-type", "application/grpc").header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (response, mut stream) =
        sender.send_request(request.body(()).unwrap(), false).map_err(|error| told(&error))?;
    let sending = tokio::spawn(async move {
        let mut body = body;
        while !body.is_empty() {
            stream.reserve_capacity(body.len().min(1 << 16));
            let Some(Ok(room)) = std::future::poll_fn(|context| stream.poll_capacity(context)).await else {
                return;
            };
            let part = body.split_to(room.min(body.len()));
            if stream.send_data(part, body.is_empty()).is_err() {
                return;
            }
        }
        let _ = stream.send_data(Bytes::new(), true);
    });
    let response = timeout(LONG, response).await.unwrap().map_err(|error| told(&error))?;
    let (head, mut stream) = response.into_parts();
    // Who is refused by his head alone has his whole answer in this one. That the rest of his request is not wanted any more can come
    // before it is looked for what follows, as an error.
    if head.headers.contains_key("grpc-status") {
        sending.abort();
        return Ok(of_grpc(head.status.as_u16(), &head.headers, None));
    }
    while let Some(data) = timeout(LONG, stream.data()).await.unwrap() {
        let data = data.map_err(|error| told(&error))?;
        let _ = stream.flow_control().release_capacity(data.len());
    }
    let trailers = timeout(LONG, stream.trailers()).await.unwrap().map_err(|error| told(&error))?;
    sending.abort();
    Ok(of_grpc(head.status.as_u16(), &head.headers, trailers.as_ref()))
}

pub(crate) fn of_grpc(status: u16, headers: &HeaderMap, trailers: Option<&HeaderMap>) -> Answer {
    let told = trailers.and_then(Status::from_header_map).or_else(|| Status::from_header_map(headers));
    let told = told.unwrap_or_else(|| Status::ok(""));
    // What is on the wire, and not what a reader could make up from a code.
    let reason = told.get_details_error_info().map(|info| info.reason).unwrap_or_default();
    let headers = headers.iter().chain(trailers.into_iter().flatten());
    let headers = headers.map(|(name, value)| (name.to_string(), format!("{value:?}"))).collect();
    Answer { status, code: told.code(), reason, body: told.message().to_owned(), headers }
}

/// Begins a call of gRPC with one message, or with those that follow: the head of its answer, and where messages go.
pub(crate) async fn begun(
    server: &Secured,
    sender: &mut SendRequest<Bytes>,
    path: &str,
    token: Option<&str>,
    message: Option<Bytes>,
) -> (Response<RecvStream>, SendStream<Bytes>) {
    *sender = timeout(LONG, sender.clone().ready()).await.unwrap().unwrap();
    let request = Request::post(format!("https://{}{path}", server.address));
    let mut request = request.header("content-type", "application/grpc");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let (response, mut body) = sender.send_request(request.body(()).unwrap(), false).unwrap();
    if let Some(message) = message {
        // Who is refused by his head alone can have his answer before this is sent: the stream is over then, and the answer says why.
        let _ = body.send_data(message, true);
    }
    (timeout(LONG, response).await.unwrap().unwrap(), body)
}

/// What an answer says at its end, whatever came before.
pub(crate) async fn end(response: Response<RecvStream>) -> Answer {
    let (head, mut body) = response.into_parts();
    while let Some(data) = timeout(LONG, body.data()).await.unwrap() {
        let Ok(data) = data else { break };
        let _ = body.flow_control().release_capacity(data.len());
    }
    let trailers = timeout(LONG, body.trailers()).await.unwrap().ok().flatten();
    of_grpc(head.status.as_u16(), &head.headers, trailers.as_ref())
}

/// A request of HTTP/1, as these bytes, on a connection that is closed after it.
pub(crate) async fn http1(server: &Secured, bytes: &[u8]) -> Answer {
    http1_from(server, HERE, bytes).await
}

/// The same, from 127.0.0.`host`.
pub(crate) async fn http1_from(server: &Secured, host: u8, bytes: &[u8]) -> Answer {
    let mut stream = tls_from(server, host, "localhost", None, b"http/1.1").await.unwrap();
    let sent = timeout(LONG, stream.write_all(bytes)).await.unwrap();
    let mut said = Vec::new();
    // A server that has answered may close before it has read everything.
    let read = timeout(LONG, stream.read_to_end(&mut said)).await.unwrap();
    assert!(!said.is_empty(), "no answer: {sent:?}, {read:?}");
    parsed(&String::from_utf8_lossy(&said))
}

pub(crate) fn parsed(said: &str) -> Answer {
    let (head, body) = said.split_once("\r\n\r\n").unwrap_or((said, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    let begin = body.find('{').unwrap_or(body.len());
    let end = body.rfind('}').map_or(begin, |end| end + 1);
    let json: serde_json::Value = serde_json::from_str(&body[begin..end.max(begin)]).unwrap_or_default();
    let reason = json["reason"].as_str().unwrap_or_default().to_owned();
    Answer { status, code: Code::Ok, reason, body: body.to_owned(), headers }
}

/// A request of HTTP/1 with these headers and this body.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    [text.as_bytes(), body].concat()
}
