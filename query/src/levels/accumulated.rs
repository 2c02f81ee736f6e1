//! Aggregates that have no cells of their own, such as percentiles: one accumulator of DataFusion per cell, which gets the rows of
//! a run of a series at once.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use datafusion::{common::ScalarValue, logical_expr::Accumulator, physical_expr::aggregate::AggregateFunctionExpr};
use tidelake_format::{Error, Result};

use super::strip::Strip;
use crate::{error::from_datafusion, functions::ignores_order, scan::Decoded};

/// An aggregate function with its arguments.
#[derive(Debug)]
pub(super) struct Accumulated {
    function: Arc<AggregateFunctionExpr>,
    arguments: Vec<Argument>,
}

/// An argument of an aggregate function.
#[derive(Debug, Clone)]
pub(super) enum Argument {
    /// The data column, or computed one, at this index.
    Column(usize),
    /// A constant.
    Literal(ScalarValue),
}

impl Accumulated {
    /// Creates the aggregate; `None` for functions whose result may depend on the order of rows.
    pub(super) fn new(function: &Arc<AggregateFunctionExpr>, arguments: Vec<Argument>) -> Option<Self> {
        let name = function.fun().name();
        // The scan may read only the first and last rows for these.
        let is_of_ends = matches!(name, "first" | "last" | "last_row");
        let is_supported = ignores_order(name) && !is_of_ends && !function.ignore_nulls();
        is_supported.then(|| Self { function: function.clone(), arguments })
    }

    /// Indexes of the columns that the arguments read.
    pub(super) fn reads(&self) -> impl Iterator<Item = usize> {
        self.arguments.iter().filter_map(|argument| match argument {
            Argument::Column(at) => Some(*at),
            Argument::Literal(_) => None,
        })
    }
}

/// The accumulators of one aggregate, by cell.
pub(super) struct Accumulators {
    of: Arc<Accumulated>,
    cells: Vec<Box<dyn Accumulator>>,
    /// Memory of the accumulators.
    bytes: usize,
}

impl Accumulators {
    pub(super) fn new(of: Arc<Accumulated>) -> Self {
        Self { of, cells: Vec::new(), bytes: 0 }
    }

    /// Memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.cells.capacity() * size_of::<Box<dyn Accumulator>>()
    }

    /// Adds the rows of strips to their cells, of which there are `cells`.
    pub(super) fn add(&mut self, decoded: &Decoded, strips: &[Strip], cells: usize) -> Result<()> {
        while self.cells.len() < cells {
            let new = self.of.function.create_accumulator().map_err(from_datafusion)?;
            self.bytes += new.size();
            self.cells.push(new);
        }
        let longest = strips.iter().map(Strip::len).max().unwrap_or(0);
        let values = self.of.arguments.iter().map(|argument| match argument {
            Argument::Column(at) => decoded.column(*at).map(|column| (column, false)),
            Argument::Literal(value) => {
                value.to_array_of_size(longest).map(|column| (column, true)).map_err(from_datafusion)
            }
        });
        let values: Vec<(ArrayRef, bool)> = values.collect::<Result<_>>()?;
        let mut arguments: Vec<ArrayRef> = Vec::with_capacity(values.len());
        for span in strips.iter().flat_map(|strip| strip.spans()) {
            arguments.clear();
            arguments.extend(
                values
                    .iter()
                    .map(|(column, is_constant)| column.slice(if *is_constant { 0 } else { span.start }, span.len)),
            );
            let cell = &mut self.cells[span.cell as usize];
            let before = cell.size();
            cell.update_batch(&arguments).map_err(from_datafusion)?;
            self.bytes = (self.bytes + cell.size()).saturating_sub(before);
        }
        Ok(())
    }

    /// Returns the columns of the partial states, one row per cell, and removes the accumulators.
    pub(super) fn states(&mut self) -> Result<Vec<ArrayRef>> {
        let parts = self.of.function.state_fields().map_err(from_datafusion)?.len();
        let mut columns: Vec<Vec<ScalarValue>> = vec![Vec::with_capacity(self.cells.len()); parts];
        for cell in &mut self.cells {
            let states = cell.state().map_err(from_datafusion)?;
            if states.len() != parts {
                return Err(Error::internal("an accumulator has another number of states than its function")
                    .with("function", self.of.function.name())
                    .with("expected", parts)
                    .with("found", states.len()));
            }
            columns.iter_mut().zip(states).for_each(|(column, state)| column.push(state));
        }
        let arrays = columns.into_iter().map(|column| ScalarValue::iter_to_array(column).map_err(from_datafusion));
        let arrays = arrays.collect::<Result<_>>();
        self.cells.clear();
        self.bytes = 0;
        arrays
    }
}
