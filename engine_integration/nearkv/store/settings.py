"""What a user of an engine may say about the store behind it, checked once for all adapters."""

import dataclasses
import difflib
from collections.abc import Collection, Iterable
from typing import Any, Self

from nearkv.store.object_store import ObjectStore

__all__ = ["StoreSettings", "refuse_unknown"]


def refuse_unknown(
    whose: str, given: Iterable[str], known: Collection[str], others: Collection[str] = ()
) -> None:
    """ValueError for the first name that is not known, nor one of others', with what it may be."""
    for name in given:
        if name not in known and name not in others:
            near = difflib.get_close_matches(name, [*known, *others], 1)
            meant = f"; is {near[0]} meant?" if near else f"; there are {', '.join(known)}"
            raise ValueError(f"{whose} has no option '{name}'{meant}")


@dataclasses.dataclass
class StoreSettings:
    """Which store, and as whom; adapters add what is theirs."""

    uri: str = ""
    """A store of this process's own: "cpu:FILE?memory=64GiB", made if the file is not there."""
    socket: str = ""
    """Instead: that of a daemon (`nearkv serve`), which other engines may share."""
    tenant: int = 0
    """Whose objects they are: quotas are the tenant's."""
    salt: str = ""
    """Only engines of the same salt share objects."""
    model_version: str = ""
    """What tells these weights from others under the name; without it the model's files do."""
    workers: int = 2
    """Threads that copy, of a store of one's own."""

    @classmethod
    def parse(cls, whose: str, settings: dict[str, Any], others: Collection[str] = ()) -> Self:
        """Settings by their names; those of `others` are somebody else's, and left to them.

        ValueError names what is wrong, and what may be meant.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        refuse_unknown(whose, settings, names, others)
        parsed = cls(**{name: settings[name] for name in names if name in settings})
        if bool(parsed.uri) == bool(parsed.socket):
            raise ValueError(f"{whose} needs a uri or the socket of a daemon, and not both")
        return parsed

    def open(self) -> ObjectStore:
        """The store; nearkv.core.Error says why there is none.

        A daemon that restarts is not waited for: an engine can compute what it does not find.
        """
        if self.socket:
            return ObjectStore.connect(self.socket, patience_s=0)
        return ObjectStore.open_or_create(self.uri, workers=self.workers)
