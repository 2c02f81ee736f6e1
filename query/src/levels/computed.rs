//! Columns that expressions compute from the time and the fields of a row, so that `avg((a + b) / 2)` is aggregated inside
//! the scan.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch},
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

impl Computed {
    /// No columns.
    pub(super) fn new(scan: &SeriesScan) -> Self {
        Self { data: scan.columns().schema().fields().len(), expressions: Vec::new() }
    }

    /// Adds an expression over the output of a scan; returns the index of its column, or `None` if it cannot be computed.
    ///
    /// # Errors
    /// DataFusion's.
    pub(super) fn add(&mut self, expr: &Arc<dyn PhysicalExpr>, scan: &SeriesScan) -> DfResult<Option<usize>> {
        let Some(new) = Expression::new(expr, scan, false)? else { return Ok(None) };
        let known = self.expressions.iter().position(|known| known.reads == new.reads && known.expr.eq(&new.expr));
        let place = known.unwrap_or_else(|| {
            self.expressions.push(new);
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
    pub(super) fn extend(&self, mut rows: Decoded) -> Result<Decoded> {
        if self.expressions.is_empty() {
            return Ok(rows);
        }
        let computed = self.expressions.iter().map(|e| e.column(&rows)).collect::<Result<Vec<_>>>()?;
        let (mut fields, mut columns) = (rows.batch.schema().fields().to_vec(), rows.batch.columns().to_vec());
        rows.dictionaries.resize(columns.len(), None);
        for (column, dictionary) in computed {
            fields.push(Arc::new(Field::new("computed", column.data_type().clone(), true)));
            columns.push(column);
            rows.dictionaries.push(dictionary);
        }
        rows.batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
        Ok(rows)
    }
}

/// An expression over data columns of a scan.
#[derive(Debug, Clone)]
pub(super) struct Expression {
    expr: Arc<dyn PhysicalExpr>,
    /// Indexes of the data columns that it reads, in the order of their indexes in the expression.
    reads: Vec<usize>,
    /// The columns that it reads.
    schema: SchemaRef,
    data_type: DataType,
}

impl Expression {
    /// Rewrites an expression over the output of a scan; `None` if the expression reads no data column, reads properties of
    /// series, or may need more memory than its result. Only with `texts` may a step of it have a text as its result.
    ///
    /// # Errors
    /// DataFusion's.
    pub(super) fn new(expr: &Arc<dyn PhysicalExpr>, scan: &SeriesScan, texts: bool) -> DfResult<Option<Self>> {
        if !is_bounded(expr, &scan.schema(), texts)? {
            return Ok(None);
        }
        let data_type = expr.data_type(&scan.schema())?;
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
        let nullable = |at: &usize| scan.columns().schema().field(*at).clone().with_nullable(true);
        let schema = Arc::new(Schema::new(reads.iter().map(nullable).collect::<Vec<_>>()));
        Ok(Some(Self { expr: over_data.data, reads, schema, data_type }))
    }

    /// Indexes of the data columns that it reads.
    pub(super) fn reads(&self) -> &[usize] {
        &self.reads
    }

    /// The columns that it reads; all may have nulls.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The values of rows, or codes and their dictionary.
    fn column(&self, rows: &Decoded) -> Result<(ArrayRef, Option<ArrayRef>)> {
        if let [at] = self.reads[..]
            && let Some(dictionary) = rows.dictionary(at)
        {
            // One evaluation per distinct value. An entry that no row has may be one that the expression refuses.
            let values = self.evaluate(vec![dictionary.clone()]);
            if let Some(values) = values.ok().filter(|values| values.logical_null_count() == 0) {
                return Ok((rows.batch.column(at).clone(), Some(values)));
            }
        }
        let columns = self.reads.iter().map(|at| rows.column(*at)).collect::<Result<Vec<_>>>()?;
        Ok((self.evaluate(columns)?, None))
    }

    /// Evaluates the expression over the columns that it reads.
    ///
    /// # Errors
    /// Those of the expression, such as a division by zero.
    pub(super) fn evaluate(&self, columns: Vec<ArrayRef>) -> Result<ArrayRef> {
        let batch = RecordBatch::try_new(self.schema.clone(), columns)?;
        let evaluate = || self.expr.evaluate(&batch)?.into_array(batch.num_rows());
        budget::as_execution(evaluate).map_err(from_datafusion)
    }
}

/// Whether an expression has results of fixed width in each step, or `texts` that no function makes, so that its memory is
/// bounded by the rows of a batch, and gives the same result for the same row.
fn is_bounded(expr: &Arc<dyn PhysicalExpr>, schema: &Schema, texts: bool) -> DfResult<bool> {
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
