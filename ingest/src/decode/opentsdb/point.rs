//! Data points as parsed from JSON: any value may have any type, so that one bad point does not spoil others.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// The whole body.
pub(super) struct Body<'a>(pub(super) Vec<Entry<'a>>);

/// One element of the body.
pub(super) enum Entry<'a> {
    /// An object.
    Point(Point<'a>),
    /// Anything else, described.
    Other(&'static str),
}

/// One unchecked point.
#[derive(Default)]
pub(super) struct Point<'a> {
    pub(super) metric: Option<Value<'a>>,
    pub(super) timestamp: Option<Value<'a>>,
    pub(super) value: Option<Value<'a>>,
    /// In the order of the text; empty if `tags` is absent or not an object.
    pub(super) tags: Vec<(Cow<'a, str>, Value<'a>)>,
}

/// A scalar.
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    Text(Cow<'a, str>),
    /// An array or object, described.
    Other(&'static str),
}

impl Value<'_> {
    /// The text of a tag; `None` for null and for non-scalars.
    pub(super) fn to_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Value::Null | Value::Other(_) => None,
            Value::Bool(v) => Some(v.to_string().into()),
            Value::Int(v) => Some(v.to_string().into()),
            Value::UInt(v) => Some(v.to_string().into()),
            Value::Float(v) => Some(v.to_string().into()),
            Value::Text(v) => Some(Cow::Borrowed(v)),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Null => serde_json::Value::Null,
            Value::Bool(v) => (*v).into(),
            Value::Int(v) => (*v).into(),
            Value::UInt(v) => (*v).into(),
            Value::Float(v) => (*v).into(),
            Value::Text(v) => v.as_ref().into(),
            Value::Other(what) => (*what).into(),
        }
    }
}

impl Entry<'_> {
    /// Serializes the entry as JSON.
    pub(super) fn to_json(&self) -> String {
        let Entry::Point(point) = self else { return "null".to_owned() };
        let json = |value: &Option<Value<'_>>| value.as_ref().map_or(serde_json::Value::Null, Value::to_json);
        let tags: serde_json::Map<_, _> =
            point.tags.iter().map(|(name, value)| (name.to_string(), value.to_json())).collect();
        serde_json::json!({
            "metric": json(&point.metric),
            "timestamp": json(&point.timestamp),
            "value": json(&point.value),
            "tags": tags,
        })
        .to_string()
    }
}

/// Visitor methods for scalars, each value wrapped by the given function.
macro_rules! scalars {
    ($of:expr) => {
        fn visit_bool<E>(self, v: bool) -> Result<Self::Value, E> {
            Ok($of(Value::Bool(v)))
        }
        fn visit_i64<E>(self, v: i64) -> Result<Self::Value, E> {
            Ok($of(Value::Int(v)))
        }
        fn visit_u64<E>(self, v: u64) -> Result<Self::Value, E> {
            Ok($of(i64::try_from(v).map_or(Value::UInt(v), Value::Int)))
        }
        fn visit_f64<E>(self, v: f64) -> Result<Self::Value, E> {
            Ok($of(Value::Float(v)))
        }
        fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
            Ok($of(Value::Text(Cow::Owned(v.to_owned()))))
        }
        fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
            Ok($of(Value::Text(Cow::Borrowed(v))))
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($of(Value::Null))
        }
    };
}

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Value<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            scalars!(|value| value);

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Value::Other("an array"))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Value::Other("an object"))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// A name, borrowed if it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Name(match Value::deserialize(deserializer)? {
            Value::Text(text) => text,
            _ => Cow::Borrowed(""),
        }))
    }
}

/// The tags of a point: an object; anything else counts as no tags.
struct Tags<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Tags<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Tags<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tags")
            }

            scalars!(|_| Tags(Vec::new()));

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Tags(Vec::new()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut tags = Vec::with_capacity(4);
                while let Some((Name(name), value)) = map.next_entry()? {
                    tags.push((name, value));
                }
                Ok(Tags(tags))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

fn point<'de, A: MapAccess<'de>>(mut map: A) -> Result<Point<'de>, A::Error> {
    let mut point = Point::default();
    while let Some(Name(name)) = map.next_key()? {
        match name.as_ref() {
            "metric" => point.metric = Some(map.next_value()?),
            "timestamp" => point.timestamp = Some(map.next_value()?),
            "value" => point.value = Some(map.next_value()?),
            "tags" => point.tags = map.next_value::<Tags<'_>>()?.0,
            // OpenTSDB ignores unknown keys.
            _ => {
                map.next_value::<IgnoredAny>()?;
            }
        }
    }
    Ok(point)
}

impl<'de: 'a, 'a> Deserialize<'de> for Entry<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Entry<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a data point")
            }

            scalars!(|value| Entry::Other(match value {
                Value::Null => "null",
                Value::Bool(_) => "a boolean",
                Value::Text(_) => "a string",
                _ => "a number",
            }));

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Entry::Other("an array"))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                point(map).map(Entry::Point)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Body<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Body<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a data point or an array of data points")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = seq.next_element()? {
                    entries.push(entry);
                }
                Ok(Body(entries))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Ok(Body(vec![Entry::Point(point(map)?)]))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
