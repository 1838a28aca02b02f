"""The test cases of tensorboard_test.py, which runs this with a Python that has TensorBoard.

usage: read_events.py WRITE_EVENTS
"""

import io
import logging
import math
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import PIL.Image
from tensorboard.backend.event_processing import event_accumulator, event_file_loader, plugin_event_accumulator
from tensorboard.plugins.hparams import metadata as hparams_metadata
from tensorboard.util import tensor_util

write_events = None

EVERYTHING = {"scalars": 0, "tensors": 0}
STEPS = 20


def event_files(folder):
    return sorted(folder.glob("events.out.tfevents.*"))


def by_accumulator(folder):
    """A directory's content as EventAccumulator, which tbparse uses, reads it: tag -> [(step, value)]."""
    events = event_accumulator.EventAccumulator(str(folder), EVERYTHING)
    events.Reload()
    read = {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    for tag in events.Tags()["tensors"]:
        read[tag] = [(e.step, tensor_util.make_ndarray(e.tensor_proto).tolist()) for e in events.Tensors(tag)]
    return read


def by_page(folder):
    """The same, as TensorBoard's page shows it."""
    events = plugin_event_accumulator.EventAccumulator(str(folder), EVERYTHING)
    events.Reload()
    tags = events.Tags()["tensors"]
    return {tag: [(e.step, tensor_util.make_ndarray(e.tensor_proto).tolist()) for e in events.Tensors(tag)] for tag in tags}


def plugin_of(folder, tag):
    events = plugin_event_accumulator.EventAccumulator(str(folder), EVERYTHING)
    events.Reload()
    return events.SummaryMetadata(tag).plugin_data


def summaries(folder):
    """The (tag, step) of each value, in the order of the files."""
    found = []
    for path in event_files(folder):
        for event in event_file_loader.EventFileLoader(str(path)).Load():
            found += [(value.tag, event.step) for value in event.summary.value]
    return found


class Events(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def train(self, folder, kill_after=None):
        words = [write_events, "train", folder] + ([] if kill_after is None else [str(kill_after)])
        result = subprocess.run(words, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0 if kill_after is None else -signal.SIGKILL, result.stderr)
        return folder / "tensorboard"


class Kinds(Events):
    def setUp(self):
        super().setUp()
        subprocess.run([write_events, "kinds", self.dir], check=True)

    def test_scalars(self):
        read = by_accumulator(self.dir)
        self.assertEqual(read["train/loss"], [(0, 0.25), (1, math.inf), (2**40, -math.inf)])
        self.assertEqual(read["accuracy \u00e9"], [(0, 1.0)])
        self.assertEqual(plugin_of(self.dir, "train/loss").plugin_name, "scalars")

    def test_histograms(self):
        read = by_page(self.dir)
        ((step, rows),) = read["weights"]
        left, right, count = np.transpose(rows)
        self.assertEqual((step, len(rows), left[0], right[-1]), (2, 30, 0, 3))
        np.testing.assert_array_equal(left[1:], right[:-1])
        np.testing.assert_allclose(right - left, 0.1)
        expected = np.histogram([0, 1, 1, 2.5, 3], bins=30, range=(0, 3))[0]
        np.testing.assert_array_equal(count, expected)
        self.assertEqual(read["empty"], [(2, [[0.0] * 3] * 30)])
        self.assertEqual(read["overflow"], [(2, [[1.0, 1.0, 0.0]] * 29 + [[1.0, 1.0, 1.0]])])
        self.assertEqual(read["overflow/not_finite"], [(2, 2.0)])
        self.assertEqual(plugin_of(self.dir, "weights").plugin_name, "histograms")

    def test_images(self):
        read = by_page(self.dir)

        def pictures(tag):
            ((step, (width, height, *files)),) = read[tag]
            self.assertEqual(step, 3)
            images = [PIL.Image.open(io.BytesIO(file)) for file in files]
            self.assertEqual({image.format for image in images}, {"PNG"})
            self.assertEqual({image.size for image in images}, {(int(width), int(height))})
            return np.stack([np.asarray(image) for image in images])

        rgb = (7 * np.arange(2 * 2 * 3 * 3)).astype(np.uint8).reshape(2, 2, 3, 3)
        np.testing.assert_array_equal(pictures("rgb"), rgb)
        np.testing.assert_array_equal(pictures("grey"), [[[0, 128, 255], [0, 255, 0]]])
        np.testing.assert_array_equal(pictures("rgba"), [[[[1, 2, 3, 4]]]])
        self.assertEqual(plugin_of(self.dir, "rgb").plugin_name, "images")

    def test_texts(self):
        self.assertEqual(by_page(self.dir)["notes"], [(4, "# A *title*\n\n\u00e9".encode())])
        self.assertEqual(plugin_of(self.dir, "notes").plugin_name, "text")

    def test_hparams(self):
        content = plugin_of(self.dir, hparams_metadata.SESSION_START_INFO_TAG).content
        hparams = hparams_metadata.parse_session_start_info_plugin_data(content).hparams
        kinds = {name: (value.WhichOneof("kind"), getattr(value, value.WhichOneof("kind"))) for name, value in hparams.items()}
        self.assertEqual(
            kinds,
            {
                "learning_rate": ("number_value", 1e-3),
                "layers": ("number_value", 3.0),
                "nesterov": ("bool_value", True),
                "optimizer": ("string_value", "adamw"),
            },
        )


class Runs(Events):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.whole = Events.train(cls(), pathlib.Path(folder.name))
        cls.expected = by_accumulator(cls.whole)

    def test_a_loop_writes_what_it_was_asked_for(self):
        leaves = [f"{collection}/dense0/{leaf}" for collection in ("params", "grads") for leaf in ("kernel", "bias")]
        seldom = [*leaves, "outputs/picture", "outputs/spread"]
        self.assertEqual(set(self.expected), {"metrics/loss", "notes", hparams_metadata.SESSION_START_INFO_TAG, *seldom})
        self.assertEqual([step for step, _ in self.expected["metrics/loss"]], list(range(STEPS)))
        for tag in seldom:
            self.assertEqual([step for step, _ in self.expected[tag]], [0, 10], tag)
        self.assertEqual(self.expected["notes"], [(0, b"a *run*")])

    def assert_as_if_never_interrupted(self, folder):
        self.assertEqual(by_accumulator(folder), self.expected)
        self.assertEqual(by_page(folder), by_page(self.whole))
        self.assertEqual(sorted(summaries(folder)), sorted(summaries(self.whole)))

    def test_a_run_that_is_killed_and_resumed_leaves_no_step_twice(self):
        folder = self.dir / "killed"
        for step in (7, 12, 12, 17, 19):
            self.train(folder, step)
        self.assert_as_if_never_interrupted(self.train(folder))

    def test_the_page_of_a_run_that_begins_again_shows_no_step_twice(self):
        self.train(self.dir, 3)  # killed before its first checkpoint
        self.assertEqual(by_page(self.train(self.dir)), by_page(self.whole))

    def test_a_record_that_is_not_whole_costs_no_other(self):
        killed = self.train(self.dir / "killed", 12)
        (path,) = event_files(killed)
        content = path.read_bytes()
        begin = last = 0
        while begin < len(content):
            last = begin
            begin += 16 + struct.unpack_from("<Q", content, begin)[0]
        self.assertEqual(begin, len(content))  # all that was logged was in the file
        every = summaries(killed)
        self.assertEqual(every[-1], ("metrics/loss", 11))  # a step is logged after its callbacks
        for end in range(last, len(content)):
            path.write_bytes(content[:end])
            self.assertEqual(summaries(killed), every[:-1], f"{end - last} bytes of the last record")
        for end in range(last, len(content), 9):
            folder = self.dir / str(end)
            shutil.copytree(self.dir / "killed", folder)
            (folder / "tensorboard" / path.name).write_bytes(content[:end])
            self.assert_as_if_never_interrupted(self.train(folder))


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # TensorBoard logs what it drops
    write_events = sys.argv.pop(1)
    unittest.main()
