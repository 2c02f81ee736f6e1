/** Tidelake's SQL: keywords, types and functions, as in docs/sql.md. */
import type { CompletionContext, CompletionResult } from '@codemirror/autocomplete';
import { SQLDialect } from '@codemirror/lang-sql';

const keywords =
  'select from where group by having order limit offset distinct on as and or not in is null like between exists case when ' +
  'then else end join inner left right full outer cross semi anti using union all except intersect with recursive values ' +
  'partition interval sliding fill prev next near linear none window over qualify filter within asc desc nulls first last ' +
  'explain analyze verbose show databases stables tables tags create drop alter database stable table user token grant revoke ' +
  'read write to insert into delete describe use kill query queries connections variables add modify column tag rename keep ' +
  'precision duration if cast try_cast true false extract at time zone';

const types =
  'bool boolean tinyint smallint int integer bigint unsigned float double timestamp varchar binary nchar varbinary json decimal date';

/** The functions of the reference, without operators and aliases of lists. */
export const functions: readonly string[] = (
  'abs acos acosh and any_value approx_distinct approx_median approx_percentile_cont ' +
  'approx_percentile_cont_with_weight array_add array_agg array_any_value array_append array_avg ' +
  'array_cat array_compact array_concat array_contains array_dims array_distance array_distinct ' +
  'array_element array_empty array_except array_extract array_has array_has_all array_has_any ' +
  'array_indexof array_intersect array_join array_length array_max array_min array_ndims ' +
  'array_normalize array_pop_back array_pop_front array_position array_positions array_prepend ' +
  'array_product array_push_back array_push_front array_remove array_remove_all array_remove_n ' +
  'array_repeat array_replace array_replace_all array_replace_n array_resize array_reverse ' +
  'array_scale array_slice array_sort array_subtract array_sum array_to_string array_union ' +
  'arrays_overlap arrays_zip arrow_cast arrow_field arrow_metadata arrow_try_cast arrow_typeof ' +
  'ascii asin asinh atan atan2 atanh avg bit_and bit_length bit_or bit_xor bool_and bool_or btrim ' +
  'cardinality cast_to_type cbrt ceil char_length character_length chr client_version coalesce ' +
  'concat concat_ws contains corr cos cosh cosine_distance cot count covar covar_pop covar_samp ' +
  'cume_dist current_database current_date current_schema current_time current_timestamp ' +
  'current_user database date_bin date_format date_part date_trunc datepart datetrunc decode ' +
  'degrees dense_rank digest dot_product element_at empty encode end ends_with exp factorial ' +
  'find_in_set first first_value flatten floor from_unixtime gcd generate_series get_field greatest ' +
  'grouping ifnull initcap inner_product instr isnan iszero lag last last_row last_value lcm lead ' +
  'least left length levenshtein list_zip ln log log10 log2 lower lpad ltrim make_array make_date ' +
  'make_list make_map make_time map map_entries map_extract map_keys map_values max md5 mean median ' +
  'min named_struct nanvl now nth_value ntile nullif nvl nvl2 octet_length overlay percent_rank ' +
  'percentile_cont pi position pow power quantile_cont radians rand random range rank regexp_count ' +
  'regexp_instr regexp_like regexp_match regexp_replace regr_avgx regr_avgy regr_count ' +
  'regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse right round ' +
  'row row_number rpad rtrim server_status server_version session_user sha224 sha256 sha384 sha512 ' +
  'signum sin sinh split_part spread sqrt starts_with stddev stddev_pop stddev_samp string_agg ' +
  'string_to_array string_to_list strpos struct substr substr_index substring substring_index sum ' +
  'tan tanh timezone to_char to_date to_hex to_local_time to_time to_timestamp to_timestamp_micros ' +
  'to_timestamp_millis to_timestamp_nanos to_timestamp_seconds to_unixtime today translate trim ' +
  'trunc try_cast_to_type union_extract union_tag unnest upper user uuid value var var_pop ' +
  'var_population var_samp var_sample version window_end window_start with_metadata'
).split(' ');

export const dialect = SQLDialect.define({
  keywords,
  types,
  builtin: functions.join(' '),
  backslashEscapes: false,
  doubleDollarQuotedStrings: true,
  doubleQuotedStrings: false,
  identifierQuotes: '`"',
  operatorChars: '*+-%<>!=&|~^/',
});

export function functionCompletions(context: CompletionContext): CompletionResult | null {
  const word = context.matchBefore(/\w+/);
  if (!word || context.state.sliceDoc(word.from - 1, word.from) === '.') return null;
  return {
    from: word.from,
    options: functions.map((label) => ({ label, type: 'function', apply: `${label}(`, detail: '()' })),
    validFor: /^\w*$/,
  };
}
