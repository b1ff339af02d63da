"""What a configuration may say of a NearKV store, wherever in vLLM's it stands."""

import dataclasses
import difflib
from collections.abc import Collection
from pathlib import Path
from typing import Any, Self

from vllm.v1.kv_offload.base import Locality

from nearkv.store import ObjectStore


@dataclasses.dataclass(frozen=True)
class StoreOptions:
    """The store, whose chunks these are, and what is told of them."""

    uri: str = ""
    """A store of this engine's own: "cpu:FILE?memory=64GiB", made if the file is not there."""
    socket: str = ""
    """Instead: that of a daemon (`nearkv serve`), which other engines may share."""
    tenant: int = 0
    """Whose objects they are: quotas are the tenant's."""
    salt: str = ""
    """Engines share chunks only with those of the same salt."""
    workers: int = 2
    """Threads that copy."""
    enable_kv_events: bool = False
    """Tell vLLM's KV events of chunks that come and go."""
    locality: str = "LOCAL"
    """What events say of the store: LOCAL or REMOTE."""

    @classmethod
    def parse(cls, settings: dict[str, Any], also: Collection[str] = ()) -> Self:
        """Options of a configuration, in which names of `also` are somebody else's.

        ValueError names what is wrong, and what may be meant.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            if name not in names and name not in also:
                near = difflib.get_close_matches(name, [*names, *also], 1)
                meant = f"; is {near[0]} meant?" if near else f"; there are {', '.join(names)}"
                raise ValueError(f"NearKV has no option '{name}'{meant}")
        options = cls(**{name: settings[name] for name in names if name in settings})
        if bool(options.uri) == bool(options.socket):
            raise ValueError("NearKV needs a uri or the socket of a daemon, and not both")
        if options.locality not in Locality.__members__:
            raise ValueError(f"locality is LOCAL or REMOTE, not '{options.locality}'")
        return options

    def open(self) -> ObjectStore:
        """The store; nearkv.core.Error says why there is none."""
        if self.socket:
            # vLLM's scheduler waits for nobody: while a daemon restarts, its chunks are misses.
            return ObjectStore.connect(self.socket, patience_s=0)
        path = Path(self.uri.partition(":")[2].partition("?")[0])
        is_new = path == Path() or not path.exists()
        opens = ObjectStore.create if is_new else ObjectStore.open
        return opens(self.uri, workers=self.workers)
