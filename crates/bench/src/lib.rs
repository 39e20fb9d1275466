//! armento-bench
