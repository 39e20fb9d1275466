//! Farms and golden files of these tests.

use armento_fabric::inventory::{Farm, Problems, parse};
use armento_fabric::render::{BootService, Dhcp};
use std::path::PathBuf;

pub fn dir(below: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", below]
        .iter()
        .collect()
}

pub fn read(text: &str) -> Result<Farm, Problems> {
    let open =
        |file: &str| std::fs::read_to_string(dir("farms").join(file)).map_err(|e| e.to_string());
    parse("farm.toml", text, &open)
}

#[allow(unused, reason = "not every test file reads a farm")]
pub fn farm(name: &str) -> Farm {
    let text = std::fs::read_to_string(dir("farms").join(format!("{name}.toml"))).expect(name);
    read(&text).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[allow(unused, reason = "not every test file renders for dnsmasq")]
pub fn service(dhcp: Dhcp) -> BootService {
    BootService {
        dhcp,
        port: 8117,
        tftp: "/run/armento/boot-tftp".into(),
    }
}

/// Compares with a golden file; ARMENTO_GOLDEN=write writes it anew.
#[allow(unused, reason = "not every test file compares files")]
pub fn golden(name: &str, text: &str) {
    let path = dir("golden").join(name);
    if std::env::var_os("ARMENTO_GOLDEN").is_some() {
        std::fs::write(&path, text).expect(name);
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        text, expected,
        "{name}: ARMENTO_GOLDEN=write cargo test -p armento-fabric writes it anew"
    );
}
