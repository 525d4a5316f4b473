"""A small assembler for the kernel's classic BPF, as much of it as a seccomp filter needs.

Facts: linux/filter.h (`struct sock_filter`: code, jt, jf, k), linux/seccomp.h (`struct
seccomp_data`: nr at 0, arch at 4, six 64-bit arguments from 16), linux/bpf_common.h (codes).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

LOAD, AND, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY_BIT, RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE = 0, 4  #: offsets in seccomp_data
ALLOW, ERROR, KILL = 0x7FFF0000, 0x00050000, 0x80000000


@dataclass(frozen=True, slots=True)
class Instruction:
    """One `sock_filter`; jumps count instructions after this one."""

    code: int
    k: int
    if_true: int = 0
    if_false: int = 0

    def pack(self) -> bytes:
        """Return the eight bytes the kernel reads, in this machine's order."""
        return struct.pack("=HBBI", self.code, self.if_true, self.if_false, self.k)


def argument(index: int) -> int:
    """Return the offset of the low half of a system call's argument (little-endian machines)."""
    return 16 + 8 * index


def load(offset: int) -> Instruction:
    """Load 32 bits of seccomp_data."""
    return Instruction(LOAD, offset)


def answer(value: int) -> Instruction:
    """End with this answer."""
    return Instruction(RETURN, value)


def refuse(number: int) -> Instruction:
    """End with an error of the system call."""
    return answer(ERROR | number)


def unless(code: int, k: int, skip: int) -> Instruction:
    """Go on where the comparison holds, else skip instructions."""
    return Instruction(code, k, 0, skip)


def when(code: int, k: int, then: Instruction) -> list[Instruction]:
    """End with `then` where the comparison holds."""
    return [unless(code, k, 1), then]


def assemble(program: list[Instruction]) -> bytes:
    """Return the program as `bwrap --seccomp` reads it."""
    return b"".join(instruction.pack() for instruction in program)
