"""Fault injection: kills or freezes the functions' processes, for a short while or until their timeout."""

import os
import random
import threading
import time
from dataclasses import dataclass

import psutil
from background import Background


def processes(localstack):
    """The functions' processes: (process, function)."""
    found = []
    for process in psutil.Process(localstack).children(recursive=True):
        try:
            command = process.cmdline()
            # With an emulator, the program is the last argument.
            if command and command[-1].endswith("/bootstrap"):
                found.append((process, process.environ().get("AWS_LAMBDA_FUNCTION_NAME", "")))
        except psutil.Error:
            pass  # ended meanwhile
    return found


@dataclass
class Fate:
    """What may become of a function: how likely something does where several answer, and how often at most it is killed or held
    until its time is over."""

    likely: int
    kills: int
    holds: int


class Misfortune(Background):
    """Comes over one process after another, as a seed says, until it is stopped.

    Only one that is answering an event is killed or stopped: a process that waits for one stands still already.
    """

    def __init__(self, localstack, seed, fates):
        super().__init__()
        self.localstack, self.random, self.fates = localstack, random.Random(seed), fates
        self.happened = {}

    def run(self):
        while not self.over.wait(self.random.uniform(0.05, 0.3)):
            busy = {}
            for process, function in processes(self.localstack):
                if function in self.fates and is_busy(process):
                    busy.setdefault(function, []).append(process)
            if not busy:
                continue
            function = self.random.choices(list(busy), [self.fates[function].likely for function in busy])[0]
            victim, chance = self.random.choice(busy[function]), self.random.random()
            try:
                what = self.befall(victim, self.fates[function], chance)
            except psutil.Error:
                continue  # ended meanwhile
            self.happened[function, what] = self.happened.get((function, what), 0) + 1

    def befall(self, victim, fate, chance):
        # Each function is held as soon as possible, but not just after its start, which does not count as an invocation.
        if fate.holds and time.time() - victim.create_time() > starts_within(victim):
            fate.holds -= 1
            threading.Thread(target=self.hold, args=(victim,), daemon=True).start()
            return "held until its time was over"
        if fate.kills and chance < 0.6:
            fate.kills -= 1
            victim.kill()
            return "killed"
        victim.suspend()
        time.sleep(self.random.uniform(0.1, 0.8))
        victim.resume()
        return "stood still"

    def hold(self, victim):
        """Keeps a process frozen until the platform kills it, although its next event would continue it."""
        try:
            while not self.over.wait(0.01):
                if is_busy(victim):
                    victim.suspend()
                elif not victim.is_running():
                    return
        except psutil.Error:
            pass  # ended meanwhile

    def count(self, function):
        """Number of events of that function left without a response."""
        return sum(times for (name, what), times in self.happened.items() if name == function and what != "stood still")

    def told(self):
        return ", ".join(f"{function} {what} {times} times" for (function, what), times in sorted(self.happened.items()))


def starts_within(process):
    """Seconds until a process requests its first event; more with an emulator."""
    return 1 if len(process.cmdline()) == 1 else 4


def is_busy(process):
    try:
        return process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def localstack_pid():
    return int(os.environ["TIDELAKE_LOCALSTACK_PID"])
