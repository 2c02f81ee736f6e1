"""Random statements that are expensive to compute, to hold, to sort or to plan."""

from . import functions

# Values with their weights: values that are refused at once are rare, because they hide the rest of a statement.
LENGTHS = {0: 1, 1: 3, 3: 5, 30: 10, 1_000: 20, 30_000: 20, 60_000: 20, 1_000_000: 20, 20_000_000: 12, 60_000_000: 12, 1_000_000_000: 1}
ROWS = [1, 10, 1_000, 8_192, 8_193, 100_000, 3_000_000, 1_000_000_000, 1_000_000_000_000]
INTEGERS = {-1: 3, 0: 3, 1: 10, 2: 10, 7: 10, 30: 10, 255: 8, 1_000: 15, 30_000: 15, 1_000_000: 10, 8_000_000: 8, 60_000_000: 4}
INTEGERS |= {2**31 - 1: 1, 2**31: 1, 2**53: 1, 2**63 - 1: 1, -(2**63): 1}
LETTERS = ["a", "b", "x,", "ab", "é", "ŉ", "ß", "İ", "𝒳", " ", "%", "\\", "1", "%Y-%m-%d ", "(a|b)*", "", "-"]
PATTERNS = [
    "",
    "a",
    "(a*)*b",
    "(.*a){20}b",
    "a{1000}",
    "(a?){50}a{50}",
    "(x+x+)+y",
    ".*.*.*=.*",
    "[^b]*b",
    "(?i)A",
    "^(a|aa)+$",
    r"\w+\s",
    "((((a{20}){20}){20}){5})",
]
FORMATS = ["%Y", "%c%c%c", "YYYY-MM-DD", "%9f", "%", "%Y" * 40]
# Longest statement in characters.
LONGEST = 1 << 20
TYPES = ["text", "integer", "number", "list", "texts", "time", "truth", "bytes"]
# Types that can be cast into each other.
CASTABLE = ["text", "integer", "number"]
CASTS = {
    "text": ["varchar", "varchar(20)"],
    "integer": ["bigint", "int", "tinyint", "bigint unsigned"],
    "number": ["double", "float", "decimal(38,10)", "decimal(5,2)"],
    "time": ["timestamp", "date"],
    "truth": ["boolean"],
    "bytes": ["bytea"],
}


