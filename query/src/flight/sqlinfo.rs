//! GetSqlInfo: the server's capabilities, as the 69 codes that JDBC 18.3 reads plus the two that ADBC requests.
//!
//! JDBC fails on a missing code, on a value of the wrong union type, and on an unknown code. So the result has exactly these codes,
//! each of exactly its type.

use std::collections::BTreeMap;

use arrow_flight::sql::{
    SqlInfo, SqlOuterJoinsSupportLevel, SqlSupportedGroupBy, SqlSupportedResultSetType, SqlSupportedSubqueries,
    SqlSupportedTransaction, SqlSupportedUnions, SqlTransactionIsolationLevel, SupportedSqlGrammar,
    metadata::{SqlInfoData, SqlInfoDataBuilder},
};
use tidelake_format::{Error, Result};

/// Functions that tools offer for completion: DataFusion's plus Tidelake's.
const NUMERIC_FUNCTIONS: &[&str] = &[
    "abs", "acos", "asin", "atan", "atan2", "cbrt", "ceil", "cos", "degrees", "exp", "floor", "ln", "log", "log10",
    "log2", "pi", "power", "radians", "random", "round", "signum", "sin", "sqrt", "tan", "trunc",
];
const STRING_FUNCTIONS: &[&str] = &[
    "ascii",
    "btrim",
    "char_length",
    "chr",
    "concat",
    "concat_ws",
    "initcap",
    "left",
    "length",
    "lower",
    "lpad",
    "ltrim",
    "md5",
    "octet_length",
    "repeat",
    "replace",
    "reverse",
    "right",
    "rpad",
    "rtrim",
    "split_part",
    "starts_with",
    "strpos",
    "substr",
    "translate",
    "trim",
    "upper",
];
const SYSTEM_FUNCTIONS: &[&str] = &["coalesce", "nullif", "database", "current_database", "current_schema", "version"];
const DATETIME_FUNCTIONS: &[&str] = &[
    "current_date",
    "current_time",
    "date_bin",
    "date_part",
    "date_trunc",
    "extract",
    "from_unixtime",
    "now",
    "to_timestamp",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_nanos",
    "to_timestamp_seconds",
];
/// Words beyond those of SQL-92 that must be quoted when used as names.
const KEYWORDS: &[&str] = &[
    "DATABASE",
    "DATABASES",
    "DESCRIBE",
    "EXPLAIN",
    "FILL",
    "ILIKE",
    "INTERVAL",
    "LIMIT",
    "OFFSET",
    "PARTITION",
    "QUALIFY",
    "SHOW",
    "SLIDING",
    "STABLE",
    "TAGS",
    "USE",
    "USING",
    "WINDOW",
];

/// Maximum length of a database, table or column name, in bytes.
const NAME_BYTES: i64 = 192;

/// All codes with their values.
///
/// # Errors
/// [`Kind::Internal`](crate::Kind::Internal): none is expected.
pub(super) fn sql_info() -> Result<SqlInfoData> {
    let mut info = SqlInfoDataBuilder::new();
    texts(&mut info);
    flags(&mut info);
    masks(&mut info);
    limits(&mut info);
    info.build().map_err(|e| Error::internal("cannot encode the SQL info").source(e))
}

fn texts(info: &mut SqlInfoDataBuilder) {
    info.append(SqlInfo::FlightSqlServerName, "Tidelake");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, arrow::ARROW_VERSION);
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.append(SqlInfo::SqlSearchStringEscape, "\\");
    info.append(SqlInfo::SqlExtraNameCharacters, "");
    info.append(SqlInfo::SqlSchemaTerm, "database");
    info.append(SqlInfo::SqlProcedureTerm, "procedure");
    info.append(SqlInfo::SqlCatalogTerm, "catalog");
    for (code, words) in [
        (SqlInfo::SqlKeywords, KEYWORDS),
        (SqlInfo::SqlNumericFunctions, NUMERIC_FUNCTIONS),
        (SqlInfo::SqlStringFunctions, STRING_FUNCTIONS),
        (SqlInfo::SqlSystemFunctions, SYSTEM_FUNCTIONS),
        (SqlInfo::SqlDatetimeFunctions, DATETIME_FUNCTIONS),
    ] {
        info.append(code, words);
    }
    info.append(SqlInfo::SqlSupportsConvert, BTreeMap::<i32, Vec<i32>>::new());
}

