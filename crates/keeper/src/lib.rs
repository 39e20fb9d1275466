//! armento-keeper
