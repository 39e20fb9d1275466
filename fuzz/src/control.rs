//! JSON lines: control sessions, requests between daemons, start parameters of a host.

use armento_client::api::{HostStart, HostUp, Line, Pass};
use armento_client::{LineError, encode, read_line};
use armento_noded::Config;
use armento_noded::peer::{Question, Replied};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Lines; the first byte selects the type.
pub fn control(data: &[u8]) {
    let Some((which, text)) = data.split_first() else {
        return;
    };
    match which {
        b'l' => lines::<Line>(text),
        b'q' => lines::<Question>(text),
        b'r' => lines::<Replied>(text),
        b'h' => lines::<HostStart>(text),
        b'u' => lines::<HostUp>(text),
        b'p' => lines::<Pass>(text),
        _ => {
            let _ = Config::parse(&String::from_utf8_lossy(text));
        }
    }
}

fn lines<T: Serialize + DeserializeOwned>(text: &[u8]) {
    let mut rest = text;
    loop {
        match read_line::<T>(&mut rest) {
            Ok(value) => assert_round_trip(&value),
            Err(LineError::Garbled(_)) => {}
            Err(_) => return,
        }
    }
}

fn assert_round_trip<T: Serialize + DeserializeOwned>(value: &T) {
    // Its encoding may be longer: characters of a text need escapes.
    let Ok(bytes) = encode(value) else { return };
    let again: T = read_line(&mut &bytes[..]).expect("its own encoding");
    assert_eq!(encode(&again).expect("as long as before"), bytes);
}