fn flags(info: &mut SqlInfoDataBuilder) {
    for (code, value) in [
        (SqlInfo::FlightSqlServerReadOnly, false),
        (SqlInfo::SqlSupportsColumnAliasing, true),
        (SqlInfo::SqlNullPlusNullIsNull, true),
        (SqlInfo::SqlSupportsTableCorrelationNames, true),
        (SqlInfo::SqlSupportsDifferentTableCorrelationNames, false),
        (SqlInfo::SqlSupportsExpressionsInOrderBy, true),
        (SqlInfo::SqlSupportsOrderByUnrelated, true),
        (SqlInfo::SqlSupportsLikeEscapeClause, true),
        (SqlInfo::SqlSupportsNonNullableColumns, true),
        (SqlInfo::SqlSupportsIntegrityEnhancementFacility, false),
        (SqlInfo::SqlCatalogAtStart, true),
        (SqlInfo::SqlSelectForUpdateSupported, false),
        (SqlInfo::SqlStoredProceduresSupported, false),
        (SqlInfo::SqlCorrelatedSubqueriesSupported, true),
        (SqlInfo::SqlMaxRowSizeIncludesBlobs, true),
        (SqlInfo::SqlTransactionsSupported, false),
        (SqlInfo::SqlDataDefinitionCausesTransactionCommit, true),
        (SqlInfo::SqlDataDefinitionsInTransactionsIgnored, false),
        (SqlInfo::SqlBatchUpdatesSupported, true),
        (SqlInfo::SqlSavepointsSupported, false),
        (SqlInfo::SqlNamedParametersSupported, false),
        (SqlInfo::SqlLocatorsUpdateCopy, false),
        (SqlInfo::SqlStoredFunctionsUsingCallSyntaxSupported, false),
    ] {
        info.append(code, value);
    }
}

/// Codes that are bit masks of enum values, value v as bit v. The server's transaction support is a plain number.
fn masks(info: &mut SqlInfoDataBuilder) {
    let set = |values: &[i32]| values.iter().fold(0i32, |mask, bit| mask | 1 << bit);
    info.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
    info.append(
        SqlInfo::SqlSupportedGroupBy,
        set(&[SqlSupportedGroupBy::SqlGroupByUnrelated as i32, SqlSupportedGroupBy::SqlGroupByBeyondSelect as i32]),
    );
    info.append(
        SqlInfo::SqlSupportedGrammar,
        set(&[SupportedSqlGrammar::SqlMinimumGrammar as i32, SupportedSqlGrammar::SqlCoreGrammar as i32]),
    );
    // Entry level: ANSI92_ENTRY_SQL = 0.
    info.append(SqlInfo::SqlAnsi92SupportedLevel, set(&[0]));
    info.append(
        SqlInfo::SqlOuterJoinsSupportLevel,
        set(&[
            SqlOuterJoinsSupportLevel::SqlFullOuterJoins as i32,
            SqlOuterJoinsSupportLevel::SqlLimitedOuterJoins as i32,
        ]),
    );
    // Every kind of statement may name a schema or catalog: elements 0, 1 and 2.
    info.append(SqlInfo::SqlSchemasSupportedActions, set(&[0, 1, 2]));
    info.append(SqlInfo::SqlCatalogsSupportedActions, set(&[0, 1, 2]));
    info.append(SqlInfo::SqlSupportedPositionedCommands, 0i32);
    info.append(
        SqlInfo::SqlSupportedSubqueries,
        set(&[
            SqlSupportedSubqueries::SqlSubqueriesInComparisons as i32,
            SqlSupportedSubqueries::SqlSubqueriesInExists as i32,
            SqlSupportedSubqueries::SqlSubqueriesInIns as i32,
            SqlSupportedSubqueries::SqlSubqueriesInQuantifieds as i32,
        ]),
    );
    info.append(
        SqlInfo::SqlSupportedUnions,
        set(&[SqlSupportedUnions::SqlUnion as i32, SqlSupportedUnions::SqlUnionAll as i32]),
    );
    info.append(
        SqlInfo::SqlSupportedTransactionsIsolationLevels,
        set(&[SqlTransactionIsolationLevel::SqlTransactionNone as i32]),
    );
    info.append(
        SqlInfo::SqlSupportedResultSetTypes,
        set(&[SqlSupportedResultSetType::SqlResultSetTypeForwardOnly as i32]),
    );
}

