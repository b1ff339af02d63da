"""Whether a call of the extension lets other threads of Python run."""

import os
import sys
import threading
import time
from collections.abc import Callable

_MOST_S = 30  # While others have the cores, none may be left for the other thread for long.


def gives_it_away(call: Callable[[], object]) -> bool:
    """Whether another thread ran amid a call, of as many as it takes or there is time for."""
    events: list[str] = []
    reader, writer = os.pipe()

    def note() -> None:
        while os.read(reader, 1) == b"x":
            events.append("other")

    thread = threading.Thread(target=note)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # Now a thread loses the GIL only by giving it away.
    try:
        end = time.monotonic() + _MOST_S
        while time.monotonic() < end:
            os.write(writer, b"x")
            events.append("begin")
            call()
            events.append("end")
            if "begin other end" in " ".join(events[-4:]):
                return True
            del events[:-4]
    finally:
        sys.setswitchinterval(interval)
        os.close(writer)
        thread.join()
        os.close(reader)
    return False
