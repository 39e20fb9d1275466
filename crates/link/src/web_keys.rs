//! The certificate of a dashboard, signed by itself: browsers do not know the farm's CA, whose name constraints allow no
//! names of hosts anyway.

use crate::LinkError;
use crate::keys::bad;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;

/// Browsers accept no certificate that is valid for longer (CA/Browser Forum, Baseline Requirements 6.3.2: 398 days).
const TTL: Duration = Duration::from_secs(397 * 24 * 3600);
/// Clocks that are behind.
const SKEW: Duration = Duration::from_secs(24 * 3600);

/// A new key and its certificate for these names and IP addresses, both PEM.
pub fn web_keys(names: &[String]) -> Result<(String, String), LinkError> {
    let key = KeyPair::generate().map_err(bad("key of the dashboard"))?;
    let mut params =
        CertificateParams::new(names.to_vec()).map_err(bad("certificate of the dashboard"))?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, "armento dashboard");
    let now = SystemTime::now();
    params.not_before = OffsetDateTime::from(now - SKEW);
    params.not_after = OffsetDateTime::from(now - SKEW + TTL);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let cert = params
        .self_signed(&key)
        .map_err(bad("certificate of the dashboard"))?;
    Ok((cert.pem(), key.serialize_pem()))
}

/// SHA-256 of the first certificate of `pem`, as browsers show it: `AB:CD:…`.
pub fn fingerprint(pem: &str) -> Result<String, LinkError> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes())
        .map_err(|_| LinkError::Keys("certificate of the dashboard: this is no PEM text".into()))?;
    let digest = crate::ca_hash(&der);
    let pairs: Vec<String> = digest.iter().map(|b| format!("{b:02X}")).collect();
    Ok(pairs.join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_name_hosts_and_addresses() {
        let names = ["n1", "10.0.0.1", "::1"].map(String::from);
        let (chain, key) = web_keys(&names).expect("keys");
        assert!(chain.contains("BEGIN CERTIFICATE") && key.contains("PRIVATE KEY"));
        let shown = fingerprint(&chain).expect("a fingerprint");
        assert_eq!(shown.len(), 32 * 3 - 1);
        assert!(fingerprint("no PEM").is_err());
    }
}
