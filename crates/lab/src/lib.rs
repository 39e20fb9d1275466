//! armento-lab
