//! armento-noded
