"""Background work of a scenario."""

import threading


class Background(threading.Thread):
    """A thread for as long as a `with` lasts: its `run` ends once `over` is set."""

    def __init__(self):
        super().__init__(daemon=True)
        self.over = threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()
