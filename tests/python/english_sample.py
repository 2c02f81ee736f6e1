"""Draws doc comments, error messages and log lines of the sources at random, for a reader who judges their English.

usage: english_sample.py [SEED]    prints 60 doc comments, 40 error messages and 20 log lines, and the seed
"""

import pathlib
import random
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOC = re.compile(r"(?:^[ \t]*//[/!] ?[^\n]*\n)+", re.M)
TEXT = r'"((?:\\.|[^"\\])+)"'
ERROR = re.compile(
    r"(?:Error::\w+|bail!|ensure!|anyhow!|refused|unsupported|invalid|plan_err!|plan_datafusion_err!|\.context)\s*\(\s*"
    r"(?:format!\s*\(\s*)?" + TEXT
)
LOG = re.compile(r"tracing::(?:error|warn|info|debug)!\(\s*(?:[^\"();]*,\s*)?" + TEXT)


def found(pattern, sources, group):
    for path, text in sources:
        # Tests do not reach users.
        text = text.split("#[cfg(test)]\nmod tests {")[0]
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield path.relative_to(ROOT), line, re.sub(r"\\\n\s*|\s*\n\s*//[/!] ?", " ", match.group(group)).strip()


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.randrange(1_000_000)
    draw = random.Random(seed)
    paths = sorted(
        path
        for top in ("format", "protocol", "ingest", "query", "server", "infra", "loadtest")
        for path in (ROOT / top).rglob("*.rs")
        if "tests" not in path.relative_to(ROOT).parts and path.name != "tests.rs" and "target" not in path.parts
    )
    sources = [(path, path.read_text()) for path in paths]
    print(f"seed {seed}")
    for title, pattern, group, count in (
        ("doc comments", DOC, 0, 60),
        ("error messages", ERROR, 1, 40),
        ("log lines", LOG, 1, 20),
    ):
        all_found = list(found(pattern, sources, group))
        print(f"\n{title}: {count} of {len(all_found)}")
        for path, line, text in draw.sample(all_found, min(count, len(all_found))):
            text = re.sub(r"^//[/!] ?", "", text)
            print(f"{path}:{line}: {text}")


main()
