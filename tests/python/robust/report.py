"""The report page."""

import datetime
import os
import platform
import subprocess


class Report:
    """Collects checks; `write` writes the page."""

    def __init__(self, command):
        self.command, self.checks = command, []
        self.began = datetime.datetime.now(datetime.timezone.utc)

    def add(self, part, what, found, holds):
        self.checks.append((part, what, found, holds))

    def write(self, path):
        failed = sum(not holds for *_, holds in self.checks)
        lines = [
            "# Hostile clients, crowds, and queries that are stopped",
            "",
            f"- Started {self.began:%Y-%m-%dT%H:%M:%SZ}, commit `{commit()}`.",
            f"- {processor()}, {os.cpu_count()} cores, {memory() / 1e9:.2f} GB of memory, linux {platform.machine()}; shared by server and clients.",
            f"- `{self.command}`",
            f"- {len(self.checks) - failed} checks passed, {failed} failed.",
            "",
            "| | check | found |",
            "|---|---|---|",
        ]
        lines += [f"| {part} | {what} | {cell(found, holds)} |" for part, what, found, holds in self.checks]
        with open(path, "w") as page:
            page.write("\n".join(lines) + "\n")


def cell(found, holds):
    text = " ".join(str(found).split()).replace("|", "\\|")
    return text if holds else f"**failed:** {text}"


def commit():
    here = os.path.dirname(os.path.abspath(__file__))
    told = subprocess.run(["git", "-C", here, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    return told.stdout.strip() or "unknown"


def processor():
    with open("/proc/cpuinfo") as lines:
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def memory():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
