"""A job of several ranks as seen from outside: its output, how soon it ends, and what it leaves behind."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time
import uuid


def processes_with(marker):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            pass
    return found


class Job:
    def __init__(self, command, counts_from=None):
        """The time to its end is counted from the latest line that contains `counts_from`, or from its start."""
        self._counts_from = counts_from
        self._marker = f"GIRO_JOB={uuid.uuid4()}"
        name, value = self._marker.split("=")
        self.begin = time.monotonic()
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, env=dict(os.environ, **{name: value}),
                                        start_new_session=True)
        self._output = bytearray()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        while data := self.process.stdout.read1():
            begin = self._output.rfind(b"\n") + 1
            self._output += data
            if self._counts_from and self._counts_from.encode() in self._output[begin:]:
                self.begin = time.monotonic()

    @property
    def output(self):
        return self._output.decode(errors="replace")

    def wait_until(self, condition, seconds=60):
        """Waits until the condition holds, for at most `seconds` or until the job ends. Returns whether it holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or self.process.poll() is not None:
                return condition()
            time.sleep(0.005)
        return True

    def kill(self):
        """Kills all of its processes, as if the machine went down."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)
        for process in processes_with(self._marker):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), 9)

    def end(self, max_seconds=60):
        """Returns exit status, seconds and processes left behind. Kills the job after `max_seconds`."""
        try:
            status = self.process.wait(max(0.0, self.begin + max_seconds - time.monotonic()))
        except subprocess.TimeoutExpired:
            status = f"killed by the test after {max_seconds} s"
            self.kill()
        seconds = time.monotonic() - self.begin
        deadline = time.monotonic() + 5
        while (left := processes_with(self._marker)) and time.monotonic() < deadline:
            time.sleep(0.05)
        if left:
            self.kill()
        self._reader.join()
        self.process.stdout.close()
        return status, seconds, left


def run(command, counts_from=None):
    """Returns exit status, output, seconds and processes left behind."""
    job = Job(command, counts_from)
    status, seconds, left = job.end()
    return status, job.output, seconds, left


def copy_with_other_build_id(program, path):
    """Copies the program, with another build id."""
    shutil.copy(program, path)
    data = bytearray(path.read_bytes())
    note = re.search(rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", data)  # a build id of 20 bytes
    assert note, "the program has no build id"
    data[note.end()] ^= 1
    path.write_bytes(data)
