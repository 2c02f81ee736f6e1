//! GetXdbcTypeInfo: the column types in ODBC's form.

use arrow_flight::sql::{
    Nullable, Searchable, XdbcDataType, XdbcDatetimeSubcode,
    metadata::{XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder},
};
use tidelake_format::{Error, Result, types::Type};

/// One row per column type, ordered by data type.
///
/// # Errors
/// [`Kind::Internal`](crate::Kind::Internal): none is expected.
pub(super) fn type_info() -> Result<XdbcTypeInfoData> {
    let text = Type::MAX_BYTES as i32;
    let mut rows: Vec<XdbcTypeInfo> = vec![
        number("BOOL", XdbcDataType::XdbcBit, 1, Sign::None),
        number("TINYINT", XdbcDataType::XdbcTinyint, 3, Sign::Signed),
        number("TINYINT UNSIGNED", XdbcDataType::XdbcTinyint, 3, Sign::Unsigned),
        number("SMALLINT", XdbcDataType::XdbcSmallint, 5, Sign::Signed),
        number("SMALLINT UNSIGNED", XdbcDataType::XdbcSmallint, 5, Sign::Unsigned),
        number("INT", XdbcDataType::XdbcInteger, 10, Sign::Signed),
        number("INT UNSIGNED", XdbcDataType::XdbcInteger, 10, Sign::Unsigned),
        number("BIGINT", XdbcDataType::XdbcBigint, 19, Sign::Signed),
        number("BIGINT UNSIGNED", XdbcDataType::XdbcBigint, 20, Sign::Unsigned),
        number("FLOAT", XdbcDataType::XdbcReal, 7, Sign::Signed),
        number("DOUBLE", XdbcDataType::XdbcDouble, 15, Sign::Signed),
        quoted("VARCHAR", XdbcDataType::XdbcVarchar, text, &["length"]),
        quoted("NCHAR", XdbcDataType::XdbcWvarchar, text / 4, &["length"]),
        quoted("VARBINARY", XdbcDataType::XdbcVarbinary, text, &["length"]),
        XdbcTypeInfo {
            maximum_scale: Some(9),
            minimum_scale: Some(3),
            sql_data_type: XdbcDataType::XdbcDatetime,
            datetime_subcode: Some(XdbcDatetimeSubcode::XdbcSubcodeTimestamp),
            ..quoted("TIMESTAMP", XdbcDataType::XdbcTimestamp, 29, &[])
        },
    ];
    rows.sort_by_key(|row| row.data_type as i32);
    let mut info = XdbcTypeInfoDataBuilder::new();
    for row in rows {
        info.append(row);
    }
    info.build().map_err(|e| Error::internal("cannot encode the type info").source(e))
}

enum Sign {
    None,
    Signed,
    Unsigned,
}

fn number(name: &str, data_type: XdbcDataType, digits: i32, sign: Sign) -> XdbcTypeInfo {
    XdbcTypeInfo {
        type_name: name.to_owned(),
        data_type,
        sql_data_type: data_type,
        column_size: Some(digits),
        nullable: Nullable::NullabilityNullable,
        searchable: Searchable::Full,
        unsigned_attribute: match sign {
            Sign::None => None,
            Sign::Signed => Some(false),
            Sign::Unsigned => Some(true),
        },
        auto_increment: Some(false),
        local_type_name: Some(name.to_owned()),
        num_prec_radix: Some(10),
        ..Default::default()
    }
}

fn quoted(name: &str, data_type: XdbcDataType, size: i32, parameters: &[&str]) -> XdbcTypeInfo {
    XdbcTypeInfo {
        case_sensitive: true,
        literal_prefix: Some("'".to_owned()),
        literal_suffix: Some("'".to_owned()),
        create_params: Some(parameters.iter().map(|p| (*p).to_owned()).collect()),
        unsigned_attribute: None,
        auto_increment: None,
        num_prec_radix: None,
        ..number(name, data_type, size, Sign::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_type_is_listed_and_can_be_requested() {
        let info = type_info().unwrap();
        assert_eq!(info.record_batch(None).unwrap().num_rows(), 15);
        assert_eq!(info.record_batch(XdbcDataType::XdbcBigint as i32).unwrap().num_rows(), 2);
        assert_eq!(info.record_batch(9_999).unwrap().num_rows(), 0);
    }
}
