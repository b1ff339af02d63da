"""A worker's server: a program that answers /health and the OpenAI API, at ports it is given."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from nearkv.cluster.processes import Process, free_ports
from nearkv.membership import Member

_PORTS = ("{port}", "{events_port}", "{replay_port}")


@dataclasses.dataclass(frozen=True)
class ServerSpec:
    """How a server is started, wherever that is. It can be pickled."""

    name: str
    role: str
    command: tuple[str, ...]
    """Words; {name}, {host}, {port}, {events_port} and {replay_port} in them are filled in."""
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Of its environment, beside those of its node."""
    scheme: str = ""
    block_tokens: int = 0
    pool_socket: str = ""
    pool: str = ""
    """Where it stores; {host} in it is filled in."""

    def mentions(self, place: str) -> bool:
        """Whether the command has a place such as {port}."""
        return any(place in word for word in self.command)


class Server:
    """One that runs. A context manager: it ends with the block, and with its starter."""

    def __init__(self, spec: ServerSpec, host: str, folder: Path) -> None:
        """Starts it, with a log in the folder. OSError if there is no such program."""
        ports = dict(zip(_PORTS, map(str, free_ports(len(_PORTS))), strict=True))
        filled = ports | {"{name}": spec.name, "{host}": host}
        self.url = f"http://{host}:{ports['{port}']}"
        self.member = Member(
            spec.name,
            self.url,
            role=spec.role,
            events=self._endpoint(spec, "{events_port}", host, ports),
            replay=self._endpoint(spec, "{replay_port}", host, ports),
            scheme=spec.scheme,
            block_tokens=spec.block_tokens,
            pool=_filled(spec.pool, {"{host}": host}),
            pool_socket=spec.pool_socket,
        )
        folder.mkdir(parents=True, exist_ok=True)
        command = [_filled(word, filled) for word in spec.command]
        self.process = Process(spec.name, command, folder, spec.variables)

    @staticmethod
    def _endpoint(spec: ServerSpec, place: str, host: str, ports: Mapping[str, str]) -> str:
        return f"tcp://{host}:{ports[place]}" if spec.mentions(place) else ""


def _filled(word: str, places: Mapping[str, str]) -> str:
    for place, text in places.items():
        word = word.replace(place, text)
    return word
