"""Keys of the firmware, and images signed with them: Monocypher's EdDSA.

sign.py key FILE                      makes a secret key, 32 bytes, where there is none
sign.py public FILE OUTPUT.c          its public key, as the loader has it
sign.py image FILE IMAGE --revision TEXT --output OUTPUT
"""

import argparse
import os
import struct
import sys
from pathlib import Path

import monocypher

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rtl" / "abi" / "gen"))
import nkv_abi

SECRET_BYTES = 32
REVISION_BYTES = 16


def make_key(file: Path) -> None:
    """Writes a new secret key, unless there is one."""
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(os.urandom(SECRET_BYTES))


def read_key(file: Path) -> bytes:
    """The secret key of a file; exits if it is none."""
    secret = file.read_bytes()
    if len(secret) != SECRET_BYTES:
        sys.exit(f"{file}: a key has {SECRET_BYTES} bytes, not {len(secret)}")
    return secret


def public_source(secret: bytes) -> str:
    """C source of the public key."""
    key = monocypher.compute_signing_public_key(secret)
    numbers = ", ".join(f"0x{byte:02x}" for byte in key)
    return (
        f'#include "firmware/boot/image.h"\n\nconst uint8_t image_public_key[32] = {{{numbers}}};\n'
    )


def sign(secret: bytes, image: bytes, revision: str) -> bytes:
    """The image behind its header."""
    name = revision.encode()
    if not 0 < len(name) <= REVISION_BYTES:
        sys.exit(f"a revision has 1 to {REVISION_BYTES} bytes: '{revision}'")
    offsets = nkv_abi.FIRMWARE_IMAGE.offsets
    header = struct.pack("<II", nkv_abi.IMAGE_MAGIC, len(image)) + name
    header = header.ljust(offsets["digest"], b"\0") + monocypher.blake2b(image)
    assert len(header) == offsets["signature"]
    return header + monocypher.signature_sign(secret, header) + image


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("key", "public", "image"):
        commands.add_parser(command).add_argument("key", type=Path)
    commands.choices["public"].add_argument("output", type=Path)
    commands.choices["image"].add_argument("image", type=Path)
    commands.choices["image"].add_argument("--revision", required=True)
    commands.choices["image"].add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.command == "key":
        make_key(arguments.key)
    elif arguments.command == "public":
        arguments.output.write_text(public_source(read_key(arguments.key)))
    else:
        image = arguments.image.read_bytes()
        arguments.output.write_bytes(sign(read_key(arguments.key), image, arguments.revision))


if __name__ == "__main__":
    main()
