//! Declaration of metrics: names, kinds and help texts in one place.

/// Declares metrics. Makes a constant with the name of each, and a function `describe`, which gives the recorder in use the kind and
/// the help text of each. Metrics without labels then have the value 0 before their first event, so that a rate over the
/// first event is not lost.
///
/// An entry is `kind NAME = "name": "help";` with the kind `counter`, `gauge` or `histogram`, after `labelled` if the metric
/// has labels. The calling crate needs the crate `metrics`.
#[macro_export]
macro_rules! declare_metrics {
    ($($(#[labelled($labels:literal)])? $kind:ident $name:ident = $text:literal: $help:literal;)*) => {
        $(
            #[doc = concat!("The ", stringify!($kind), " `", $text, "`: ", $help)]
            pub const $name: &str = $text;
        )*

        /// Gives the recorder in use the kind and the help text of each metric.
        pub fn describe() {
            $($crate::declare_metrics!(@ $kind, $name, $help $(, $labels)?);)*
        }
    };
    (@ counter, $name:ident, $help:literal) => {
        ::metrics::describe_counter!($name, $help);
        ::metrics::counter!($name).increment(0);
    };
    (@ gauge, $name:ident, $help:literal) => {
        ::metrics::describe_gauge!($name, $help);
        ::metrics::gauge!($name).set(0.0);
    };
    (@ counter, $name:ident, $help:literal, $labels:literal) => {
        ::metrics::describe_counter!($name, $help);
    };
    (@ histogram, $name:ident, $help:literal) => {
        ::metrics::describe_histogram!($name, $help);
    };
}
