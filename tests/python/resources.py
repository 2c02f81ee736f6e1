"""Fuzz of resources: random expensive statements and requests against a server with small limits.

resources.py BINARY [--cases N] [--first N] [--seed S] [--jobs N] [--fixed | --long | --case N] [--report PAGE].

The server has 256 MiB of query memory, buffers of 64 MiB for statements and for rows, and a query timeout of 2 s. Checked for each case:
resident memory stays below the idle server's plus the query memory, plus the buffers that the bodies of the round fill, plus 25 %, GET /health is answered at any time, the case ends in time with an answer, and the server neither exits nor
panics. --strict (implied by --long) needs an idle machine: /health within 100 ms, statements within 2.2 s; otherwise the bounds allow for
a busy machine. Cases that exceed a limit of time are sent once more; it is a fault when they exceed one again. A case depends on the
seed and its number alone: --seed S --case N repeats it. --fixed runs the same cases each time."""

import argparse
import collections
import os
import random
import signal
import sys
import tempfile
import threading
import time

from resources import functions
from resources.cases import Case
from resources.report import write
from resources.watch import BUFFER, LIMIT, TIMEOUT, Watched

# The cases of --fixed: a seed whose first cases contain every kind.
FIXED_SEED, FIXED_CASES, LONG_CASES = 68, 60, 20_000
STRICT, LENIENT = (0.1, TIMEOUT + 0.2), (2.0, TIMEOUT + 5.0)
# Rounds per server: long enough to notice memory that is never freed.
ROUNDS = 500


def most(cases):
    """MiB: the budgets that a round of cases may use, and a quarter more."""
    return (LIMIT + BUFFER * len(set().union(*(case.buffers for case in cases)))) * 5 // 4


class Late(str):
    """A fault of time, which the machine may have caused by running something else."""


