"""The system calls that user code may not make, as a filter for x86_64 and aarch64.

What is refused: new namespaces and mounts (also against a nested user namespace, by which plain
bubblewrap hands back all capabilities), looking into other processes, kernel keys and modules,
io_uring (it goes past filters), memory that no process seems to hold (memfd, System V), and
sockets of families that network namespaces do not confine (vsock reaches the host).
Numbers: the kernel's asm/unistd_64.h and asm-generic/unistd.h.
"""

from __future__ import annotations

import errno
import platform

from backend.worker.sandbox import bpf

#: name -> (number on x86_64, number on aarch64)
REFUSED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clock_adjtime": (305, 266),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "shmget": (29, 194),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
    "chroot": (161, 51),
    "settimeofday": (164, 170),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
}
CLONE, CLONE3, SOCKET = (56, 220), (435, 435), (41, 198)
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  #: linux/audit.h
X32_BIT = 0x40000000  #: a second set of numbers for the same calls on x86_64
NAMESPACES = 0x7E020080  #: the CLONE_NEW… flags of linux/sched.h, all of them
FAMILIES = (1, 2, 10)  #: AF_UNIX, AF_INET, AF_INET6


class NoFilter(Exception):
    """There is no system call filter for this machine's architecture."""


def filter_for(machine: str = platform.machine()) -> bytes:
    """Return the filter for an architecture. Raises NoFilter for one that is not known here."""
    if machine not in ARCHITECTURES:
        raise NoFilter(f"no system call filter for {machine}; known: {', '.join(ARCHITECTURES)}")
    return bpf.assemble(program(machine))


def program(machine: str) -> list[bpf.Instruction]:
    """Return the filter's instructions."""
    column, audit = ARCHITECTURES[machine]
    no_permission = bpf.refuse(errno.EPERM)
    code = [
        bpf.load(bpf.ARCHITECTURE),
        bpf.Instruction(bpf.JUMP_EQUAL, audit, 1, 0),
        bpf.answer(bpf.KILL),
        bpf.load(bpf.NUMBER),
    ]
    if machine == "x86_64":
        code += bpf.when(bpf.JUMP_AT_LEAST, X32_BIT, no_permission)
    for numbers in REFUSED.values():
        number = numbers[column]
        if number is not None:
            code += bpf.when(bpf.JUMP_EQUAL, number, no_permission)
    # its flags lie in memory, where a filter cannot look; libc then uses clone
    code += bpf.when(bpf.JUMP_EQUAL, CLONE3[column], bpf.refuse(errno.ENOSYS))
    code += _clone(CLONE[column])
    code += _socket(SOCKET[column])
    return [*code, bpf.answer(bpf.ALLOW)]


def _clone(number: int) -> list[bpf.Instruction]:
    return [
        bpf.unless(bpf.JUMP_EQUAL, number, 4),
        bpf.load(bpf.argument(0)),
        *bpf.when(bpf.JUMP_ANY_BIT, NAMESPACES, bpf.refuse(errno.EPERM)),
        bpf.answer(bpf.ALLOW),
    ]


def _socket(number: int) -> list[bpf.Instruction]:
    families: list[bpf.Instruction] = []
    for family in FAMILIES:
        families += bpf.when(bpf.JUMP_EQUAL, family, bpf.answer(bpf.ALLOW))
    return [
        bpf.unless(bpf.JUMP_EQUAL, number, len(families) + 2),
        bpf.load(bpf.argument(0)),
        *families,
        bpf.refuse(errno.EAFNOSUPPORT),
    ]
