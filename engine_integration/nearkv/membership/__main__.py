"""Lists members, or registers one that does not itself: python -m nearkv.membership --help."""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import signal
import sys

from nearkv.console import printable, start_logging
from nearkv.membership.etcd import EtcdClient, EtcdError
from nearkv.membership.member import ROLES, BadMember, Member, read_member
from nearkv.membership.registration import Registration, members_prefix

_EPILOG = """\
examples:
  python -m nearkv.membership list chat --json
  python -m nearkv.membership register chat --name a --url http://10.0.0.7:8000 --role decode \\
      --events tcp://10.0.0.7:5557 --scheme vllm-sha256 --block-tokens 64
  python -m nearkv.membership register chat --name pool --role pool --events tcp://10.0.0.7:5567

`register` lists the member until it is told to end, and for --ttl-s more if it is killed: run it
beside what it stands for, as a sidecar or as a unit that is bound to the server's.

exit status: 0 done; 1 etcd does not answer; 2 wrong usage."""


def main(words: list[str] | None = None) -> int:
    """The exit status."""
    parser, options = _parse(words)
    start_logging()
    try:
        members_prefix(options.cluster)
        etcd = EtcdClient(options.etcd.split(","))
        if options.action == "list":
            return asyncio.run(_list(etcd, options))
        return asyncio.run(_register(etcd, options, _member_of(options)))
    except EtcdError as error:
        print(f"nearkv.membership: {printable(str(error))}", file=sys.stderr)
        return 1
    except ValueError as error:
        parser.error(str(error))


def _parse(words: list[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(
        prog="python -m nearkv.membership",
        description="Members of a cluster in etcd, whom routers with [discovery] send requests.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("cluster", help="its name")
    shared.add_argument(
        "--etcd",
        default="http://127.0.0.1:2379",
        metavar="URLS",
        help="endpoints, separated by commas (default: http://127.0.0.1:2379)",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|register")
    listing = actions.add_parser("list", parents=[shared], help="who is there")
    listing.add_argument("--json", action="store_true", help="one JSON object")
    register = actions.add_parser("register", parents=[shared], help="list one until this ends")
    register.add_argument("--ttl-s", type=int, default=10, help="how long a dead one is listed")
    for field in dataclasses.fields(Member):
        if field.name == "instance":
            continue
        register.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=field.type,
            required=field.name == "name",
            choices=ROLES if field.name == "role" else None,
            default=argparse.SUPPRESS,
        )
    return parser, parser.parse_args(words)


def _member_of(options: argparse.Namespace) -> Member:
    names = [field.name for field in dataclasses.fields(Member)]
    return Member(**{name: getattr(options, name) for name in names if hasattr(options, name)})


async def _list(etcd: EtcdClient, options: argparse.Namespace) -> int:
    prefix = members_prefix(options.cluster)
    async with etcd:
        entries, _ = await etcd.range(prefix)
    members: list[Member] = []
    ignored: dict[str, str] = {}
    for key, entry in sorted(entries.items()):
        name = key.removeprefix(prefix)
        try:
            members.append(read_member(name, entry.value))
        except BadMember as error:
            ignored[name] = str(error)
    if options.json:
        tables = [dataclasses.asdict(member) for member in members]
        print(json.dumps({"members": tables, "ignored": ignored}, indent=2))
        return 0
    for member in members:
        name, where = printable(member.name), printable(member.url or member.events)
        print(f"{name:20} {member.role:8} {where}")
    for name, reason in ignored.items():
        print(f"{printable(name):20} ignored: {printable(reason)}")
    return 0


async def _register(etcd: EtcdClient, options: argparse.Namespace, member: Member) -> int:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(etcd)
        await stack.enter_async_context(
            Registration(etcd, options.cluster, member, ttl_s=options.ttl_s)
        )
        await stopped.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
