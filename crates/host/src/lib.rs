//! armento-host
