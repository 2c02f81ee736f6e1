"""Expected rows, generated here or by the load test, never read back from a root."""

import datetime
import pathlib

#: Rows of one request or message.
ROWS = 20
#: Time of the first row of every series, in milliseconds since 1970.
FIRST_MS = 1_700_000_000_000
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def value(client, number):
    """The value of a client's row."""
    return (client * 1_000_003 + number) * 2_654_435_761 % (1 << 31)


def series(client, requests):
    """The rows of a client's requests: time in milliseconds by row."""
    return {
        (client, FIRST_MS + number): value(client, number)
        for request in requests
        for number in range(request * ROWS, (request + 1) * ROWS)
    }


def lines(measurement, client, request):
    """A request of that client, in line protocol with times in milliseconds."""
    numbers = range(request * ROWS, (request + 1) * ROWS)
    text = "\n".join(f"{measurement},client=c{client} v={value(client, n)}i {FIRST_MS + n}" for n in numbers)
    return text.encode()


def milliseconds(text):
    """A time in its JSON form."""
    passed = datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) - EPOCH
    return passed // datetime.timedelta(milliseconds=1)


def found(rows):
    """Rows of `select client, ts, v` for the checks."""
    return [((int(client.removeprefix("c")), milliseconds(time)), v) for client, time, v in rows]


def devices(directory):
    """The rows of the load test's text files, `devid devname devgroup ts temperature humidity`."""
    rows = {}
    for path in pathlib.Path(directory).glob("testdata*.csv"):
        for line in path.read_text().splitlines():
            device, _, _, time, temperature, humidity = line.split()
            rows[(int(device), int(time))] = (int(temperature), float(humidity))
    return rows


def found_devices(rows):
    """Rows of `select devid, ts, temperature, humidity` for the checks."""
    return [
        ((int(device), milliseconds(time)), (temperature, float(humidity))) for device, time, temperature, humidity in rows
    ]
