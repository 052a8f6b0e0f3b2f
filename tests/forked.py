"""The program in a process of its own for little: forked from one that has imported what it imports.

Importing torch, and the compiler that its optimisers import, is most of what a short command takes. One process imports
them once; every `start` is a fork of that one, with words, folder, environment and streams of its own, which runs
`python -m attnres_cli` from its first line and is a child of whoever called. Tests of how the program itself starts
begin one from nothing (`tests.cli.starting`).
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PROGRAM = "import runpy; runpy.run_module('attnres_cli', run_name='__main__', alter_sys=True)"
IMPORTED = ("torch._inductor", "rich.console", "safetensors.torch", "attnres_cli.cli.train", "attnres_cli.train.loop")
SERVER = "import sys; from tests.forked import serve; serve(int(sys.argv[1]))"
MOST_BYTES = 1 << 20
PR_SET_CHILD_SUBREAPER = 36


def start(*words: str, program: str = PROGRAM, cwd: Path | None = None, **streams: Any) -> subprocess.Popen[Any]:
    """`attnres` with these words. program: Python that runs instead. streams: further arguments of `Popen`.

    Not forked where libraries start threads as soon as they are imported: a fork has none of them.
    """
    one_thread = os.environ.get("OMP_NUM_THREADS") == "1"
    kind = _Forked if sys.platform == "linux" and one_thread else subprocess.Popen
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return kind([sys.executable, "-c", program, *words], cwd=cwd or Path.cwd(), env=environment, **streams)


class _Forked(subprocess.Popen[Any]):
    """A `Popen` of `python -c PROGRAM WORDS` that only begins differently."""

    def __exit__(self, kind: Any, *rest: Any) -> None:
        """A test that fails, or has waited long enough, does not wait for the end."""
        if kind is not None:
            self.kill()
        super().__exit__(kind, *rest)

    def _execute_child(self, args: list[str], *rest: Any) -> None:
        _, preexec, close, passed, cwd, env, _, _, shell, *ends = rest
        assert (preexec, close, tuple(passed), shell) == (None, True, (), False), "a fork has no such settings"
        read, _, _, written, _, said = ends[:6]
        request = json.dumps({"program": args[2], "words": args[3:], "cwd": str(cwd), "environment": env}).encode()
        assert len(request) < MOST_BYTES
        streams = [end if end != -1 else own for own, end in enumerate((read, written, said))]
        server = _server()
        _adopt_orphans(True)
        try:
            socket.send_fds(server, [request], streams)
            self.pid = int(server.recv(64) or 0)
            assert self.pid, "nothing was forked; what the process that forks said stands above"
        finally:
            _adopt_orphans(False)
        self._child_created = True
        self._close_pipe_fds(*ends[:6])  # type: ignore[attr-defined]


def _adopt_orphans(adopts: bool) -> None:
    """Whether a process whose parent ends, and which this one or a child of this one began, becomes its child."""
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0) == 0


@functools.cache
def _server() -> socket.socket:
    """The other end of the process that forks; it lives as long as this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(theirs.fileno())],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()

    def end() -> None:
        ours.shutdown(socket.SHUT_RDWR)  # also where another process has a copy of it
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def serve(number: int) -> None:
    """Fork one process per request until nobody can ask any more. number: of the file descriptor of the socket."""
    for name in IMPORTED:
        importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "a fork has none of the threads of the process it is made from"
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=number) as asked:
        while True:
            request, streams, _, _ = socket.recv_fds(asked, MOST_BYTES, 3)
            if not request:
                os._exit(0)
            # The one between forks, says the number of its child, and ends, whereupon the caller has that child.
            told, telling = os.pipe()
            between = os.fork()
            if not between:
                pid = os.fork()
                if not pid:
                    _become(json.loads(request), streams)
                os.write(telling, str(pid).encode())
                os._exit(0)
            os.close(telling)  # or, should the one between fail, there would be no end of waiting for it
            os.waitpid(between, 0)
            asked.send(os.read(told, 64) or b"0")
            for each in (told, *streams):
                os.close(each)


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """Be `python -c PROGRAM WORDS` from here on, to the exit code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for own, stream in enumerate(streams):
        os.dup2(stream, own)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["-c", *request["words"]]
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    code: object = 1
    try:
        exec(request["program"], {"__name__": "__main__"})
        code = 0
    except SystemExit as ending:
        code = ending.code or 0
    except BaseException:
        traceback.print_exc()
    # What Python does at the end, but for taking every module apart.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else 1)
