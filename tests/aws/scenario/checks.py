"""Named checks: all are run; failures are printed at once and again at the end."""

import contextlib
import sys
import time
import traceback


def shown(value, limit=400):
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


class Checks:
    def __init__(self):
        self.passed, self.failed, self.begun = 0, [], time.monotonic()

    def tell(self, text):
        print(f"{time.monotonic() - self.begun:6.1f} s  {text}", flush=True)

    def fail(self, name, text):
        self.failed.append(name)
        self.tell(f"FAILED  {name}: {text}")

    def true(self, name, condition, found=""):
        """Checks a condition."""
        if condition:
            self.passed += 1
        else:
            self.fail(name, shown(found))
        return bool(condition)

    def equal(self, name, found, expected):
        """Checks that `found` equals `expected`."""
        if found == expected:
            self.passed += 1
            return True
        self.fail(name, f"expected {shown(expected)}, found {shown(found)}")
        return False

    def rows(self, name, found, expected):
        """Checks that each key occurs once with the expected values. `found` is a list of (key, values)."""
        keys = [key for key, _ in found]
        by_key = dict(found)
        lost = [key for key in expected if key not in by_key]
        strange = [key for key in by_key if key not in expected]
        other = [key for key in expected if key in by_key and by_key[key] != expected[key]]
        doubled = len(keys) - len(by_key)
        if not (lost or strange or other or doubled):
            self.passed += 1
            return True
        examples = [f"{key}: expected {expected.get(key)}, found {by_key.get(key)}" for key in (lost + strange + other)[:3]]
        self.fail(
            name,
            f"of {len(expected)} rows {len(lost)} lost, {doubled} doubled, {len(strange)} that nobody wrote, "
            f"{len(other)} with other values; {'; '.join(examples)}",
        )
        return False

    @contextlib.contextmanager
    def part(self, name):
        """A part of the scenario: an exception is a failed check, and the next part runs."""
        begun = time.monotonic()
        failed = len(self.failed)
        try:
            yield
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.fail(name, f"broke off: {type(error).__name__}: {shown(str(error))} ({where.filename}:{where.lineno})")
        if len(self.failed) == failed:
            self.tell(f"ok      {name} ({time.monotonic() - begun:.1f} s)")

    def finish(self):
        """The exit status."""
        if self.failed:
            made = self.passed + len(self.failed)
            print(f"{len(self.failed)} of {made} checks failed: {'; '.join(self.failed)}", file=sys.stderr)
        return 1 if self.failed else 0
