//! armento-balance
