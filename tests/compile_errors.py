#!/usr/bin/env python3
"""Checks that the compiler refuses callbacks and steps that a loop cannot match, with one readable line.

usage: compile_errors.py COMPILER INCLUDE_FOLDER
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

PRELUDE = """
#include <functional>
#include <vector>
#include <giro/loop/elapse.h>
#include <giro/loop/loop.h>
#include <giro/loop/predefined_loops.h>
#include <giro/loop/step/managed.h>
#include <giro/kernels/nn/train_state.h>
struct Count {};
using Callback = giro::Callback<Count, int>;
"""

# Code, and how the message of its first failing static_assert begins; None: it compiles.
CASES = {
    "matched": ("Callback c([](Count&, const int&, const giro::Elapsed&, const giro::Logs&) {});", None),
    "periods of integers": (
        "void run(std::vector<int>& data, int steps) {"
        "  auto result = giro::loop(Count(), data, {}, {.stop = steps});"
        "  result = giro::loop(Count(), data, {}, {.stop = giro::at({.samples = 7})});"
        "  result = giro::fit(Count(), data, {.epoch_duration = 2, .test_duration = 3, .stop = 5});"
        "  result = giro::test_loop(Count(), data, {.stop = 2});"
        "  for (auto [elapsed, batch] : giro::elapse(data, {.stop = 2})) result.elapsed = elapsed;"
        "}",
        None,
    ),
    "state that is not moved": (
        "void run(giro::TrainState& state, std::vector<int>& data) { auto result = giro::loop(state, data, {}); }",
        "giro: a state that cannot be copied must be moved into a loop",
    ),
    "task without a schedule": (
        "void run(std::vector<int>& data) { auto result = giro::loop(Count(), data, {{1, [](Count&) {}}}); }",
        "giro: a task must begin with a schedule",
    ),
    "task with callbacks that are no list": (
        "void run(std::vector<int>& data) {"
        "  auto result = giro::loop(Count(), data, {{giro::every(1), [](Count&) {}, [](Count&) {}}});"
        "}",
        "giro: a task with several callbacks needs a list of them",
    ),
    "batch without const": (
        "giro::Callback<Count, giro::Batch> c([](Count&, giro::Batch&) {});",
        "giro: a callback must take its batch, elapsed and logs as const Batch&",
    ),
    "batch of a step without const": (
        "auto s = giro::jit([](giro::TrainState&, giro::Batch&) { return giro::Logs(); });",
        "giro: after its state a step must take const references",
    ),
    "unknown parameter": ("Callback c([](Count&, const double&, char*) {});", "giro: a callback can take only State&"),
    "unknown result": (
        "Callback c([](Count&) { return 1.5f; });",
        "giro: a callback must return nothing, Logs, the state",
    ),
    "too many results": (
        "Callback c([](Count& s) { return std::tuple{giro::Logs(), giro::Logs(), giro::Logs(), s}; });",
        "giro: a callback must return nothing, Logs, the state",
    ),
    "auto parameters": (
        "Callback c([](auto&) {});",
        "giro: a callback must have a single signature, without auto parameters",
    ),
    "step without state": (
        "auto s = giro::jit([](const giro::Batch&) { return giro::Logs(); });",
        "giro: the first parameter of a step must be a reference to State",
    ),
    "step with auto": (
        "auto s = giro::jit([](auto& state, const giro::Batch&) { return giro::Logs(); });",
        "giro: a step must be a function of (State&, const Batch&, ...) with a single signature",
    ),
    "noexcept function": ("void count(Count&) noexcept; Callback c(count);", None),
    "reference": (
        "void run(Callback); struct F { void operator()(Count&) {} } f; void g() { run(std::ref(f)); }",
        "giro: a loop copies its callbacks",
    ),
    "template hook": (
        "struct F { void operator()(Count&) {} template <class T> void on_start(T&) {} }; Callback c{F()};",
        "giro: a callback's on_start must be public",
    ),
    "overloaded hook": (
        "struct F { void operator()(Count&) {} void on_end(Count&) {} void on_end(const int&) {} }; Callback c{F()};",
        "giro: a callback's on_end must be public",
    ),
    "overloaded event": (
        "struct F { void on_train_begin(Count&) {} void on_train_step(Count&) {} void on_train_step(const int&) {} };"
        "giro::EventCallback<Count, int> c{F()};",
        "giro: an event must be public",
    ),
    "class whose only event is misspelt": (
        "struct F { void on_train_begins(Count&) {} }; giro::EventCallback<Count, int> c{F()};",
        "giro: a callback must have a single signature",
    ),
    "event that is named by a string": (
        "struct F { static constexpr auto kEvent = \"on_epochs_end\"; void operator()(Count&) {} };"
        "giro::EventCallback<Count, int> c{F()};",
        "giro: a callback's kEvent must be a LoopEvent",
    ),
    "event class that can be called": (
        "struct F { void on_train_begin(Count&) {} void operator()(Count&) {} };"
        "giro::EventCallback<Count, int> c{F()};",
        "giro: a class with event members",
    ),
    "callback that cannot be copied": (
        "void run(Callback); void g() { run([p = std::unique_ptr<int>()](Count&) {}); }",
        "giro: a loop copies its callbacks",
    ),
    "state by value that cannot be copied": (
        "giro::Callback<giro::State, int> c([](giro::State) {});",
        "giro: a callback must take this state by reference",
    ),
    "managed step that returns a value": (
        "auto s = giro::managed::train_step([](const giro::nn::Params&, const giro::Batch& b) { return b[\"x\"]; });",
        "giro: a managed step must return giro::Logs",
    ),
    "hook of another state": (
        "struct F { void operator()(Count&) {} void on_start(double&) {} }; Callback c{F()};",
        "giro: a callback can take only State&",
    ),
    "step that returns a value": (
        "auto s = giro::jit([](giro::TrainState& s, const giro::Batch& b) { return b[\"x\"]; });",
        "giro: a step must return giro::Logs",
    ),
    "step that returns nothing": (
        "auto s = giro::jit([](giro::TrainState&, const giro::Batch&) {});",
        "giro: a step must return giro::Logs",
    ),
    "step with a state by value": (
        "auto s = giro::jit([](giro::State, const giro::Batch&) { return giro::Logs(); });",
        "giro: the first parameter of a step must be a reference to State",
    ),
    "step with two statics": (
        "auto s = giro::jit([](giro::State&, const int&, const char&) { return giro::Logs(); });",
        "giro: after its state a step can take only const Batch&",
    ),
}

# The compiler checks a callback's virtual functions at the end of the file, so the error names no line of the user's.
WITHOUT_LINE = {"unknown parameter", "unknown result", "too many results", "template hook", "overloaded hook",
                "hook of another state"}


class CompileErrors(unittest.TestCase):
    def test_cases(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        prelude = os.path.join(folder.name, "prelude.h")
        with open(prelude, "w", encoding="utf-8") as file:
            file.write(PRELUDE)
        options = ["-std=c++20", "-I", INCLUDES]
        # Parsed once for all cases, since that takes most of the time.
        subprocess.run([COMPILER, *options, "-x", "c++-header", prelude, "-o", prelude + ".gch"], check=True)
        for name, (text, expected) in CASES.items():
            with self.subTest(name):
                result = subprocess.run(
                    [COMPILER, *options, "-fsyntax-only", "-include", prelude, "-x", "c++", "-"],
                    input=text, capture_output=True, text=True, check=False)
                messages = re.findall(r"error:.*(giro: .*)", result.stderr)
                if expected is None:
                    self.assertEqual(result.returncode, 0, result.stderr)
                else:
                    self.assertNotEqual(result.returncode, 0)
                    self.assertTrue(messages, result.stderr)
                    self.assertTrue(messages[0].startswith(expected), messages)
                    self.assertEqual("<stdin>" in result.stderr, name not in WITHOUT_LINE, result.stderr)


if __name__ == "__main__":
    COMPILER, INCLUDES = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
