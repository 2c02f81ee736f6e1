"""The results of the fuzz of resources as a page."""

import collections
import datetime
import os
import platform

from robust.report import commit, memory, processor


def write(path, run, chosen, took):
    kinds = collections.defaultdict(collections.Counter)
    for (kind, status), count in run.outcomes.items():
        kinds[kind][status] += count
    command = f"resources.py {os.path.basename(chosen.binary)} --seed {chosen.seed} --cases {run.counted} --jobs {chosen.jobs}"
    lines = [
        "# Expensive statements and requests",
        "",
        f"- {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}, commit `{commit()}`, {took / 60:.0f} minutes.",
        f"- {processor()}, {os.cpu_count()} cores, {memory() / 1e9:.2f} GB, linux {platform.machine()}; shared by server and clients.",
        f"- `{command}{' --strict' if chosen.strict else ''}`: 256 MiB for queries, which may take 2 s.",
        f"- {run.counted} cases, {len(run.failures)} failed.",
        "- Most resident memory above the idle server, of rounds by their limit, which is 5/4 of the memory for queries (256 MiB) and of the"
        " buffers (64 MiB each) that bodies of the round fill: "
        + ", ".join(f"{grown:.0f} MiB (limit {limit})" for limit, grown in sorted(run.grown.items()))
        + ".",
        f"- Slowest answer of `/health`: {run.slowest * 1000:.0f} ms (limit {run.health * 1000:.0f}).",
        f"- Longest statement: {run.longest:.2f} s (limit {run.seconds}).",
        f"- {run.repeated} rounds of cases exceeded a limit of time and were sent once more; it is a fault to exceed one again.",
        "",
        "| kind | cases | answers |",
        "|---|---|---|",
    ]
    for kind, statuses in sorted(kinds.items()):
        lines.append(
            f"| {kind} | {sum(statuses.values())} | {', '.join(f'{status}: {count}' for status, count in statuses.most_common())} |"
        )
    if run.failures:
        lines += ["", "## Failed", ""]
        lines += [f"- {' '.join(told.split())[:1_000]}" for told in run.failures]
    with open(path, "w") as page:
        page.write("\n".join(lines) + "\n")
