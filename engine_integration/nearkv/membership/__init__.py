"""Who serves: workers and pools register in etcd under a lease, and routers watch them.

etcd = EtcdClient(["http://127.0.0.1:2379"])
member = Member("a", "http://10.0.0.7:8000", role="decode", events="tcp://10.0.0.7:5557")
async with etcd, Registration(etcd, "chat", member):
    ...                                     # serve; it is listed until this ends
async for members in watch_members(etcd, "chat"):
    ...                                     # all of them, each time that one changes
"""

from nearkv.membership.etcd import EtcdClient, EtcdError
from nearkv.membership.member import ROLES, BadMember, Member, has_ports, read_member
from nearkv.membership.registration import Registration
from nearkv.membership.watch import Members, watch_members

__all__ = [
    "ROLES",
    "BadMember",
    "EtcdClient",
    "EtcdError",
    "Member",
    "Members",
    "Registration",
    "has_ports",
    "read_member",
    "watch_members",
]