/// Limits; 0 means unlimited or unknown.
fn limits(info: &mut SqlInfoDataBuilder) {
    for (code, value) in [
        (SqlInfo::SqlMaxBinaryLiteralLength, 0),
        (SqlInfo::SqlMaxCharLiteralLength, 0),
        (SqlInfo::SqlMaxColumnNameLength, NAME_BYTES),
        (SqlInfo::SqlMaxColumnsInGroupBy, 0),
        (SqlInfo::SqlMaxColumnsInIndex, 0),
        (SqlInfo::SqlMaxColumnsInOrderBy, 0),
        (SqlInfo::SqlMaxColumnsInSelect, 0),
        (SqlInfo::SqlMaxColumnsInTable, 4_096),
        (SqlInfo::SqlMaxConnections, 0),
        (SqlInfo::SqlMaxCursorNameLength, 0),
        (SqlInfo::SqlMaxIndexLength, 0),
        (SqlInfo::SqlDbSchemaNameLength, NAME_BYTES),
        (SqlInfo::SqlMaxProcedureNameLength, 0),
        (SqlInfo::SqlMaxCatalogNameLength, 0),
        (SqlInfo::SqlMaxRowSize, 0),
        (SqlInfo::SqlMaxStatementLength, 0),
        (SqlInfo::SqlMaxStatements, 0),
        (SqlInfo::SqlMaxTableNameLength, NAME_BYTES),
        (SqlInfo::SqlMaxTablesInSelect, 0),
        (SqlInfo::SqlMaxUsernameLength, 0),
        (SqlInfo::SqlDefaultTransactionIsolation, SqlTransactionIsolationLevel::SqlTransactionNone as i64),
    ] {
        info.append(code, value);
    }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{AsArray, RecordBatch},
        datatypes::UInt32Type,
    };

    use super::*;

    /// The union type ID of every code that JDBC 18.3 reads, from its sources: 0 string, 1 bool, 2 int64, 3 int32,
    /// 4 list of strings, 5 map.
    fn expected() -> BTreeMap<u32, i8> {
        let mut types = BTreeMap::new();
        let mut of = |codes: &[u32], id: i8| types.extend(codes.iter().map(|c| (*c, id)));
        of(&[0, 1, 2, 504, 513, 514, 529, 530, 531], 0);
        of(&[3, 515, 516, 518, 519, 520, 521, 523, 524, 527, 532, 536, 537, 539, 556, 563, 565, 566], 1);
        of(&[572, 573, 574, 575, 576], 1);
        of(&[541, 542, 543, 544, 545, 546, 547, 548, 549, 550, 551, 552, 553, 554, 555], 2);
        of(&[557, 558, 559, 560, 561, 562], 2);
        of(&[8, 522, 525, 526, 528, 533, 534, 535, 538, 540, 564, 567], 3);
        of(&[508, 509, 510, 511, 512], 4);
        of(&[517], 5);
        types
    }

    fn codes(batch: &RecordBatch) -> Vec<u32> {
        batch.column(0).as_primitive::<UInt32Type>().values().to_vec()
    }

    #[test]
    fn every_code_that_jdbc_reads_has_exactly_its_type() {
        let all = sql_info().unwrap().record_batch([]).unwrap();
        let types = all.column(1).as_union().type_ids().to_vec();
        let found: BTreeMap<u32, i8> = codes(&all).into_iter().zip(types).collect();
        assert_eq!(found, expected());
        assert_eq!(found.len(), 71, "69 codes, and 2 and 8");
    }

    #[test]
    fn a_request_returns_exactly_the_named_codes() {
        let info = sql_info().unwrap();
        assert_eq!(codes(&info.record_batch([8, 0, 9_999]).unwrap()), [0, 8]);
        assert_eq!(info.record_batch([9_999]).unwrap().num_rows(), 0);
    }
}
