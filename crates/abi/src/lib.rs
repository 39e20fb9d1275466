//! armento-abi
