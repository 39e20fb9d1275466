//! armento-conform
