//! rustls settings: TLS 1.3 only, both sides certified, no session resumption.

use crate::{Badge, Identity, LinkError, ca_hash, clock};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as ring_provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore,
    ServerConfig, SignatureScheme,
};
use std::sync::{Arc, OnceLock};

/// AES-128 first: the fastest of TLS 1.3's suites on every CPU with AES instructions.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let make = || {
        use ring_provider::cipher_suite as suite;
        Arc::new(CryptoProvider {
            cipher_suites: vec![
                suite::TLS13_AES_128_GCM_SHA256,
                suite::TLS13_CHACHA20_POLY1305_SHA256,
            ],
            ..ring_provider::default_provider()
        })
    };
    PROVIDER.get_or_init(make).clone()
}

struct Parts {
    ca: CertificateDer<'static>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    removed: Vec<CertificateRevocationListDer<'static>>,
}

/// The error itself is not shown: it may quote a key.
fn bad(what: &'static str) -> impl Fn(rustls::pki_types::pem::Error) -> LinkError {
    move |_| LinkError::Keys(format!("{what}: this is no PEM text"))
}

fn parts(me: &Identity) -> Result<Option<Parts>, LinkError> {
    let Identity::Tls {
        ca_pem,
        chain_pem,
        key_pem,
        crl_pem,
    } = me
    else {
        return Ok(None);
    };
    let ca = CertificateDer::from_pem_slice(ca_pem.as_bytes()).map_err(bad("farm certificate"))?;
    let chain = CertificateDer::pem_slice_iter(chain_pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(bad("certificate chain"))?;
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).map_err(bad("key"))?;
    let removed = crl_pem.as_ref().map(|pem| {
        let crl = CertificateRevocationListDer::from_pem_slice(pem.as_bytes());
        crl.map_err(bad("list of removed nodes"))
    });
    Ok(Some(Parts {
        ca,
        chain,
        key,
        removed: removed.transpose()?.into_iter().collect(),
    }))
}

fn roots(ca: &CertificateDer<'static>) -> Result<Arc<RootCertStore>, Error> {
    let mut store = RootCertStore::empty();
    store.add(ca.clone())?;
    Ok(Arc::new(store))
}

fn unusable(e: impl std::fmt::Display) -> LinkError {
    LinkError::Keys(e.to_string())
}

/// Settings of a listener; `None` for plain. With `open`, a peer may come without a certificate (it wants to join) and
/// receives the CA's own certificate, of which it has the hash.
pub(crate) fn server(me: &Identity, open: bool) -> Result<Option<Arc<ServerConfig>>, LinkError> {
    let Some(mut parts) = parts(me)? else {
        return Ok(None);
    };
    let roots = roots(&parts.ca).map_err(unusable)?;
    // The list contains nodes only; certificates signed by nodes live for a day and are never listed.
    let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
        .with_crls(parts.removed)
        .allow_unknown_revocation_status();
    if open {
        verifier = verifier.allow_unauthenticated();
        parts.chain.push(parts.ca);
    }
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unusable)?
        .with_client_cert_verifier(verifier.build().map_err(unusable)?)
        .with_single_cert(parts.chain, parts.key)
        .map_err(unusable)?;
    // Every connection authenticates anew: a ticket would outlive its certificate.
    config.send_tls13_tickets = 0;
    Ok(Some(Arc::new(config)))
}

/// Settings of a client that authenticates as `me`; `None` for plain.
pub(crate) fn client(me: &Identity) -> Result<Option<Arc<ClientConfig>>, LinkError> {
    let Some(parts) = parts(me)? else {
        return Ok(None);
    };
    let roots = roots(&parts.ca).map_err(unusable)?;
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider())
        .with_crls(parts.removed)
        .allow_unknown_revocation_status()
        .build()
        .map_err(unusable)?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unusable)?
        .with_webpki_verifier(verifier)
        .with_client_auth_cert(parts.chain, parts.key)
        .map_err(unusable)?;
    config.resumption = rustls::client::Resumption::disabled();
    // Names contain trees and users; they should not be visible on the network.
    config.enable_sni = false;
    Ok(Some(Arc::new(config)))
}

/// Settings of a joining node, which has no certificate and only the hash of the farm's.
pub(crate) fn joiner(ca_sha256: [u8; 32]) -> Result<Arc<ClientConfig>, LinkError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unusable)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned { ca_sha256 }))
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_sni = false;
    Ok(Arc::new(config))
}

/// Trusts the one CA with the hash in the token, and a daemon's certificate signed under it.
#[derive(Debug)]
struct Pinned {
    ca_sha256: [u8; 32],
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let ca = chain
            .iter()
            .find(|c| ca_hash(c) == self.ca_sha256)
            .ok_or(CertificateError::UnknownIssuer)?;
        let badge = badge_of(leaf).map_err(Error::General)?;
        if badge.role != crate::Role::Daemon || badge.tree.is_some() {
            return Err(Error::General(format!("{} is no daemon", badge.dns_name())));
        }
        let name =
            ServerName::try_from(badge.dns_name()).map_err(|_| CertificateError::BadEncoding)?;
        WebPkiServerVerifier::builder_with_provider(roots(&ca.clone().into_owned())?, provider())
            .build()
            .map_err(|e| Error::General(e.to_string()))?
            .verify_server_cert(leaf, chain, &name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken here".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// The badge in a leaf certificate: its only DNS name.
pub(crate) fn badge_of(leaf: &CertificateDer<'_>) -> Result<Badge, String> {
    let cert = webpki::EndEntityCert::try_from(leaf).map_err(|e| e.to_string())?;
    let mut names = cert.valid_dns_names();
    match (names.next(), names.next()) {
        (Some(name), None) => {
            Badge::from_dns_name(name).ok_or_else(|| format!("`{name}` is no name of a farm"))
        }
        _ => Err("its certificate does not carry exactly one name".into()),
    }
}

/// A TLS failure as text for users.
pub(crate) fn refusal(e: Error) -> LinkError {
    use CertificateError as C;
    if let Error::InvalidCertificate(e) = &e
        && let Some(said) = clock::describe(e)
    {
        return LinkError::Clock(said);
    }
    let said = match &e {
        Error::InvalidCertificate(C::UnknownIssuer | C::BadSignature) => {
            "its certificate comes from another farm".to_owned()
        }
        Error::InvalidCertificate(C::Revoked) => "its node was removed from the farm".to_owned(),
        Error::AlertReceived(AlertDescription::CertificateRevoked) => {
            "this node was removed from the farm".to_owned()
        }
        Error::InvalidCertificate(C::NotValidForName | C::NotValidForNameContext { .. }) => {
            "its certificate names another peer than was expected".to_owned()
        }
        Error::AlertReceived(alert) => format!("it did not accept our certificate ({alert:?})"),
        Error::NoCertificatesPresented => "it showed no certificate".to_owned(),
        Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => {
            format!("it does not speak TLS as a farm does ({e})")
        }
        _ => e.to_string(),
    };
    LinkError::Refused(said)
}
