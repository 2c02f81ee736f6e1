//! Functions that DataFusion lacks: time windows, `first`, `last`, `last_row`, and the parts that the dialect's
//! rewrites are made of.

pub mod window;

use datafusion::execution::session_state::SessionStateBuilder;

/// Adds every function of this module to a session state that already has DataFusion's default features.
pub fn register(builder: SessionStateBuilder) -> SessionStateBuilder {
    builder
}
