//! The chain of trust: farm CA, one intermediate certificate for each node, short-lived leaves with a badge.
//!
//! Keys are ECDSA P-256: the fastest to sign and verify of those that every TLS library supports.

use crate::badge::subtree;
use crate::{Badge, Identity, LinkError};
use armento_model::NodeName;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// A farm outlives its machines; the CA is renewed by creating a new farm.
pub(crate) const FARM_TTL: Duration = Duration::from_secs(20 * 365 * 24 * 3600);
/// Lifetime of a node's certificate; joining again renews it.
const NODE_TTL: Duration = Duration::from_secs(5 * 365 * 24 * 3600);
/// Bounds of the lifetime of a short certificate: long enough to do work, short enough to need no revocation.
const SHORT_TTL: (Duration, Duration) = (Duration::from_secs(15 * 60), DAY);
/// Clocks of machines that have just met may differ; leaves are valid from this long ago.
const SKEW: Duration = Duration::from_secs(600);

/// The CA: its holder admits nodes.
#[derive(Clone)]
pub struct FarmKeys {
    pub ca_pem: String,
    pub ca_key_pem: String,
}

/// The request that a joining node sends, and the key that it keeps.
#[derive(Clone)]
pub struct Request {
    pub csr_pem: String,
    pub key_pem: String,
}

/// A member's own keys, with which it signs badges of its own name.
#[derive(Clone)]
pub struct NodeKeys {
    pub node: NodeName,
    pub ca_pem: String,
    pub cert_pem: String,
    pub key_pem: String,
}

pub(crate) fn bad(what: &'static str) -> impl Fn(rcgen::Error) -> LinkError {
    move |e| LinkError::Keys(format!("{what}: {e}"))
}

fn valid(params: &mut CertificateParams, from: SystemTime, until: SystemTime) {
    params.not_before = OffsetDateTime::from(from);
    params.not_after = OffsetDateTime::from(until);
}

fn named(cn: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, cn);
    params
}

impl FarmKeys {
    /// Creates the keys of a new farm.
    pub fn create() -> Result<FarmKeys, LinkError> {
        let key = KeyPair::generate().map_err(bad("farm key"))?;
        let mut params = named("armento farm");
        let now = SystemTime::now();
        valid(&mut params, now - DAY, now + FARM_TTL);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let cert = params.self_signed(&key).map_err(bad("farm certificate"))?;
        Ok(FarmKeys {
            ca_pem: cert.pem(),
            ca_key_pem: key.serialize_pem(),
        })
    }

    /// Signs the intermediate certificate of `node`. Only the public key is taken from the request: what a certificate
    /// allows is decided here.
    pub fn sign_node(&self, csr_pem: &str, node: &NodeName) -> Result<String, LinkError> {
        let csr = CertificateSigningRequestParams::from_pem(csr_pem)
            .map_err(bad("certificate request"))?;
        let mut params = named(&format!("armento node {node}"));
        let now = SystemTime::now();
        valid(&mut params, now - DAY, now + NODE_TTL);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::DnsName(subtree(node))],
            excluded_subtrees: Vec::new(),
        });
        params.use_authority_key_identifier_extension = true;
        let ca = self.issuer()?;
        let cert = params
            .signed_by(&csr.public_key, &ca)
            .map_err(bad("node certificate"))?;
        Ok(cert.pem())
    }

    pub(crate) fn issuer(&self) -> Result<Issuer<'static, KeyPair>, LinkError> {
        let key = KeyPair::from_pem(&self.ca_key_pem).map_err(bad("farm key"))?;
        Issuer::from_ca_cert_pem(&self.ca_pem, key).map_err(bad("farm certificate"))
    }

    /// Creates the keys of a member locally: the first node's.
    pub fn first_node(&self, node: &NodeName) -> Result<NodeKeys, LinkError> {
        let request = NodeKeys::request(node)?;
        Ok(NodeKeys {
            node: node.clone(),
            ca_pem: self.ca_pem.clone(),
            cert_pem: self.sign_node(&request.csr_pem, node)?,
            key_pem: request.key_pem,
        })
    }
}

impl NodeKeys {
    /// Creates a key and the request for its certificate, on the node that keeps the key.
    pub fn request(node: &NodeName) -> Result<Request, LinkError> {
        let key = KeyPair::generate().map_err(bad("node key"))?;
        let csr = named(&format!("armento node {node}"))
            .serialize_request(&key)
            .map_err(bad("certificate request"))?;
        Ok(Request {
            csr_pem: csr.pem().map_err(bad("certificate request"))?,
            key_pem: key.serialize_pem(),
        })
    }

    /// A short-lived identity for a process of this node; `ttl` is limited to between 15 minutes and 24 hours.
    pub fn sign_short(&self, badge: &Badge, ttl: Duration) -> Result<Identity, LinkError> {
        let now = SystemTime::now();
        let ttl = ttl.clamp(SHORT_TTL.0, SHORT_TTL.1);
        self.sign_between(badge, now - SKEW, now + ttl)
    }

    /// As [`sign_short`](NodeKeys::sign_short), for any time: tests create expired certificates.
    pub fn sign_between(
        &self,
        badge: &Badge,
        from: SystemTime,
        until: SystemTime,
    ) -> Result<Identity, LinkError> {
        let key = KeyPair::generate().map_err(bad("short key"))?;
        let name = badge.dns_name();
        let mut params = CertificateParams::new(vec![name]).map_err(bad("short certificate"))?;
        // The name is in the SAN; the subject stays empty, so that the two cannot be confused.
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "armento");
        valid(&mut params, from, until);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        let own = KeyPair::from_pem(&self.key_pem).map_err(bad("node key"))?;
        let node =
            Issuer::from_ca_cert_pem(&self.cert_pem, own).map_err(bad("node certificate"))?;
        let cert = params
            .signed_by(&key, &node)
            .map_err(bad("short certificate"))?;
        Ok(Identity::Tls {
            ca_pem: self.ca_pem.clone(),
            chain_pem: cert.pem() + &self.cert_pem,
            key_pem: key.serialize_pem(),
            crl_pem: None,
        })
    }

    /// SHA-256 of the farm's CA, as used in tokens.
    pub fn ca_sha256(&self) -> Result<[u8; 32], LinkError> {
        let der = CertificateDer::from_pem_slice(self.ca_pem.as_bytes())
            .map_err(|_| LinkError::Keys("farm certificate: this is no PEM text".into()))?;
        Ok(crate::ca_hash(&der))
    }
}
