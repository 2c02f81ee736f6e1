"""The compact function: on schedule, and on demand until the whole log is folded."""

import time

#: A fold skips younger segments.
FOLD_AFTER_SECONDS = 5


def by_schedule(deployment, checks):
    """So far only the schedule has invoked the function."""
    with checks.part("the schedule starts compaction"):
        until = time.monotonic() + 200
        started = []
        while not started and time.monotonic() < until:
            started = [line for line in deployment.log_lines("compact") if line.startswith("START ")]
            if not started:
                time.sleep(1)
        checks.true("an invocation within 200 s", started, "none")


def on_demand(deployment, checks):
    with checks.part("the log is folded and files are merged"):
        time.sleep(FOLD_AFTER_SECONDS + 1)
        for turn in range(10):
            done, is_error = deployment.invoke("compact", {"task": "full"})
            checks.true("full", not is_error, done)
            if is_error or not done["has_more"]:
                break
        checks.equal("there is no more to do", done.get("has_more"), False)
        done, is_error = deployment.invoke("compact", {"task": "fold"})
        checks.equal("nothing is left to fold", (is_error, done.get("segments")), (False, 0))
        keys = deployment.objects("data/")
        files, manifests = count(keys, ".parquet"), count(keys, ".tags")
        checks.true("there are data files", files, keys)
        short = {place: number for place, number in files.items() if manifests.get(place, 0) < number}
        checks.equal("each data file has a tag manifest", short, {})
        for task in ("collect", "sweep"):
            done, is_error = deployment.invoke("compact", {"task": task})
            checks.true(task, not is_error, done)


def count(keys, ending):
    """Objects by their directory."""
    found = {}
    for key in keys:
        if key.endswith(ending):
            place = key.rsplit("/", 1)[0]
            found[place] = found.get(place, 0) + 1
    return found
