//! The deterministic double of an engine.
