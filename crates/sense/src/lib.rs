//! armento-sense
