"""What user code can see and touch. Every test is a hostile job in a real sandbox."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent

import pytest

from backend.worker import processes
from backend.worker.executors.base import Ended
from backend.worker.sandbox import bpf, bubblewrap, seccomp
from tests.worker.running import Heard, python, run, shell

TOKEN = "a-very-secret-token"


def py(code: str) -> str:
    return dedent(code)


def test_bubblewrap_works_here() -> None:
    assert bubblewrap.problem() is None


def test_without_bubblewrap_the_problem_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'no permission' >&2; exit 1\n")
    broken.chmod(0o755)
    said = bubblewrap.problem(str(broken))
    assert said is not None
    assert "no permission" in said


def test_the_workers_variables_and_command_line_are_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRISTMILL_WORKER_TOKEN", TOKEN)
    ended, heard = run(
        tmp_path,
        shell("cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; env; echo end of list"),
    )
    assert ended.exit_code == 0
    assert "end of list" in heard.text()
    assert TOKEN not in heard.text()
    assert "GRISTMILL" not in heard.text()
    assert str(tmp_path) not in heard.text()


def test_only_the_jobs_own_processes_are_seen(tmp_path: Path) -> None:
    _, heard = run(tmp_path, shell("ls -d /proc/[0-9]* | wc -l; ls /proc/self/fd; whoami 2>&1"))
    assert int(heard.text().splitlines()[0]) <= 5


def test_other_jobs_the_worker_and_homes_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "work/other").mkdir(parents=True)
    (tmp_path / "work/other/secret").write_text(TOKEN)
    places = [tmp_path, "/root", "/home", "/etc/shadow", "/etc/passwd", "/var", "/sys", "/run"]
    _, heard = run(
        tmp_path, shell(f"for p in {' '.join(map(str, places))}; do ls $p && echo SEEN; done")
    )
    assert "SEEN" not in heard.text()


def test_a_bind_that_leads_to_the_workers_own_files_shows_them_empty(tmp_path: Path) -> None:
    secret, token = tmp_path / "env/work", tmp_path / "env/token"
    secret.mkdir(parents=True)
    (secret / "x").write_text(TOKEN)
    token.write_text(TOKEN)
    made = shell(f"cat {secret}/x {token}; touch {secret}/y || echo REFUSED; ls {tmp_path}/env")
    made = type(made)(**{**_fields(made), "binds": (str(tmp_path / "env"),)})
    _, heard = run(tmp_path, made, hidden=[secret, token])
    assert TOKEN not in heard.text()
    assert "REFUSED" in heard.text()
    assert "token" in heard.text()


def _fields(made: object) -> dict[str, object]:
    return {name: getattr(made, name) for name in made.__slots__}  # type: ignore[attr-defined]


def test_there_is_no_network_not_even_the_hosts_own_loopback(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = py(f"""
            import socket
            for address in (("127.0.0.1", {port}), ("192.0.2.1", 80)):
                try:
                    socket.create_connection(address, 3); print("CONNECTED")
                except OSError as error:
                    print("refused", error)
            for family in (40, 16, 17, 38):  # vsock, netlink, packet, alg
                try:
                    socket.socket(family, socket.SOCK_DGRAM); print("CONNECTED", family)
                except OSError as error:
                    print("refused", error)
        """)
        _, heard = run(tmp_path, python(code))
    assert "CONNECTED" not in heard.text()
    assert len([line for line in heard.text().splitlines() if line.startswith("refused")]) == 6


def test_nothing_outside_can_be_written(tmp_path: Path) -> None:
    places = ["/usr/x", "/x", "/dev/x", "/etc/x", "/proc/sys/kernel/hostname", "/job/algorithm/x",
              "/job/inputs/x", "/job/job.json", "/job/libraries/x", "/job/data/x",
              "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"]  # fmt: skip
    script = f"for p in {' '.join(places)}; do echo x >$p && echo WROTE $p; done; echo x >/tmp/x"
    script += " && echo x >/job/outputs/x && echo allowed"
    ended, heard = run(tmp_path, shell(script))
    assert ended.exit_code == 0
    assert "WROTE" not in heard.text()
    assert "allowed" in heard.text("stdout")


def test_inputs_cannot_be_changed_whether_linked_or_bound(tmp_path: Path) -> None:
    source = tmp_path / "stored"
    source.write_text("data")
    other = Path("/dev/shm") / f"gristmill-test-{os.getpid()}"  # another file system: bound
    other.write_text("data")
    script = (
        "cat /job/inputs/0; for c in 'echo x >/job/inputs/0' 'rm /job/inputs/0' "
        "'chmod 777 /job/inputs/0' 'mv /job/inputs /job/moved'; "
        'do sh -c "$c" && echo CHANGED; done'
    )
    for file in (source, other):
        _, heard = run(tmp_path / f"of-{file.name}", shell(script), inputs=((file, "inputs/0"),))
        assert "data" in heard.text("stdout")
        assert "CHANGED" not in heard.text()
        assert file.read_text() == "data"
    other.unlink()


def test_a_nested_user_namespace_is_refused_by_the_kernel_and_by_the_filter(tmp_path: Path) -> None:
    code = py("""
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        for name, flag in dict(user=0x10000000, mount=0x20000, pid=0x20000000).items():
            print(name, libc.unshare(flag), os.strerror(ctypes.get_errno()))
        print("clone", libc.syscall(56, 0x10000011, 0, 0, 0, 0), os.strerror(ctypes.get_errno()))
        print("clone3", libc.syscall(435, 0, 0), os.strerror(ctypes.get_errno()))
        print("mount", libc.mount(b"x", b"/tmp", b"tmpfs", 0, None))
        print("ptrace", libc.ptrace(16, 1, 0, 0))
        print(open("/proc/self/status").read())
    """)
    _, heard = run(tmp_path, python(code))
    said = heard.text("stdout")
    for name in ("user", "mount", "pid", "clone"):
        assert f"{name} -1 Operation not permitted" in said
    assert "clone3 -1 Function not implemented" in said
    assert "mount -1" in said
    assert "ptrace -1" in said
    assert "CapEff:\t0000000000000000" in said
    assert "NoNewPrivs:\t1" in said
    assert "Seccomp:\t2" in said
    # without the filter the kernel's own setting must hold as well
    trial = subprocess.run(
        [
            "bwrap",
            "--unshare-user",
            "--disable-userns",
            "--ro-bind",
            "/",
            "/",
            "unshare",
            "-U",
            "true",
        ],
        capture_output=True,
        check=False,
    )
    assert trial.returncode != 0


def test_memory_that_no_process_seems_to_hold_is_refused(tmp_path: Path) -> None:
    code = py("""
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            os.memfd_create("x"); print("MADE")
        except OSError as error:
            print(error)
        print("shm", libc.shmget(0, 4096, 0o1600))
    """)
    _, heard = run(tmp_path, python(code))
    assert "MADE" not in heard.text()
    assert "shm -1" in heard.text()


def test_it_works_for_an_ordinary_user_as_well(tmp_path: Path) -> None:
    """A process that gives up root first runs a job: the script imports, then changes its user."""
    work = Path("/var/tmp") / f"gristmill-nobody-{os.getpid()}"
    work.mkdir()
    os.chown(work, 65534, 65534)
    code = py(f"""
        import os, resource, sys
        sys.path.insert(0, {str(Path.cwd())!r})
        from pathlib import Path
        from tests.worker.running import run, shell
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        ended, heard = run(Path({str(work)!r}), shell(
            "id -u; ls /root; unshare -U true; echo x >/job/outputs/x; ls /proc/[0-9]* -d | wc -l"))
        assert ended.exit_code == 0, (ended, heard.text())
        print(heard.text())
    """)
    if os.geteuid() != 0:
        code = code.replace("os.setgroups([]); os.setgid(65534); os.setuid(65534)", "")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    subprocess.run(["rm", "-rf", str(work)], check=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(("1000\n", "ls:", "unshare:"))
    assert "1000" in done.stdout


# ---- the filter -----------------------------------------------------------------------------


def interpret(program: list[bpf.Instruction], number: int, audit: int, argument: int = 0) -> int:
    """Run a filter as the kernel does, on one system call."""
    memory = {bpf.NUMBER: number, bpf.ARCHITECTURE: audit, bpf.argument(0): argument & 0xFFFFFFFF}
    accumulator, place = 0, 0
    compare = {
        bpf.JUMP_EQUAL: lambda a, k: a == k,
        bpf.JUMP_AT_LEAST: lambda a, k: a >= k,
        bpf.JUMP_ANY_BIT: lambda a, k: bool(a & k),
    }
    while True:
        step = program[place]
        place += 1
        if step.code == bpf.LOAD:
            accumulator = memory[step.k]
        elif step.code == bpf.RETURN:
            return step.k
        else:
            place += step.if_true if compare[step.code](accumulator, step.k) else step.if_false


@pytest.mark.parametrize("machine", list(seccomp.ARCHITECTURES))
def test_the_filter_refuses_what_it_lists_and_nothing_else(machine: str) -> None:
    column, audit = seccomp.ARCHITECTURES[machine]
    program = seccomp.program(machine)
    assert len(seccomp.filter_for(machine)) == 8 * len(program)
    refused = {n[column] for n in seccomp.REFUSED.values() if n[column] is not None}
    refused.add(seccomp.CLONE3[column])
    sockets = seccomp.SOCKET[column]
    for number in range(600):
        answer = interpret(program, number, audit, argument=1)
        assert (answer != bpf.ALLOW) == (number in refused), number
    assert interpret(program, sockets, audit, 40) == bpf.ERROR | 97
    assert interpret(program, sockets, audit, 2) == bpf.ALLOW
    clone = seccomp.CLONE[column]
    assert interpret(program, clone, audit, 0x10000000) == bpf.ERROR | 1
    assert interpret(program, clone, audit, 0x3D0F00) == bpf.ALLOW  # what threads are made with
    assert interpret(program, 0, 0x40000003) == bpf.KILL  # 32-bit calls have other numbers


def test_the_second_set_of_numbers_on_x86_64_is_refused() -> None:
    program = seccomp.program("x86_64")
    assert interpret(program, 0x40000000 + 1, 0xC000003E) == bpf.ERROR | 1


def test_an_unknown_architecture_is_named() -> None:
    with pytest.raises(seccomp.NoFilter, match="no system call filter for sparc"):
        seccomp.filter_for("sparc")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are this machine's")
def test_the_numbers_are_those_of_the_kernels_headers() -> None:
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    lines = header.read_text().splitlines() if header.exists() else []
    known = {line.split()[1]: int(line.split()[2]) for line in lines if "__NR_" in line}
    for name, (number, _) in seccomp.REFUSED.items():
        assert known.get(f"__NR_{name}", number) == number


def test_threads_and_subprocesses_work_inside(tmp_path: Path) -> None:
    code = py("""
        import concurrent.futures, multiprocessing, subprocess, threading
        print(subprocess.run(["echo", "child"], capture_output=True, text=True).stdout)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            print(sum(pool.map(abs, range(10))))
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(pool.map(abs, [-1, -2]))
    """)
    ended, heard = run(tmp_path, python(code))
    assert ended.exit_code == 0, heard.text()
    assert "child" in heard.text()
    assert "45" in heard.text()
    assert "[1, 2]" in heard.text()


def test_nobody_is_left_when_a_job_ends(tmp_path: Path) -> None:
    """Sleepers that left the session, the process group and their parents."""
    before = _numbers()
    script = "for i in 1 2 3; do setsid sh -c 'sleep 4321 & sleep 4321' & done; sleep 0.2; echo ok"
    ended, heard = run(tmp_path, shell(script))
    assert ended.exit_code == 0
    assert "ok" in heard.text()
    assert not _sleepers(before)


def _numbers() -> set[str]:
    return {entry.name for entry in Path("/proc").iterdir()}


def _sleepers(before: set[str]) -> list[str]:
    found = []
    for entry in _numbers() - before:
        if entry.isdigit():
            try:
                text = Path(f"/proc/{entry}/cmdline").read_text()
            except OSError:
                continue
            if "4321" in text:
                found.append(text)
    return found


def test_without_a_sandbox_leftovers_are_found_by_their_mark(tmp_path: Path) -> None:
    before = _numbers()
    script = "for i in 1 2 3; do setsid sh -c 'sleep 4321 & sleep 4321' & done; sleep 0.2; echo ok"
    ended, heard = run(tmp_path, shell(script), bare=True)
    assert (ended.exit_code, heard.text("stdout")) == (0, "ok\n")
    assert not _sleepers(before)


def test_a_process_that_works_in_a_folder_is_found(tmp_path: Path) -> None:
    sleeper = subprocess.Popen(["sleep", "4321"], cwd=tmp_path)
    try:
        assert processes.working_in(tmp_path) == [sleeper.pid]
    finally:
        sleeper.kill()
        sleeper.wait()


def test_jobs_side_by_side_do_not_see_each_other(tmp_path: Path) -> None:
    ends: list[tuple[Ended, Heard]] = []

    def one(name: str) -> None:
        script = f"echo {name} >/tmp/mine; echo {name} >/job/outputs/o; sleep 0.3; cat /tmp/mine"
        ends.append(run(tmp_path / name, shell(script), attempt=name))

    threads = [threading.Thread(target=one, args=(name,)) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(heard.text() for _, heard in ends) == ["first\n", "second\n"]
