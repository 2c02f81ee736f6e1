//! Names of types in messages.

/// Arrow's types in a text by their names in SQL.
pub(crate) fn sql_types(text: &str) -> String {
    const NAMES: [(&str, &str); 21] = [
        ("Boolean", "BOOL"),
        ("Int8", "TINYINT"),
        ("Int16", "SMALLINT"),
        ("Int32", "INT"),
        ("Int64", "BIGINT"),
        ("UInt8", "TINYINT UNSIGNED"),
        ("UInt16", "SMALLINT UNSIGNED"),
        ("UInt32", "INT UNSIGNED"),
        ("UInt64", "BIGINT UNSIGNED"),
        ("Float16", "FLOAT"),
        ("Float32", "FLOAT"),
        ("Float64", "DOUBLE"),
        ("Utf8", "VARCHAR"),
        ("LargeUtf8", "VARCHAR"),
        ("Utf8View", "VARCHAR"),
        ("Binary", "VARBINARY"),
        ("LargeBinary", "VARBINARY"),
        ("BinaryView", "VARBINARY"),
        ("Date32", "DATE"),
        ("Timestamp", "TIMESTAMP"),
        ("Interval", "INTERVAL"),
    ];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
        out.push_str(&rest[..start]);
        let word = rest[start..].split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        rest = &rest[start + word.len()..];
        let name = NAMES.iter().find(|(arrow, _)| *arrow == word);
        out.push_str(name.map_or(word, |(_, name)| name));
        // The unit and the zone of a time, the kind of an interval.
        if matches!(word, "Timestamp" | "Interval")
            && rest.starts_with('(')
            && let Some((_, behind)) = rest.split_once(')')
        {
            rest = behind;
        }
        if word == "Dictionary"
            && let Some((_, values)) = rest.split_once(", ")
            && let Some((value, behind)) = values.split_once(')')
        {
            out.truncate(out.len() - word.len());
            out.push_str(&sql_types(value));
            rest = behind;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_names_of_sql() {
        for (text, expected) in [
            ("Utf8", "VARCHAR"),
            ("round(Float64, Int64)", "round(DOUBLE, BIGINT)"),
            ("Timestamp(ms, \"UTC\") and Interval(MonthDayNano)", "TIMESTAMP and INTERVAL"),
            ("Dictionary(Int32, Utf8), UInt8", "VARCHAR, TINYINT UNSIGNED"),
            ("Dictionary(", "Dictionary("),
            ("höher Int64x", "höher Int64x"),
            ("", ""),
        ] {
            assert_eq!(sql_types(text), expected);
        }
    }
}
