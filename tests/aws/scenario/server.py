"""The `tidelake` binary as a server on a root written by functions: its results must equal the functions' results."""

import contextlib
import os
import subprocess
import threading

from deployment import Url


@contextlib.contextmanager
def server(store, variables=None, log=subprocess.DEVNULL):
    """A server on a free port of the loopback address, as a Url; stopped afterwards. `variables` go over those of this process."""
    process = subprocess.Popen(
        [os.environ["TIDELAKE_BIN"], "serve", "--store", store, "--listen", "127.0.0.1:0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        env={**os.environ, **(variables or {})},
        text=True,
    )
    try:
        lines = (line.split("HTTP        http://") for line in process.stdout)
        address = next((parts[1].split()[0] for parts in lines if len(parts) == 2), None)
        if address is None:
            raise RuntimeError(f"tidelake serve ended with status {process.wait()} before it served {store}")
        # Drain the output, so that the server never blocks on a full pipe.
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield Url(f"http://{address}", f"http://{address}")
    finally:
        process.kill()
        process.wait()
