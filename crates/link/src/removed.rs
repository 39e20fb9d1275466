//! Nodes that were removed: a list signed by the CA; and other messages that the CA signs for the whole farm.
//!
//! The list is an X.509 CRL (RFC 5280, section 5), so that the handshake itself refuses. It contains the certificates
//! of nodes; certificates signed by a removed node become invalid with its own.

use crate::keys::{FARM_TTL, bad};
use crate::{FarmKeys, LinkError};
use rcgen::{
    CertificateRevocationListParams, KeyIdMethod, KeyPair, RevocationReason, RevokedCertParams,
    SerialNumber, SigningKey,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::time::SystemTime;
use time::OffsetDateTime;

impl FarmKeys {
    /// The list of the node certificates with these serial numbers; `number` increases with each list.
    pub fn removed(&self, serials: &[Vec<u8>], number: u64) -> Result<String, LinkError> {
        let now = SystemTime::now();
        let entry = |serial: &Vec<u8>| RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial),
            revocation_time: OffsetDateTime::from(now),
            reason_code: Some(RevocationReason::CessationOfOperation),
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: OffsetDateTime::from(now),
            // The next list comes when a node is removed; until then the newest is valid as long as the farm.
            next_update: OffsetDateTime::from(now + FARM_TTL),
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer()?);
        list.and_then(|l| l.pem())
            .map_err(bad("list of removed nodes"))
    }

    /// Signs a message for all members of the farm (ECDSA P-256, SHA-256, ASN.1).
    pub fn sign(&self, said: &[u8]) -> Result<Vec<u8>, LinkError> {
        let key = KeyPair::from_pem(&self.ca_key_pem).map_err(bad("farm key"))?;
        key.sign(said).map_err(bad("farm key"))
    }
}

/// Whether the CA of `ca_pem` signed `said`.
pub fn signed_by(ca_pem: &str, said: &[u8], signature: &[u8]) -> bool {
    let Ok(ca) = CertificateDer::from_pem_slice(ca_pem.as_bytes()) else {
        return false;
    };
    let Ok(cert) = webpki::EndEntityCert::try_from(&ca) else {
        return false;
    };
    let checked = cert.verify_signature(webpki::ring::ECDSA_P256_SHA256, said, signature);
    checked.is_ok()
}

/// The serial number of the first certificate of `pem`.
pub fn serial_of(pem: &str) -> Result<Vec<u8>, LinkError> {
    let no = |what: String| LinkError::Keys(format!("node certificate: {what}"));
    let der = CertificateDer::from_pem_slice(pem.as_bytes())
        .map_err(|_| no("this is no PEM text".into()))?;
    let cert = webpki::EndEntityCert::try_from(&der).map_err(|e| no(e.to_string()))?;
    Ok(cert.serial().to_vec())
}
