//! armento-migrate