class Run:
    """Sends cases in rounds of several at once; repeats the cases of a failed round one by one to find the cause."""

    def __init__(self, binary, directory, chosen):
        self.binary, self.directory, self.chosen = binary, directory, chosen
        self.health, self.seconds = STRICT if chosen.strict else LENIENT
        self.server, self.started, self.rounds, self.more = None, 0, 0, ((), ())
        self.outcomes, self.failures = collections.Counter(), []
        # The most that was resident above the idle server, by the limit of the round.
        self.grown = collections.defaultdict(int)
        self.slowest = self.longest = 0.0
        self.counted = self.repeated = 0

    def ready(self):
        """The server of the next round; a new one when the last one is used up or broken."""
        if self.server and (self.rounds >= ROUNDS or self.server.process.poll() is not None or not self.server.rests()):
            self.close()
        if not self.server:
            self.started, self.rounds = self.started + 1, 0
            self.server = Watched(self.binary, self.directory, f"fuzz{self.started}")
            self.server.__enter__()
            if self.started == 1:
                self.more = functions.listed(self.server)
        self.rounds += 1
        return self.server

    def close(self):
        if self.server:
            self.server.__exit__(None)
            self.server = None

    def send(self, numbers):
        """Sends cases at once; returns each with its answer, and the faults of the server during the round."""
        server = self.ready()
        cases = [Case(self.chosen.seed, number, self.more) for number in numbers]
        answers = [None] * len(cases)
        server.begin()

        def one(at):
            answers[at] = cases[at].run(server.port)

        threads = [threading.Thread(target=one, args=(at,), daemon=True) for at in range(len(cases))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        if server.broken_off():
            # The connection ends after the headers, which may not have been sent by then.
            for answer in answers:
                if answer and answer.status is None and "closed connection without response" in answer.text:
                    answer.status = "broken off"
        grown, slowest, faults = server.end()
        if grown > most(cases) and not server.overgrown:
            faults.append(f"{grown} MiB more were resident, {most(cases)} may be")
        if slowest > self.health:
            faults.append(Late(f"/health took {slowest * 1000:.0f} ms, {self.health * 1000:.0f} it may"))
        self.grown[most(cases)] = max(self.grown[most(cases)], grown)
        self.slowest = max(self.slowest, slowest)
        if faults:
            # Work that still runs there must not be blamed on the next round.
            self.close()
        return list(zip(cases, answers, strict=True)), faults

    def judge(self, case, answer):
        """The faults of the answer to one case."""
        if answer is None:
            return ["not answered within 60 s"]
        faults = []
        if answer.status is None:
            faults.append(answer.text)
        if case.is_statement:
            self.longest = max(self.longest, answer.took)
            if answer.took > self.seconds:
                faults.append(Late(f"took {answer.took:.1f} s, {self.seconds} s it may: {answer.status} {answer.text}"))
        return faults

    def tried(self, numbers):
        """Sends cases; once more if only times were above their limits. Returns each case with its answer, the faults of the server,
        and those of each answer."""
        for is_last in (False, True):
            pairs, together = self.send(numbers)
            found = {case.number: self.judge(case, answer) for case, answer in pairs}
            faults = together + [fault for several in found.values() for fault in several]
            if is_last or not faults or not all(isinstance(fault, Late) for fault in faults):
                return pairs, together, found
            self.repeated += 1

    def round(self, numbers):
        pairs, together, found = self.tried(numbers)
        if len(pairs) > 1 and (together or any(found.values())):
            # One by one, to find the cause.
            alone = {}
            for case, _ in pairs:
                _, faults, judged = self.tried([case.number])
                alone[case.number] = faults + judged[case.number]
            blamed = {number for number, faults in alone.items() if faults}
            for number, faults in alone.items():
                found[number] = faults
            if not blamed:
                shown = "; ".join(together + [fault for case, answer in pairs for fault in self.judge(case, answer)])
                self.fail(f"cases {', '.join(map(str, numbers))} of seed {self.chosen.seed} at once, none of them alone: {shown}")
        elif together:
            found[numbers[0]] += together
        for case, answer in pairs:
            self.counted += 1
            self.outcomes[case.kind, str(answer.status) if answer else "none"] += 1
            if self.chosen.verbose:
                print(f"        {case}\n            {answer.took:.2f} s {answer.status} {answer.text[:200]!r}", flush=True)
            if found[case.number]:
                self.fail(f"{case}: {'; '.join(found[case.number])}")

    def fail(self, told):
        self.failures.append(told)
        print(f"FAILED  {told}", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("binary")
    arguments.add_argument("--cases", type=int, default=200)
    arguments.add_argument("--first", type=int, default=0, help="the number of the first case")
    arguments.add_argument("--seed", type=int, help="another one each time by default; printed")
    arguments.add_argument("--jobs", type=int, default=4, help="cases at once")
    arguments.add_argument("--fixed", action="store_true", help=f"the {FIXED_CASES} cases of each run")
    arguments.add_argument("--long", action="store_true", help=f"{LONG_CASES} cases, --strict")
    arguments.add_argument("--strict", action="store_true", help="the limits of a machine that does nothing else")
    arguments.add_argument("--case", type=int, action="append", help="only the case of this number; may repeat")
    arguments.add_argument("--minutes", type=float, help="minutes after which no further case begins")
    arguments.add_argument("--verbose", action="store_true", help="print each case")
    arguments.add_argument("--report", help="a Markdown page of what was found is written there")
    chosen = arguments.parse_args()
    if chosen.fixed:
        chosen.seed, chosen.cases = FIXED_SEED, FIXED_CASES
    if chosen.long:
        chosen.cases, chosen.strict = LONG_CASES, True
    if chosen.seed is None:
        chosen.seed = random.randrange(1 << 30)
    print(f"seed {chosen.seed}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    numbers = chosen.case or list(range(chosen.first, chosen.first + chosen.cases))
    jobs = 1 if chosen.case else max(1, chosen.jobs)
    began, printed = time.monotonic(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tidelake-resources.") as directory:
        run = Run(os.path.abspath(chosen.binary), directory, chosen)
        try:
            for at in range(0, len(numbers), jobs):
                if chosen.minutes and time.monotonic() - began > 60 * chosen.minutes:
                    break
                run.round(numbers[at : at + jobs])
                if time.monotonic() - printed > 30:
                    printed = time.monotonic()
                    print(f"        {run.counted} cases, {len(run.failures)} failed, {printed - began:.0f} s", flush=True)
        finally:
            run.close()
    took = time.monotonic() - began
    if chosen.report:
        write(chosen.report, run, chosen, took)
    print(
        f"at most {', '.join(f'{grown:.0f} of {limit}' for limit, grown in sorted(run.grown.items()))} MiB above the idle server; /health within {run.slowest * 1000:.0f} ms; "
        f"the longest statement {run.longest:.1f} s; {run.repeated} rounds sent once more; seed {chosen.seed}; {took:.0f} s"
    )
    print(f"{run.counted - len(run.failures)} passed, {len(run.failures)} failed", flush=True)
    return 1 if run.failures or not run.counted else 0


if __name__ == "__main__":
    sys.exit(main())
