"""Python processes that start in a part of a second: forked from one that has imported torch.

`Python(["-m", "modtok_cli", "pretrain"], ...)` and `run_python` take the words after `python` and
the options of `subprocess.Popen` and `subprocess.run`. The processes are real: each has its own
memory, signals, streams and exit status. Only the imports, most of the time of a short command, are
those of the server. Tests of the start itself use `subprocess`.

`write_command` writes a command for shell scripts, which runs this module as a program.
"""

from __future__ import annotations

import array
import gc
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from contextlib import suppress
from pathlib import Path

SOCKET = "TEST_FORKS_SOCKET"
COVERAGE = "COVERAGE_PROCESS_START"
PRELOADED = (
    "numpy",
    "tokenizers",
    "torch",
    "transformers.models.llama.modeling_llama",
    "modtok_cli.training.loop",
    "modtok_cli.model.generate.generate",
    "modtok_cli.corpus.build",
    "scipy.stats",
    "datatrove.executor.local",
)


class Python:
    """A process; `words` are those after `python`: `-m MODULE …`, `-c CODE …`, `-` or `FILE …`."""

    def __init__(
        self,
        words,
        *,
        cwd=None,
        env=None,
        stdin=None,
        stdout=None,
        stderr=None,
        text=False,
        start_new_session=False,
    ):
        self.args = [sys.executable, *map(str, words)]
        self.returncode = None
        self._text = text
        self._ends = []
        streams = [self._stream(n, given) for n, given in enumerate((stdin, stdout, stderr))]
        self.stdin, self.stdout, self.stderr = (ours for _, ours in streams)
        self._server = _connect(server())
        request = {
            "words": [str(word) for word in words],
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
            "session": start_new_session,
        }
        _send(self._server, request, [theirs for theirs, _ in streams])
        for end in self._ends:
            os.close(end)
        self.pid = int(_line(self._server))

    def _stream(self, number, given):
        """The child's end of a stream as a descriptor, and ours as a file or None."""
        if given is None:
            return number, None
        if given == subprocess.DEVNULL:
            end = os.open(os.devnull, os.O_RDWR)
            self._ends.append(end)
            return end, None
        if given == subprocess.PIPE:
            reading, writing = os.pipe()
            theirs, ours = (reading, writing) if number == 0 else (writing, reading)
            self._ends.append(theirs)
            mode = "w" if number == 0 else "r"
            return theirs, os.fdopen(ours, mode if self._text else mode + "b")
        return (given if isinstance(given, int) else given.fileno()), None

    def poll(self):
        """Exit status, negative for a signal; None while the process runs."""
        if self.returncode is None and select.select([self._server], [], [], 0)[0]:
            self.returncode = int(_line(self._server) or -signal.SIGKILL)
        return self.returncode

    def wait(self, timeout=None):
        """Exit status, once there is one."""
        if self.returncode is None:
            if not select.select([self._server], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.poll()
        return self.returncode

    def communicate(self, input=None, timeout=None):
        """Send input, read standard output and error to their ends, wait."""
        found = {}

        def read(name, stream):
            found[name] = stream.read()
            stream.close()

        named = (("out", self.stdout), ("err", self.stderr))
        readers = [threading.Thread(target=read, args=pair) for pair in named if pair[1]]
        for reader in readers:
            reader.start()
        if self.stdin:
            try:
                self.stdin.write(input or ("" if self._text else b""))
                self.stdin.close()
            except BrokenPipeError:
                pass
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return found.get("out"), found.get("err")

    def send_signal(self, number):
        """Send a signal, unless the process has ended."""
        with suppress(ProcessLookupError):  # its end is known to others first
            if self.poll() is None:
                os.kill(self.pid, number)

    def kill(self):
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wait()


def run_python(words, *, input=None, capture_output=False, timeout=600, check=False, **options):
    """As `subprocess.run` with `words` after `python`."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = Python(words, **options)
    try:
        out, err = process.communicate(input, timeout)
    except BaseException:
        process.kill()
        raise
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def write_command(path, words="", of=None):
    """Write a command `path` for shell scripts: `python WORDS …`, by the server `of`."""
    line = f'exec "{sys.executable}" -S -E "{__file__}" {words} "$@"'
    path.write_text(f'#!/bin/sh\nexport {SOCKET}="{of or server()}"\n{line}\n')
    path.chmod(0o755)


def executable():
    """A command that stands for `sys.executable`.

    Its process is a client: it passes SIGINT and SIGTERM on, and the real process is killed
    where the client is.
    """
    return str(Path(server()).parent / "python")


def _connect(path):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


def _line(connection):
    """Bytes up to a line break, b"" at the end of the stream."""
    found = b""
    while not found.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte:
            return b""
        found += byte
    return found


def _send(connection, request, descriptors):
    data = json.dumps(request).encode()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    connection.sendmsg([b"%12d" % len(data)], rights)
    connection.sendall(data)


def _receive(connection):
    found, rights, _, _ = connection.recvmsg(12, socket.CMSG_SPACE(3 * 4))
    if len(found) < 12:
        return None, []
    descriptors = array.array("i", rights[0][2])
    size, data = int(found), b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:  # the client is gone
            return None, []
        data += piece
    return json.loads(data), list(descriptors)


_started = []


def start_server(*more):
    """Start a server for this process and its children; it ends when this process does.

    `more`: modules that it imports beside `PRELOADED`.
    """
    # Not in TMPDIR: the path of a socket has a hundred bytes.
    path = str(Path(tempfile.mkdtemp(prefix="forks-", dir="/tmp"), "socket"))
    command = [sys.executable, "-m", "helpers.python_processes", "--serve", path, *more]
    # Coverage measures the forked processes, not the server.
    env = {name: os.environ[name] for name in os.environ if name != COVERAGE}
    # The server reads its input to the end, which comes when this process ends.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=env)
    _started.append(process)
    os.environ[SOCKET] = path


def server():
    """Return the socket of the server once it listens; start one if there is none."""
    if SOCKET not in os.environ:
        start_server()
    path = os.environ[SOCKET]
    while not Path(path).exists():
        assert Path(path).parent.exists(), "the server of processes has failed"
        time.sleep(0.05)
    return path


def serve(path, *more):
    """Fork a process for every connection until standard input ends."""
    own = os.getpid()
    try:
        accept(path, *more)
    finally:
        if os.getpid() == own:
            shutil.rmtree(Path(path).parent)


def accept(path, *more):
    """Import, then listen and fork."""
    from modtok_cli.cli import commands

    every = (f"{commands.__name__}.{each.name}" for each in pkgutil.iter_modules(commands.__path__))
    for name in (*PRELOADED, "modtok_cli.cli.main", *every, *more):
        try:
            __import__(name)
        except ImportError:  # an extra that is not installed
            continue
    try:
        from modtok_cli.training.distributed.megatron_core import core

        core()
    except Exception:  # without Megatron
        pass
    os.fsync = lambda _: None  # see conftest
    gc.collect()
    gc.freeze()  # collections of the processes leave out what they share
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for the watchers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path.pop(0)
    write_command(command := Path(path).parent / "python", of=path)
    sys.executable = str(command)  # ranks of a forked command are forked too
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{path}-")
        listening.listen(64)
        Path(f"{path}-").rename(path)  # it is found once it listens
        while True:
            ready, _, _ = select.select([listening, 0], [], [])
            if 0 in ready:
                break
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                watch(connection)
            connection.close()


def watch(connection):
    """Fork the process and send its id, then its exit status; forward signals that come in."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, descriptors = _receive(connection)
    if request is None:
        os._exit(0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until there is a handler
    child = os.fork()
    if child == 0:
        connection.close()
        become(request, descriptors)
    for each in {0, 1, 2, *descriptors}:
        os.close(each)
    handle = os.pidfd_open(child)
    # Whoever knows its number may signal its group.
    while request["session"] and os.getsid(child) != child:
        if select.select([handle], [], [], 0.001)[0]:
            break
    try:
        connection.sendall(b"%d\n" % child)
        open_end = [connection]
        while True:
            ready, _, _ = select.select([handle, *open_end], [], [])
            if handle in ready:
                break
            number = connection.recv(1)
            if not number:  # the client is gone
                break
            os.kill(child, number[0])
        if not select.select([handle], [], [], 0)[0]:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    except OSError:
        os.kill(child, signal.SIGKILL)
    os._exit(0)


def become(request, descriptors):
    """Run the words of a request as `python` would; never returns."""
    import multiprocessing
    import runpy
    import traceback

    status = 1
    try:
        if request["session"]:
            os.setsid()
        for number, each in enumerate(map(os.dup, descriptors)):
            os.dup2(each, number)
        os.closerange(3, 256)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        if COVERAGE in os.environ:
            import coverage

            coverage.process_startup(force=True)
        tempfile.tempdir = None
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests under nohup
        multiprocessing.process.current_process()._config.pop("tempdir", None)
        first, *rest = [word for word in request["words"] if word != "-I"]
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            if first == "-m":
                sys.argv = rest
                runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
            elif first in ("-c", "-"):
                code = sys.stdin.read() if first == "-" else rest.pop(0)
                sys.argv = [first, *rest]
                sys.modules["__main__"] = main = types.ModuleType("__main__")
                exec(compile(code, "<string>", "exec"), main.__dict__)
            else:
                sys.argv = [first, *rest]
                runpy.run_path(first, run_name="__main__")
            status = 0
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
            if isinstance(error.code, str):
                print(error.code, file=sys.stderr)
        except KeyboardInterrupt:
            traceback.print_exc()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        except BaseException:
            traceback.print_exc()
    finally:
        leave(status)


def leave(status):
    """End as the interpreter does: threads, exit handlers, buffers."""
    import atexit

    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        status = status or 120
    finally:
        os._exit(status)


def client(words):
    """Run `words` by the server with this process's streams; signals are passed on."""
    passed = (signal.SIGINT, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, passed)  # what comes before there is a handler waits
    connection = _connect(os.environ[SOCKET])
    request = {"words": words, "cwd": str(Path.cwd()), "env": dict(os.environ), "session": False}
    _send(connection, request, [0, 1, 2])
    assert _line(connection)

    def pass_on(number, _):
        with suppress(OSError):  # the process has ended
            connection.sendall(bytes([number]))

    for number in passed:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, passed)
    status = int(_line(connection))
    if status < 0:
        if -status in passed:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
        time.sleep(10)
    return status


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:])
    else:
        sys.exit(client(sys.argv[1:]))
