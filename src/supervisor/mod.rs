pub mod embedded;
pub mod volume;
