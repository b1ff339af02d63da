"""Stand-ins for modules that SGLang imports and does not call on the CPU: a gigabyte spared.

To import this one puts them where the others are looked for.
"""

import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any

ABSENT = ("triton", "torchvision")


class _Anything(type):
    """What an absent module has: decorators and types, at the import of what names them."""

    def __call__(cls, *things: Any, **named: Any) -> Any:
        return things[0] if len(things) == 1 and callable(things[0]) and not named else cls

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __getitem__(cls, item: Any) -> Any:
        return cls


class _Absent(types.ModuleType):
    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (), {})


class _AbsentModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.partition(".")[0] in ABSENT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


sys.meta_path.insert(0, _AbsentModules())
