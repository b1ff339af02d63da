"""What UCX itself moves on this machine: ucx_perftest between two processes."""

import shutil
import socket
import subprocess
import time

_MB = 1 << 20  # as ucx_perftest counts


def am_bandwidth(message_bytes: int, messages: int, transports: str) -> float | None:
    """Bytes per second of active messages of one size, one way; None without ucx_perftest.

    Their memory is the same for all messages, so caches hold it, unlike a store's.
    """
    if shutil.which("ucx_perftest") is None:
        return None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = ["-t", "ucp_am_bw", "-s", str(message_bytes), "-n", str(messages), "-p", port, "-f"]
    environment = {"UCX_TLS": transports, "PATH": "/usr/bin:/bin"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    with subprocess.Popen(["ucx_perftest", *common], **quiet) as server:
        try:
            for _ in range(50):
                time.sleep(0.1)
                client = subprocess.run(
                    ["ucx_perftest", "127.0.0.1", *common],
                    capture_output=True,
                    text=True,
                    env=environment,
                    timeout=120,
                )
                if client.returncode == 0:
                    # iterations, three overheads, bandwidth average and overall, two message rates
                    return float(client.stdout.split()[-3]) * _MB
            return None
        finally:
            server.kill()
