//! armento-wire
