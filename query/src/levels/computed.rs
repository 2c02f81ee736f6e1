//! Columns that expressions compute from the time and the fields of a row, so that `avg((a + b) / 2)` is aggregated inside
//! the scan.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions},
    compute::take,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::physical_plan::ExecutionPlan as _;
use datafusion::{
    common::{
        Result as DfResult,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::Volatility,
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{
            BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NegativeExpr,
            NotExpr, TryCastExpr,
        },
    },
};
use tidelake_format::Result;

use crate::{
    budget,
    error::from_datafusion,
    scan::{Decoded, OutputColumn, SeriesScan},
};

/// Computed columns; their indexes follow those of the scan's data columns.
#[derive(Debug, Clone)]
pub(super) struct Computed {
    /// Number of data columns.
    data: usize,
    expressions: Vec<Expression>,
}

/// An expression over data columns of a scan.
#[derive(Debug, Clone)]
struct Expression {
    expr: Arc<dyn PhysicalExpr>,
    /// Indexes of the data columns that it reads, in the order of their indexes in the expression.
    reads: Vec<usize>,
    /// The columns that it reads.
    schema: SchemaRef,
    data_type: DataType,
}

impl Computed {
    /// No columns.
    pub(super) fn new(scan: &SeriesScan) -> Self {
        Self { data: scan.columns().schema().fields().len(), expressions: Vec::new() }
    }

    /// Adds an expression over the output of a scan; returns the index of its column, or `None` if the expression reads
    /// properties of series or may need more memory than its result.
    ///
    /// # Errors
    /// DataFusion's.
    pub(super) fn add(&mut self, expr: &Arc<dyn PhysicalExpr>, scan: &SeriesScan) -> DfResult<Option<usize>> {
        if !is_bounded(expr, &scan.schema(), false)? {
            return Ok(None);
        }
        let (mut reads, mut is_of_rows) = (Vec::new(), true);
        let over_data = expr.clone().transform_down(|e| {
            let Some(column) = e.downcast_ref::<Column>() else { return Ok(Transformed::no(e)) };
            let Some(OutputColumn::Data(at)) = scan.output().get(column.index()) else {
                is_of_rows = false;
                return Ok(Transformed::new(e, false, TreeNodeRecursion::Stop));
            };
            let place = reads.iter().position(|read| read == at).unwrap_or_else(|| {
                reads.push(*at);
                reads.len() - 1
            });
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(column.name(), place));
            Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
        })?;
        if !is_of_rows || reads.is_empty() {
            return Ok(None);
        }
        let of = scan.columns().schema();
        let schema = Arc::new(Schema::new(reads.iter().map(|at| of.fields()[*at].clone()).collect::<Vec<_>>()));
        let (expr, data_type) = (over_data.data, expr.data_type(&scan.schema())?);
        let known = self.expressions.iter().position(|known| known.reads == reads && known.expr.eq(&expr));
        let place = known.unwrap_or_else(|| {
            self.expressions.push(Expression { expr, reads, schema, data_type });
            self.expressions.len() - 1
        });
        Ok(Some(self.data + place))
    }

    /// Number of computed columns.
    pub(super) fn len(&self) -> usize {
        self.expressions.len()
    }

    /// Type of the computed column at an index; `None` for the index of a data column.
    pub(super) fn data_type(&self, at: usize) -> Option<&DataType> {
        self.expressions.get(at.checked_sub(self.data)?).map(|e| &e.data_type)
    }

    /// Whether an expression reads the data column at an index.
    pub(super) fn reads(&self, at: usize) -> bool {
        self.expressions.iter().any(|e| e.reads.contains(&at))
    }

    /// Puts the computed columns behind those of decoded rows.
    ///
    /// # Errors
    /// Those of the expressions, such as a division by zero.
    pub(super) fn extend(&self, rows: Decoded) -> Result<Decoded> {
        if self.expressions.is_empty() {
            return Ok(rows);
        }
        let Decoded { batch, mut dictionaries, times, runs } = rows;
        let mut columns = batch.columns().to_vec();
        dictionaries.resize(columns.len(), None);
        for expression in &self.expressions {
            let (column, dictionary) = expression.column(&batch, &dictionaries)?;
            columns.push(column);
            dictionaries.push(dictionary);
        }
        let computed = columns.iter().skip(batch.num_columns());
        let computed = computed.map(|c| Arc::new(Field::new("computed", c.data_type().clone(), true)));
        let fields: Vec<_> = batch.schema().fields().iter().cloned().chain(computed).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
        Ok(Decoded { batch, dictionaries, times, runs })
    }
}

impl Expression {
    /// The values of rows, or codes and their dictionary.
    fn column(&self, batch: &RecordBatch, dictionaries: &[Option<ArrayRef>]) -> Result<(ArrayRef, Option<ArrayRef>)> {
        if let [at] = self.reads[..]
            && let Some(dictionary) = &dictionaries[at]
        {
            // One evaluation per distinct value. An entry that no row has may be one that the expression refuses.
            let values = self.evaluate(vec![dictionary.clone()], dictionary.len());
            if let Some(values) = values.ok().filter(|values| values.logical_null_count() == 0) {
                return Ok((batch.column(at).clone(), Some(values)));
            }
        }
        let read = |at: &usize| -> Result<ArrayRef> {
            let values = batch.column(*at);
            Ok(match &dictionaries[*at] {
                Some(dictionary) => take(dictionary, values, None)?,
                None => values.clone(),
            })
        };
        let columns = self.reads.iter().map(read).collect::<Result<Vec<_>>>()?;
        Ok((self.evaluate(columns, batch.num_rows())?, None))
    }

    fn evaluate(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<ArrayRef> {
        let batch = RecordBatch::try_new(self.schema.clone(), columns)?;
        let evaluate = || self.expr.evaluate(&batch)?.into_array(rows);
        budget::as_execution(evaluate).map_err(from_datafusion)
    }
}

/// Whether an expression has results of fixed width in each step, or `texts` that no function makes, so that its memory is
/// bounded by the rows of a batch, and gives the same result for the same row.
pub(super) fn is_bounded(expr: &Arc<dyn PhysicalExpr>, schema: &Schema, texts: bool) -> DfResult<bool> {
    if expr.is::<Column>() || expr.is::<Literal>() {
        return Ok(true);
    }
    let is_known = expr.is::<BinaryExpr>()
        || expr.is::<CaseExpr>()
        || expr.is::<CastExpr>()
        || expr.is::<TryCastExpr>()
        || expr.is::<InListExpr>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>()
        || expr.is::<NegativeExpr>()
        || expr.is::<NotExpr>()
        || expr
            .downcast_ref::<ScalarFunctionExpr>()
            .is_some_and(|call| call.fun().signature().volatility == Volatility::Immutable);
    let is_fixed = |data_type: &DataType| data_type.is_primitive() || *data_type == DataType::Boolean;
    let data_type = expr.data_type(schema)?;
    if !is_known || !(is_fixed(&data_type) || texts && data_type == DataType::Utf8) {
        return Ok(false);
    }
    for child in expr.children() {
        // A function may allocate by the value of a text, such as the count of a repetition.
        let is_of_numbers = !expr.is::<ScalarFunctionExpr>() || is_fixed(&child.data_type(schema)?);
        if !is_of_numbers || !is_bounded(child, schema, texts)? {
            return Ok(false);
        }
    }
    Ok(true)
}
