"""What the tests of samples share: what a run says and leaves behind, and runs that are killed."""

import csv
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "distributed" / "ranks"))
from job import Job


def command_of(program, defaults, options):
    """A program's command line: an option takes the place of its default."""
    given = {**defaults, **options}
    return [str(program), *(str(word) for name, value in given.items()
                            for word in (f"--{name.replace('_', '-')}",) + (() if value is True else (value,)))]


def result_of(result):
    return json.loads(result.stdout.splitlines()[-1].removeprefix("result: "))


def history(logdir):
    """What was logged, by column, without the time that it took."""
    with open(logdir / "history.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0] if name != "time"}


def last_checkpoint(logdir, steps):
    """The tensors of the checkpoint at the end of a run of so many steps, as bytes of each file."""
    files = list((logdir / "model" / f"checkpoint_{steps:010}").glob("*.safetensors"))
    assert files, f"{logdir} has no checkpoint of step {steps}"
    return {path.name: path.read_bytes() for path in files}


def kill_and_go_on(command, kills, seconds, generator):
    """Starts a job that goes on with its run, and kills all of its processes after up to so many seconds, until it has
    been killed so many times, or is over first. How often it was killed."""
    for killed in range(kills):
        job = Job(command)
        try:
            job.process.wait(generator.uniform(0.01, seconds))
        except subprocess.TimeoutExpired:
            job.kill()
            job.end()
            continue
        status = job.end()[0]
        if status != 0:
            raise AssertionError(f"exit status {status} after {killed} kills\n{job.output}")
        return killed
    return kills
