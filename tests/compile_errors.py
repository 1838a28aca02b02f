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
#include <istream>
#include <ranges>
#include <vector>
#include <giro/callbacks/jaxloop/outputs.h>
#include <giro/callbacks/metric_writer.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/elapse.h>
#include <giro/loop/loop.h>
#include <giro/loop/predefined_loops.h>
#include <giro/loop/step/managed.h>
#include <giro/kernels/optim/train_state.h>
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
    "step with what a recording would keep": (
        "auto s = giro::jit([](giro::TrainState&, const giro::Elapsed&) { return giro::Logs(); });",
        "giro: a step cannot take Elapsed, Logs or LoopState",
    ),
    "managed step with what a recording would keep": (
        "auto s = giro::managed::step([](const giro::nn::Params&, const giro::Logs&) { return giro::Logs(); });",
        "giro: a step cannot take Elapsed, Logs or LoopState",
    ),
    "steps on a constant state": (
        "void run(const giro::TrainState& state, const giro::Batch& batch) {"
        "  auto s = giro::jit([](const giro::TrainState&, const giro::Batch&) { return giro::Logs(); });"
        "  giro::Step<giro::TrainState> may_change = s; (void)may_change;"
        "  s(state, batch).updates(giro::managed::step([](const giro::nn::Params&) { return giro::Logs(); })(state, batch));"
        "}",
        None,
    ),
    "range that can be read once, where it is read in each epoch": (
        "void run(std::vector<int>& data, std::ranges::istream_view<int> numbers) {"
        "  auto result = giro::fit(Count(), data, {.test_dataset = numbers});"
        "}",
        "giro: a loop goes over this range more than once",
    ),
    "function that makes such a range": (
        "void run(std::vector<int>& data, std::istream& text) {"
        "  auto result = giro::fit(Count(), data,"
        "                          {.test_dataset = [&] { return std::ranges::istream_view<int>(text); }});"
        "}",
        None,
    ),
    "random numbers of a number": (
        "auto noise = giro::nn::random_normal(3, {2, 3});",
        "giro: random_uniform and random_normal cannot take a number as the key",
    ),
}

# Getters of something to iterate over, or of a pointer, that lies in the object: with a temporary they do not compile.
DANGLING = {
    "giro::Logs": ["entries()"],
    "giro::LogValue": ["number()", "inexact()", "scalar()", "array()"],
    "giro::Batch": ["features()"],
    "giro::Dataset": ["rows()"],
    "giro::History": ["begin()", "end()"],
    "giro::Outputs": ["begin()", "end()"],
    "giro::Tag": ["collection()", "name()"],
    "giro::Elapse<std::vector<int>>": ["begin()"],
}
# Getters of a container, which a temporary returns by value.
BY_VALUE = {
    "giro::Logs": ["values()"],
    "giro::nn::Params": ["all()", "written()"],
    "giro::jaxloop::LoopOutputs": ["operator[](\"loss\")"],
}

# The compiler checks a callback's virtual functions at the end of the file, so the error names no line of the user's.
WITHOUT_LINE = {"unknown parameter", "unknown result", "too many results", "template hook", "overloaded hook",
                "hook of another state"}


class CompileErrors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.prelude = os.path.join(folder.name, "prelude.h")
        with open(cls.prelude, "w", encoding="utf-8") as file:
            file.write(PRELUDE)
        cls.options = ["-std=c++20", "-I", INCLUDES]
        # Parsed once for all cases, since that takes most of the time.
        subprocess.run([COMPILER, *cls.options, "-x", "c++-header", cls.prelude, "-o", cls.prelude + ".gch"], check=True)

    def compile(self, text):
        return subprocess.run([COMPILER, *self.options, "-fsyntax-only", "-include", self.prelude, "-x", "c++", "-"],
                              input=text, capture_output=True, text=True, check=False)

    def test_cases(self):
        for name, (text, expected) in CASES.items():
            with self.subTest(name):
                result = self.compile(text)
                messages = re.findall(r"error:.*(giro: .*)", result.stderr)
                if expected is None:
                    self.assertEqual(result.returncode, 0, result.stderr)
                else:
                    self.assertNotEqual(result.returncode, 0)
                    self.assertTrue(messages, result.stderr)
                    self.assertTrue(messages[0].startswith(expected), messages)
                    self.assertEqual("<stdin>" in result.stderr, name not in WITHOUT_LINE, result.stderr)

    def test_getters_of_temporaries(self):
        getters = [(of, getter) for of, names in DANGLING.items() for getter in names]
        result = self.compile("".join(f"void f{i}({of}& named) {{ (void)named.{getter}; }}\n"
                                      for i, (of, getter) in enumerate(getters)))
        self.assertEqual(result.returncode, 0, result.stderr)
        result = self.compile("".join(f"void f{i}({of} (*make)()) {{ (void)make().{getter}; }}\n"
                                      for i, (of, getter) in enumerate(getters)))
        lines = {int(line) for line in re.findall(r"<stdin>:(\d+):.*error:.*deleted", result.stderr)}
        self.assertEqual([getters[i] for i in range(len(getters)) if i + 1 not in lines], [], result.stderr)
        result = self.compile("".join(f"static_assert(std::is_object_v<decltype(std::declval<{of}>().{getter})>);\n"
                                      for of, names in BY_VALUE.items() for getter in names))
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_an_error_in_a_step_is_shown_alone(self):
        """A name that is unknown there leaves the step without a known result."""
        result = self.compile(
            "void run(giro::TrainState& state, std::vector<giro::Batch>& data) {\n"
            "  auto s = giro::jit([](giro::TrainState&, const giro::Batch&) {\n"
            "    return giro::logs().add_metric(\"noise\", mean(random_normal(3, {2, 3})));\n"
            "  });\n"
            "  auto result = giro::loop(std::move(state), data, {{giro::every(1), s}});\n"
            "}\n")
        lines = re.findall(r"<stdin>:(\d+):.*error:", result.stderr)
        self.assertEqual(set(lines), {"3"}, result.stderr)


if __name__ == "__main__":
    COMPILER, INCLUDES = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
