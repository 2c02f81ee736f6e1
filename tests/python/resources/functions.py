"""The functions that statements call, by kind; functions that the server itself lists are added."""

SCALARS = """
abs acos acosh
arrow_cast arrow_field arrow_metadata arrow_try_cast arrow_typeof ascii asin asinh atan atan2 atanh bit_length btrim cbrt ceil
char_length character_length chr coalesce concat concat_ws contains cos cosh cot current_date current_time current_timestamp database
date_bin date_format date_part date_trunc datepart datetrunc decode degrees digest encode ends_with exp factorial find_in_set floor
from_unixtime gcd get_field greatest ifnull initcap instr isnan iszero lcm least left length levenshtein ln log log10 log2 lower lpad ltrim
make_date make_time md5 named_struct nanvl now nullif nvl nvl2 octet_length overlay pi position pow power radians rand random regexp_count
regexp_instr regexp_like regexp_match regexp_replace repeat replace reverse right round row rpad rtrim server_status server_version sha224
sha256 sha384 sha512 signum sin sinh split_part sqrt starts_with str_to_map strpos struct substr substr_index substring substring_index tan
tanh timezone to_char to_date to_hex to_local_time to_time to_timestamp to_timestamp_micros to_timestamp_millis to_timestamp_nanos
to_timestamp_seconds to_unixtime today translate trim trunc union_extract union_tag upper uuid version window_end window_start with_metadata
""".split()

LISTS = """
array_add array_any_match array_any_value array_append array_avg array_cat array_compact array_concat array_contains array_dims
array_distance array_distinct array_element array_empty array_except array_extract array_filter array_first array_has array_has_all
array_has_any array_indexof array_intersect array_join array_length array_max array_min array_ndims array_normalize array_pop_back
array_pop_front array_position array_positions array_prepend array_product array_push_back array_push_front array_remove array_remove_all
array_remove_n array_repeat array_replace array_replace_all array_replace_n array_resize array_reverse array_scale array_slice array_sort
array_subtract array_sum array_to_string array_transform array_union arrays_overlap arrays_zip cardinality cosine_distance dot_product
element_at empty flatten generate_series inner_product make_array map map_entries map_extract map_keys map_values range string_to_array
""".split()

AGGREGATES = """
any_value approx_distinct approx_median approx_percentile_cont approx_percentile_cont_with_weight array_agg avg bit_and bit_or bit_xor
bool_and bool_or corr count covar_pop covar_samp first first_value grouping last last_row last_value max mean median min nth_value
percentile_cont quantile_cont regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy spread stddev
stddev_pop stddev_samp string_agg sum var var_pop var_samp
""".split()

WINDOWS = "cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number".split()


def listed(server):
    """The functions that the server lists and this file does not: (scalars, aggregates)."""
    status, _, _ = server.post("/api/v1/sql", "select 1 from information_schema.routines limit 1")
    if status != 200:
        return [], []
    rows = server.sql("select distinct routine_name, function_type from information_schema.routines")
    known = {*SCALARS, *LISTS, *AGGREGATES, *WINDOWS}
    new = [(name, str(kind).lower()) for name, kind in rows if name not in known]
    return sorted(name for name, kind in new if "scalar" in kind), sorted(name for name, kind in new if "aggregate" in kind)
