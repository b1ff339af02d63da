"""NIXL's plug-in NEARKV: memory to and from the objects of a store.

The plug-in is compiled on this machine, for the very release of NIXL that will load it; README.md
shows its use.
"""

import os
from pathlib import Path

from nearkv.nixl.build import build_plugin
from nearkv.nixl.compat import NixlError, stock_plugins

__all__ = ["NixlError", "add_plugin", "build_plugin"]


def add_plugin() -> Path:
    """Adds NEARKV to the plug-ins that agents find, beside those they have; gives its path.

    To be called before the process makes its first agent, for NIXL looks for plug-ins once. Builds
    what is not built yet, which takes half a minute. Sets NIXL_PLUGIN_DIR, for processes that are
    started from here too. Raises NixlError.
    """
    plugin = build_plugin()
    stock = Path(os.environ.get("NIXL_PLUGIN_DIR") or stock_plugins())
    added = stock / plugin.name
    if added.resolve() != plugin.resolve():
        added = _mirror(stock, plugin.parent) / plugin.name
        _link(plugin, added)
        os.environ["NIXL_PLUGIN_DIR"] = str(added.parent)
    return added


def _mirror(stock: Path, folder: Path) -> Path:
    """Links to a folder of plug-ins, and to the libraries that these look for from where they lie.

    A wheel's plug-ins look in the folder above, and in the folders of libraries beside that.
    """
    plugins = folder / stock.parent.name / stock.name
    for original in stock.iterdir():
        _link(original, plugins / original.name)
    for original in stock.parent.glob("*.so*"):
        _link(original, plugins.parent / original.name)
    for original in stock.parent.parent.glob("*.libs"):
        if original != stock.parent:
            _link(original, folder / original.name)
    return plugins


def _link(original: Path, link: Path) -> None:
    """A link, put in its place whole, whoever else does the same."""
    if link.is_symlink() and link.readlink() == original:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    unfinished = link.with_name(f"{link.name}.{os.getpid()}")
    unfinished.symlink_to(original)
    unfinished.replace(link)
