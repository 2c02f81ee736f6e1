//! The OpenAPI document, built from the table of routes and the components it names.

use serde_json::{Map, Value, json};
use tidelake_format::access::Right;

use super::{Body, Document, Route, routes::ALL};

/// The document without paths: components, security schemes and introduction.
const COMPONENTS: &str = include_str!("openapi.json");

/// The OpenAPI document of all routes except those of gRPC.
pub fn openapi() -> Value {
    // A test checks that the text parses.
    let mut document: Value = serde_json::from_str(COMPONENTS).unwrap_or_default();
    let mut paths = Map::new();
    for route in ALL {
        let Some(described) = &route.document else { continue };
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation(route, described);
    }
    document["paths"] = Value::Object(paths);
    document
}

fn operation(route: &Route, document: &Document) -> Value {
    let refer = |kind: &str, name: &str| json!({ "$ref": format!("#/components/{kind}/{name}") });
    let answers = document.answers.iter().map(|(status, name)| (status.to_string(), refer("responses", name)));
    let mut operation = json!({
        "operationId": document.operation,
        "summary": document.summary,
        "tags": [document.tag],
        "responses": answers.collect::<Map<_, _>>(),
    });
    if !document.description.is_empty() {
        operation["description"] = json!(document.description);
    }
    if !route.parameters.is_empty() {
        let parameters = route.parameters.iter().map(|parameter| refer("parameters", parameter.component));
        operation["parameters"] = parameters.collect();
    }
    if let Some(component) = Body::component(route.body) {
        operation["requestBody"] = refer("requestBodies", component);
    }
    if route.right == Right::Open {
        operation["security"] = json!([]);
    }
    operation
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::http::Place;

    /// Every `$ref` within a value.
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| match value {
                Value::String(at) if key == "$ref" => drop(found.insert(at.clone())),
                _ => references(value, found),
            }),
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_component_exists_and_is_used() {
        let document = openapi();
        let mut used = BTreeSet::new();
        references(&document, &mut used);
        let components = document["components"].as_object().unwrap().iter();
        let there = components.filter(|(kind, _)| *kind != "securitySchemes").flat_map(|(kind, named)| {
            named.as_object().unwrap().keys().map(move |name| format!("#/components/{kind}/{name}"))
        });
        assert_eq!(there.collect::<BTreeSet<_>>(), used);
    }

    #[test]
    fn parameters_are_described_as_the_routes_have_them() {
        let document = openapi();
        for route in ALL {
            for parameter in route.parameters {
                let described = &document["components"]["parameters"][parameter.component];
                let place = match parameter.place {
                    Place::Query => "query",
                    Place::Path => "path",
                    Place::Header => "header",
                };
                assert_eq!((&described["name"], &described["in"]), (&json!(parameter.name), &json!(place)));
            }
            let in_path: Vec<&str> =
                route.parameters.iter().filter(|one| one.place == Place::Path).map(|one| one.name).collect();
            let named: Vec<&str> =
                route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
            assert!(in_path == named || route.document.is_none(), "{}", route.path);
        }
    }

    #[test]
    fn routes_of_one_path_need_the_same_right_and_have_one_api() {
        for (at, route) in ALL.iter().enumerate() {
            for other in &ALL[..at] {
                assert!((other.path, &other.method) != (route.path, &route.method), "twice: {}", route.path);
                if other.path == route.path {
                    assert_eq!((other.right, other.api), (route.right, route.api), "{}", route.path);
                }
            }
        }
    }
}