class Grammar:
    """Makes statements from a source of random numbers; `more` are further functions of the server."""

    def __init__(self, rng, more=((), ())):
        self.rng, self.columns = rng, {}
        self.scalars, self.aggregates = [*functions.SCALARS, *functions.LISTS, *more[0]], [*functions.AGGREGATES, *more[1]]
        self.left = 0

    def statement(self):
        """The kind of a statement, and its text."""
        kind = self.rng.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
        text = None
        while text is None or len(text) > LONGEST:
            self.columns, self.left = {}, self.rng.choice([3, 6, 12, 25])
            text = KINDS[kind][1](self)
        if self.rng.random() < 0.03:
            text = f"explain {'analyze ' if self.rng.random() < 0.5 else ''}{text}"
        return kind, text

    # Values

    def length(self):
        return self.rng.choices(list(LENGTHS), list(LENGTHS.values()))[0]

    def number_of(self):
        return self.rng.choices(list(INTEGERS), list(INTEGERS.values()))[0]

    def pick(self, *choices):
        return self.rng.choice(choices)()

    def quoted(self, text):
        return "'" + text.replace("'", "''") + "'"

    def value(self, kind=None):
        """A nested expression of a type."""
        kind = kind or self.rng.choice(TYPES)
        self.left -= 1
        if self.left <= 0:
            return self.leaf(kind)
        chance = self.rng.random()
        if chance < 0.15:
            return self.leaf(kind)
        if chance < 0.18:
            return self.call()
        if chance < 0.23:
            return f"case when {self.value('truth')} then {self.value(kind)} else {self.value(kind)} end"
        if chance < 0.27 and kind in CASTABLE:
            return f"{self.rng.choice(['cast', 'try_cast'])}({self.value(self.rng.choice(CASTABLE))} as {self.rng.choice(CASTS[kind])})"
        if chance < 0.29 and kind in CASTABLE:
            return f"(select max(v) from ({self.rows('v', self.leaf(kind))}))"
        return getattr(self, kind)()

    def leaf(self, kind):
        if self.columns.get(kind) and self.rng.random() < 0.8:
            return self.rng.choice(self.columns[kind])
        rng = self.rng
        return {
            "text": lambda: rng.choice([self.quoted(rng.choice(LETTERS)), f"repeat({self.quoted(rng.choice(LETTERS))},{self.length()})"]),
            "integer": lambda: str(self.number_of()),
            "number": lambda: rng.choice(["0.5", "1e308", "-1e-300", "cast('NaN' as double)", "1234567890.123456789"]),
            "list": lambda: rng.choice([f"range(0,{self.number_of()})", "make_array(1,2,3)", f"array_repeat(7,{self.length()})"]),
            "texts": lambda: rng.choice(
                ["make_array('a','b')", f"array_repeat('x',{self.length()})", f"string_to_array(repeat('a,',{self.length()}),',')"]
            ),
            "time": lambda: rng.choice(
                ["now()", "timestamp '2020-02-29 00:00:00'", "date '0001-01-01'", "timestamp '1677-09-22 00:00:00'"]
            ),
            "truth": lambda: rng.choice(["true", "false", "null"]),
            "bytes": lambda: rng.choice(["x'00ff'", f"cast(repeat('a',{self.length()}) as bytea)"]),
        }[kind]()

    def call(self):
        """A call of any function: mostly with arguments of plausible types, sometimes with any arguments."""
        name, rng = self.rng.choice(self.scalars), self.rng
        count = rng.choices([0, 1, 2, 3, 4], [1, 8, 10, 6, 2])[0]
        if rng.random() < 0.2:
            return f"{name}({','.join(self.value() for _ in range(count))})"
        first, others = ("list", ["integer", "list"]) if rng.random() < 0.6 else ("texts", ["text", "texts", "integer"])
        if name not in functions.LISTS:
            first, others = rng.choices(
                [("text", ["text", "integer"]), ("number", ["number", "integer"]), ("time", ["text", "time"])], [6, 2, 1]
            )[0]
        return f"{name}({','.join(self.value(rng.choice(others) if at else first) for at in range(count))})"

    def text(self):
        value, rng = self.value, self.rng
        return self.pick(
            lambda: f"repeat({value('text')},{value('integer')})",
            lambda: f"{rng.choice(['lpad', 'rpad'])}({value('text')},{value('integer')},{value('text')})",
            lambda: f"replace({value('text')},{value('text')},{value('text')})",
            lambda: f"regexp_replace({value('text')},{self.pattern()},{value('text')},'g')",
            lambda: f"translate({value('text')},{value('text')},{value('text')})",
            lambda: f"overlay({value('text')} placing {value('text')} from {value('integer')} for {value('integer')})",
            lambda: f"concat({','.join(value('text') for _ in range(rng.randrange(1, 30)))})",
            lambda: f"concat_ws({value('text')},{','.join([value('text')] * rng.randrange(1, 30))})",
            lambda: "||".join([f"({value('text')})"] * rng.randrange(2, 30)),
            lambda: f"array_to_string({value('list')},{value('text')})",
            lambda: f"array_to_string({value('texts')},{value('text')},{value('text')})",
            lambda: f"to_char({value('time')},{self.format()})",
            lambda: f"encode({value('bytes')},{rng.choice(['hex', 'base64'])!r})",
            lambda: f"{rng.choice(['upper', 'lower', 'initcap', 'reverse', 'trim', 'md5', 'to_hex', 'quote'])}({value('text')})",
            lambda: f"{rng.choice(['left', 'right', 'substr', 'substr_index', 'split_part'])}({value('text')},{value('integer')})",
            lambda: f"split_part({value('text')},{value('text')},{value('integer')})",
            lambda: f"cast({value()} as varchar)",
            lambda: f"array_element({value('texts')},{value('integer')})",
            lambda: f"chr({value('integer')})",
        )

    def integer(self):
        value, rng = self.value, self.rng
        return self.pick(
            lambda: f"length({value('text')})",
            lambda: f"levenshtein({value('text')},{value('text')})",
            lambda: f"({value('integer')} {rng.choice(['+', '-', '*', '/', '%', '&', '|', '<<'])} {value('integer')})",
            lambda: f"array_length({value('list')})",
            lambda: f"cardinality({value('texts')})",
            lambda: f"array_position({value('list')},{value('integer')})",
            lambda: f"array_element({value('list')},{value('integer')})",
            lambda: f"regexp_count({value('text')},{self.pattern()})",
            lambda: f"strpos({value('text')},{value('text')})",
            lambda: f"find_in_set({value('text')},{value('text')})",
            lambda: f"octet_length({value('bytes')})",
            lambda: f"{rng.choice(['factorial', 'abs', 'ascii'])}({value('integer')})",
            lambda: f"gcd({value('integer')},{value('integer')})",
        )

    def number(self):
        value, rng = self.value, self.rng
        return self.pick(
            lambda: f"({value('number')} {rng.choice('+-*/')} {value('integer')})",
            lambda: f"{rng.choice(['sqrt', 'exp', 'ln', 'sin', 'round', 'cbrt'])}({value('number')})",
            lambda: f"power({value('number')},{value('integer')})",
            lambda: f"round({value('number')},{value('integer')})",
            lambda: f"array_distance({value('list')},{value('list')})",
            lambda: f"cosine_distance({value('list')},{value('list')})",
        )

    def list(self):
        value, rng = self.value, self.rng
        return self.pick(
            lambda: f"range({value('integer')},{value('integer')},{rng.choice([1, -1, 7, 1000000])})",
            lambda: f"generate_series({value('integer')},{value('integer')})",
            lambda: f"array_repeat({value('integer')},{value('integer')})",
            lambda: f"array_repeat({value('list')},{value('integer')})",
            lambda: f"array_resize({value('list')},{value('integer')},{value('integer')})",
            lambda: f"array_concat({','.join([value('list')] * rng.randrange(1, 12))})",
            lambda: f"{rng.choice(['array_union', 'array_intersect', 'array_except', 'arrays_zip'])}({value('list')},{value('list')})",
            lambda: f"{rng.choice(['array_distinct', 'array_sort', 'array_reverse', 'flatten'])}({value('list')})",
            lambda: f"array_replace_all({value('list')},{value('integer')},{value('integer')})",
            lambda: f"array_remove_all({value('list')},{value('integer')})",
            lambda: f"array_positions({value('list')},{value('integer')})",
            lambda: f"make_array({','.join(value('integer') for _ in range(rng.randrange(1, 30)))})",
            lambda: f"array_append({value('list')},{value('integer')})",
            lambda: f"range({value('time')},{value('time')},interval '1' {rng.choice(['second', 'day', 'month'])})",
        )

    def texts(self):
        value, rng = self.value, self.rng
        return self.pick(
            lambda: f"string_to_array({value('text')},{value('text')})",
            lambda: f"make_array({','.join([value('text')] * rng.randrange(1, 30))})",
            lambda: f"array_repeat({value('text')},{value('integer')})",
            lambda: f"regexp_match({value('text')},{self.pattern()})",
            lambda: f"array_concat({value('texts')},{value('texts')},{value('texts')})",
            lambda: f"array_sort({value('texts')})",
            lambda: f"map_values(map(make_array({value('text')}),make_array({value('text')})))",
        )

    def time(self):
        value, rng = self.value, self.rng
        return self.pick(
            lambda: f"date_trunc({rng.choice(['second', 'day', 'month', 'year'])!r},{value('time')})",
            lambda: f"date_bin(interval '{rng.choice([1, 7, 1000000])}' day,{value('time')})",
            lambda: f"to_timestamp({value('text')},{self.format()})",
            lambda: f"to_timestamp_nanos({value('integer')})",
            lambda: f"({value('time')} + interval '{rng.choice([1, 100000, 2147483647])}' day)",
        )

    def truth(self):
        value, rng = self.value, self.rng
        return self.pick(
            lambda: f"({value('text')} like {value('text')})",
            lambda: f"regexp_like({value('text')},{self.pattern()})",
            lambda: f"({value('text')} ~ {self.pattern()})",
            lambda: f"({value('integer')} {rng.choice(['<', '=', '>', '<>'])} {value('integer')})",
            lambda: f"array_has_any({value('list')},{value('list')})",
            lambda: f"array_has_all({value('texts')},{value('texts')})",
            lambda: f"({value('truth')} {rng.choice(['and', 'or'])} not {value('truth')})",
            lambda: f"({value('text')} in ({','.join(value('text') for _ in range(rng.randrange(1, 20)))}))",
            lambda: f"contains({value('text')},{value('text')})",
        )

    def bytes(self):
        value, rng = self.value, self.rng
        return self.pick(
            lambda: f"cast({value('text')} as bytea)",
            lambda: f"decode({value('text')},{rng.choice(['hex', 'base64'])!r})",
            lambda: f"{rng.choice(['sha256', 'sha512'])}({value('text')})",
            lambda: f"digest({value('text')},{rng.choice(['md5', 'blake3', 'sha512'])!r})",
        )

    def pattern(self):
        if self.rng.random() < 0.8:
            return self.quoted(self.rng.choice(PATTERNS))
        return self.value("text")

    def format(self):
        if self.rng.random() < 0.6:
            return self.quoted(self.rng.choice(FORMATS))
        return self.value("text")

    # Rows

    def rows(self, name, value):
        """A query of some rows with one column."""
        return f"select {value} as {name} from generate_series(1,{self.rng.choice(ROWS)})"

    def source(self, depth=0):
        """A relation to read; its columns are added by type."""
        rng = self.rng
        alias = f"s{depth}{rng.randrange(1_000)}"
        chance = rng.random()
        if chance < 0.45 or depth > 2:
            self.add(integer=[f"{alias}.value"])
            return f"generate_series({rng.choice([1, 1, 0, -5])},{rng.choice(ROWS)}) as {alias}"
        if chance < 0.7:
            self.add(integer=[f"{alias}.n"], number=[f"{alias}.v"], text=[f"{alias}.s", f"{alias}.g"], time=[f"{alias}.ts"])
            return f"fuzz.rows as {alias}"
        if chance < 0.85:
            kind = rng.choice(["text", "integer", "list", "texts"])
            inner = f"(select {self.value(kind)} as c, value as n from generate_series(1,{rng.choice(ROWS)})) as {alias}"
            self.columns = {}
            self.add(**{kind: [f"{alias}.c"]})
            self.add(integer=[f"{alias}.n"])
            return inner
        if chance < 0.95:
            join = rng.choice(["cross join", "cross join", "join", "left join", "full join"])
            left, right = self.source(depth + 1), self.source(depth + 1)
            return f"{left} {join} {right}" + ("" if join == "cross join" else f" on {self.value('truth')}")
        self.add(integer=[f"{alias}.u"])
        return f"(select unnest({self.value('list')}) as u) as {alias}"

    def add(self, **columns):
        for kind, names in columns.items():
            self.columns.setdefault(kind, []).extend(names)

    def where(self):
        return f" where {self.value('truth')}" if self.rng.random() < 0.4 else ""

    def limit(self):
        return f" limit {self.rng.choice([1, 10, 100000])}" if self.rng.random() < 0.5 else ""

    def constants(self):
        return f"select {', '.join(self.shown(self.value()) for _ in range(self.rng.choice([1, 1, 2, 5])))}"

    def shown(self, value):
        """The value itself, or its length, which keeps the answer small."""
        return self.rng.choice([value, f"length(cast({value} as varchar))", f"count(*) over () + octet_length(cast({value} as varchar))"])

    def calls(self):
        """One call of any function with large arguments."""
        source = f" from {self.source()}" if self.rng.random() < 0.5 else ""
        return f"select {self.shown(self.call())}{source}{self.limit()}"

    def scan(self):
        source = self.source()
        return f"select {self.value()}, {self.shown(self.value())} from {source}{self.where()}{self.limit()}"

    def aggregate(self):
        source, rng = self.source(), self.rng
        name = rng.choice([*self.aggregates, "string_agg", "array_agg", "count", "median", "max"])
        distinct = "distinct " if rng.random() < 0.3 else ""
        more = {"string_agg": f",{self.value('text')}", "approx_percentile_cont": ",0.5", "percentile_cont": ",0.5", "nth_value": ",2"}.get(
            name, ""
        )
        order = f" order by {self.value()}" if rng.random() < 0.2 else ""
        group = f" group by {', '.join(self.value() for _ in range(rng.choice([1, 1, 3])))}" if rng.random() < 0.5 else ""
        call = f"{name}({distinct}{self.value()}{more}{order})"
        return f"select {rng.choice([call, f'length(cast({call} as varchar))'])} from {source}{self.where()}{group}"

    def sort(self):
        source = self.source()
        keys = ", ".join(f"{self.value()} {self.rng.choice(['', 'desc', 'nulls first'])}" for _ in range(self.rng.choice([1, 2, 4])))
        return f"select {self.value()} as c from {source} order by {keys}{self.limit()}"

    def window(self):
        source, rng = self.source(), self.rng
        name = rng.choice([*functions.WINDOWS, *self.aggregates])
        arguments = "" if name in ("rank", "dense_rank", "row_number", "percent_rank", "cume_dist") else self.value()
        over = f"partition by {self.value()} " if rng.random() < 0.5 else ""
        over += f"order by {self.value()} " if rng.random() < 0.7 else ""
        frames = [
            "",
            "rows between unbounded preceding and current row",
            "rows between 1000 preceding and 1000 following",
            "rows between unbounded preceding and unbounded following",
        ]
        over += rng.choice(frames)
        call = f"{name}({arguments}) over ({over})"
        return f"select max(w) from (select cast({call} as varchar) as w from {source}{self.where()})"

    def joined(self):
        left = self.source()
        right = self.source()
        join = self.rng.choice(["cross join", "cross join", "natural join"])
        return f"select count(*), max({self.value()}) from {left} {join} {right}{self.where()}"

    def members(self):
        count, rng = self.rng.choice([10, 1_000, 20_000, 50_000, 60_000]), self.rng
        kind = rng.choice(["integer", "text"])
        items = ",".join(str(n) if kind == "integer" else f"'{n}'" for n in range(count))
        left = {"integer": ["n", "n % 1000", "length(s)"], "text": ["s", "g", "cast(n as varchar)"]}[kind]
        return f"select count(*) from fuzz.rows where {rng.choice(left)} {rng.choice(['in', 'not in'])} ({items})"

    def deep(self):
        rng = self.rng
        depth = rng.choice([10, 50, 62, 63, 64, 100, 5_000])
        return self.pick(
            lambda: "select " + "(" * depth + "1" + ")" * depth,
            lambda: "select " + "not " * depth + "true",
            lambda: "select " + "-" * (depth * 2) + " 1",
            lambda: "select " + "+".join(["1"] * min(depth, 1_000)),
            lambda: "select " + "upper(" * depth + "'a'" + ")" * depth,
            lambda: "select " + "reverse(concat('a'," * depth + "'a'" + "))" * depth,
            lambda: "select " + "case when true then " * depth + "1" + " end" * depth,
            lambda: "select * from " + "(select * from " * depth + "fuzz.rows" + ")" * depth + " limit 1",
            lambda: " union all ".join(["select n from fuzz.rows"] * min(depth, 300)),
            lambda: "select " + "make_array(" * depth + "1" + ")" * depth,
            lambda: (
                "select count(*) from fuzz.rows where " + " or ".join(f"n = {n} and s like '%{n}%'" for n in range(min(depth * 10, 6_000)))
            ),
            lambda: (
                "select "
                + "".join(f"concat(x{n},x{n}) as x{n + 1} from (select " for n in reversed(range(min(depth, 60))))
                + "'ab' as x0"
                + ")" * min(depth, 60)
            ),
            lambda: (
                "with "
                + ", ".join(
                    f"c{n} as (select a.v + b.v as v from c{n - 1} a cross join c{n - 1} b)"
                    if n
                    else "c0 as (select n as v from fuzz.rows limit 10)"
                    for n in range(min(depth, 40))
                )
                + f" select count(*) from c{min(depth, 40) - 1}"
            ),
        )

    def recursive(self):
        step = self.pick(
            lambda: "n + 1",
            lambda: "n * 2",
        )
        end, union = self.rng.choice([10, 10_000, 100_000_000]), self.rng.choice(["union all", "union"])
        grow = self.rng.choice(["t || t", "t || 'x'", "repeat(t, 2)", "concat(t, t, t)", "upper(t)"])
        fan = self.rng.choice(["", "", " cross join generate_series(1,10) g", " cross join generate_series(1,100000) g"])
        return (
            f"with recursive r(n, t) as (select 1, 'ab' {union} select {step}, {grow} from r{fan} where n < {end})"
            f" select count(*), max(n), max(length(t)) from r"
        )

    def grouping(self):
        source = self.source()
        keys = [self.value() for _ in range(self.rng.choice([2, 5, 10, 14]))]
        how = self.rng.choice(["cube", "rollup"])
        return f"select count(*), grouping({keys[0]}) from {source} group by {how} ({', '.join(keys)})"

    def distinct(self):
        source = self.source()
        return f"select count(*) from (select distinct {', '.join(self.value() for _ in range(self.rng.choice([1, 2, 5])))} from {source})"

    def wide(self):
        source, count = self.source(), self.rng.choice([10, 300, 3_000])
        one = self.value()
        if len(one) * count > 1 << 20:
            count = max(1, (1 << 20) // len(one))
        return f"select {', '.join(f'{one} as c{n}' for n in range(count))} from {source} limit 10"

    def intervals(self):
        rng = self.rng
        length = rng.choice(["1a", "1s", "1m", "1h", "1d", "1n", "1y", "1b", "1u"])
        sliding = f" sliding({rng.choice(['1a', '1s', '1m', '1h'])})" if rng.random() < 0.5 else ""
        fill = f" fill({rng.choice(['null', 'prev', 'linear', 'value, 0', 'next'])})" if rng.random() < 0.3 else ""
        partition = " partition by tbname" if rng.random() < 0.4 else ""
        between = (
            f" where ts between '{rng.choice(['1970-01-01', '2023-11-14'])}' and '{rng.choice(['2262-01-01', '2023-11-16'])}'"
            if rng.random() < 0.4
            else ""
        )
        aggregate = rng.choice(["count(*)", "avg(v)", "first(s)", "last(*)", "string_agg(s, ',')", "median(v)", "spread(v)"])
        return f"select _wstart, {aggregate} from fuzz.rows{between}{partition} interval({length}){sliding}{fill}"

    def unnested(self):
        rng = self.rng
        return self.pick(
            lambda: f"select count(*) from (select unnest({self.value('list')}) as u)",
            lambda: f"select max(length(u)) from (select unnest({self.value('texts')}) as u from generate_series(1,{rng.choice(ROWS)}))",
            lambda: (
                f"select count(*) from (select unnest(range(0,{rng.choice([10, 100_000])})) as a, unnest(range(0,n)) as b from fuzz.rows)"
            ),
        )

    def tables(self):
        rng = self.rng
        names = [
            "information_schema.tables",
            "information_schema.columns",
            "information_schema.ins_tables",
            "information_schema.ins_tags",
            "system.queries",
            "system.files",
            "system.manifests",
            "system.variables",
            "information_schema.df_settings",
        ]
        some = [rng.choice(names) for _ in range(rng.choice([1, 2, 4, 6]))]
        self.columns = {}
        return f"select count(*), max({self.value()}) from {', '.join(f'{name} t{n}' for n, name in enumerate(some))}"

    def writing(self):
        rng = self.rng
        names = ",".join(f"'w{n}'" for n in range(rng.choice([1, 1_000, 40_000])))
        rows = ",".join(f"('w{n % 7}', {1_700_000_000_000 + n}, {n})" for n in range(rng.choice([1, 100, 20_000])))
        return self.pick(
            lambda: f"insert into fuzz.written (tbname, ts, v) values {rows}",
            lambda: f"delete from fuzz.written where ts < 0 and tbname in ({names})",
            lambda: (
                f"delete from fuzz.written where ts < 0 and ({' or '.join(['tbname like ' + repr('%a%' * 20)] * rng.choice([1, 1_000]))})"
            ),
            lambda: (
                f"insert into fuzz.written (tbname, ts, v) select s, ts, v from fuzz.rows cross join generate_series(1,{rng.choice(ROWS)})"
            ),
        )


KINDS = {
    "constants": (12, Grammar.constants),
    "calls": (14, Grammar.calls),
    "rows": (12, Grammar.scan),
    "aggregates": (14, Grammar.aggregate),
    "sorts": (8, Grammar.sort),
    "windows": (6, Grammar.window),
    "joins": (6, Grammar.joined),
    "lists of IN": (2, Grammar.members),
    "nesting": (6, Grammar.deep),
    "recursion": (5, Grammar.recursive),
    "grouping sets": (3, Grammar.grouping),
    "distinct": (4, Grammar.distinct),
    "wide": (3, Grammar.wide),
    "intervals": (4, Grammar.intervals),
    "unnested lists": (3, Grammar.unnested),
    "tables of the node": (2, Grammar.tables),
    "writes": (2, Grammar.writing),
}
