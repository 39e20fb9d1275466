//! armento-gossip
