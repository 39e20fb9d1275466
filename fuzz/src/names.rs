//! Words written by users or peers: tokens, badges, names, sizes, policies.

use armento_lab::{Link, parse_rate, parse_size};
use armento_link::{Badge, Token};
use armento_migrate::image::objects::object_of;
use armento_model::{NodeName, TreeId};

pub fn names(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(token) = text.parse::<Token>() {
        assert_eq!(token.to_string().parse(), Ok(token));
    }
    if let Some(badge) = Badge::from_dns_name(&text) {
        assert_eq!(badge.dns_name(), text);
    }
    if let Ok(name) = text.parse::<NodeName>() {
        assert_eq!(name.as_str(), text);
    }
    if let Ok(tree) = text.parse::<TreeId>() {
        assert_eq!(tree.to_string().parse(), Ok(tree));
    }
    if let Some(object) = object_of(&text) {
        let name = format!("/memfd:{} (deleted)", object.name());
        assert_eq!(object_of(&name), Some(object));
    }
    let _ = (parse_size(&text), parse_rate(&text), text.parse::<Link>());
}
