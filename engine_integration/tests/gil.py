"""Whether a call of the extension lets other threads of Python run."""

import os
import sys
import threading
from collections.abc import Callable


def gives_it_away(call: Callable[[], object], most_calls: int) -> bool:
    """Whether another thread ran amid one of so many calls."""
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
        for _ in range(most_calls):
            os.write(writer, b"x")
            events.append("begin")
            call()
            events.append("end")
            if "begin other end" in " ".join(events[-4:]):
                return True
    finally:
        sys.setswitchinterval(interval)
        os.close(writer)
        thread.join()
        os.close(reader)
    return False
