//! The border to Node.
