#!/usr/bin/env python3
"""Checks sources for warnings without generating code.

usage: warnings.py WHAT COMPILER INCLUDE_FOLDER PUBLIC_HEADERS SOURCE...

WHAT: `headers`, each public header alone, and each SOURCE with only what it includes itself, or `headers:1/2`, the
first of two shares of them; or `sources`, all public headers at once, and each SOURCE after them. PUBLIC_HEADERS is a
file that lists them. For a SOURCE in Markdown, its first C++ listing is checked.

Most of a header's compile time goes to the standard library, so that is precompiled. Whether a header includes what it
uses of it, directly or through giro's headers, is seen from the names in its text.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wno-sign-conversion"]
# Headers are compiled with their users' warnings, too.
HEADER_WARNINGS = [*WARNINGS, "-Wshadow"]

# Which header of the standard library declares a name that a public header uses.
DECLARED = {name: header for header, names in {
    "algorithm": "max min",
    "any": "any any_cast",
    "array": "array to_array",
    "atomic": "atomic atomic_ref memory_order_acquire memory_order_relaxed memory_order_release",
    "bit": "bit_cast bit_width countr_zero",
    "concepts": "constructible_from convertible_to copy_constructible copyable default_initializable derived_from "
                "equality_comparable floating_point integral invocable predicate same_as unsigned_integral",
    "cstddef": "byte ptrdiff_t size_t",
    "cstdint": "int16_t int32_t int64_t int8_t uint16_t uint32_t uint64_t uint8_t uintptr_t",
    "cstdio": "FILE",
    "cstring": "memcpy",
    "exception": "current_exception exception exception_ptr rethrow_exception uncaught_exceptions",
    "functional": "equal_to function hash invoke less ref reference_wrapper",
    "initializer_list": "initializer_list",
    "iterator": "default_sentinel default_sentinel_t make_move_iterator next prev",
    "limits": "numeric_limits",
    "map": "map",
    "memory": "addressof enable_shared_from_this make_shared make_unique shared_ptr unique_ptr weak_ptr",
    "optional": "nullopt optional",
    "source_location": "source_location",
    "span": "span",
    "stdexcept": "invalid_argument runtime_error",
    "string": "string to_string",
    "string_view": "string_view",
    "tuple": "apply tuple tuple_element tuple_element_t tuple_size tuple_size_v",
    "typeindex": "type_index",
    "typeinfo": "type_info",
    "unordered_set": "unordered_set",
    "utility": "exchange forward get move pair",
    "variant": "monostate variant visit",
    "vector": "vector",
}.items() for name in names.split()}
TYPE_TRAIT = re.compile(r"(add|conditional|decay|enable_if|invoke_result|is|make|remove|type_identity)_\w+|type_identity|"
                        r"(true|false)_type|integral_constant|declval|void_t|underlying_type_t")
# Headers that declare the names of others, too.
ALSO = {"tuple": ["get"], "array": ["get"], "variant": ["get"], "span": ["ranges"], "vector": ["ranges", "next", "prev"],
        "map": ["next", "prev"], "string": ["string_view", "ranges"], "iterator": ["ranges"], "memory": ["ranges"]}


def missing_includes(includes, headers):
    """Complaints about names of the standard library for which a header includes nothing."""
    texts = {name: re.sub(r"//.*", "", (includes / name).read_text(encoding="utf-8")) for name in headers}

    def included(name, seen):
        if name not in seen:
            seen.add(name)
            for own in re.findall(r"#include <(giro/[^>]+)>", texts[name]):
                included(own, seen)
        return seen

    for name in headers:
        std = {each for own in included(name, set()) for each in re.findall(r"#include <(\w+)>", texts[own])}
        declared = {each for header in std for each in ALSO.get(header, [])}
        for used in sorted(set(re.findall(r"\bstd::(\w+)", texts[name])) - declared):
            header = "type_traits" if TYPE_TRAIT.fullmatch(used) and used not in DECLARED else DECLARED.get(used)
            if header not in std:
                yield f"{name}: uses std::{used}, but includes no {f'<{header}>' if header else 'header known for it'}"


def first_listing(page):
    text = pathlib.Path(page).read_text(encoding="utf-8")
    return re.search(r"^```cpp\n(.*?)^```", text, re.S | re.M)[1]


def main(what, compiler, includes, listed, *sources):
    what, _, share = what.partition(":")
    headers = [f"giro/{name}" for name in pathlib.Path(listed).read_text(encoding="utf-8").split()]
    own = "".join(f"#include <{name}>\n" for name in headers)
    std = "".join(sorted({line for name in headers for line in re.findall(
        r"^#include <\w+>\n", pathlib.Path(includes, name).read_text(encoding="utf-8"), re.M)}))
    base = [compiler, "-std=c++20", "-Werror", "-I", includes]
    tests = str(pathlib.Path(__file__).resolve().parent)
    for_tests = ["-I", str(pathlib.Path(tests).parent), "-Wno-unknown-pragmas"]
    with tempfile.TemporaryDirectory() as folder:
        first = pathlib.Path(folder, "first.h")
        first.write_text(std if what == "headers" else own, encoding="utf-8")
        precompiled = subprocess.run([*base, *HEADER_WARNINGS, "-x", "c++-header", first, "-o", f"{first}.gch"],
                                     capture_output=True, text=True, check=False)
        failures = list(missing_includes(pathlib.Path(includes), headers)) if what == "headers" else []
        failures += [precompiled.stderr] if precompiled.returncode != 0 else []

        check = [*base, "-fsyntax-only", "-include", str(first)]
        texts = [f"#include <{name}>\n" for name in headers] if what == "headers" else []
        runs = [([*check, *HEADER_WARNINGS, "-x", "c++", "-"], text) for text in texts]
        for source in sources:
            if source.endswith(".md"):
                runs.append(([*check, "-Wall", "-Wextra", "-x", "c++", "-"], first_listing(source)))
            else:
                runs.append(([*check, *(for_tests if source.startswith(tests) else []), *WARNINGS, source], None))
        number, of = map(int, share.split("/")) if share else (1, 1)
        runs = runs[number - 1::of]

        def compile_one(run):
            command, text = run
            result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
            return result.returncode == 0 or f"{command[-1] if text is None else text}{result.stderr}"

        with concurrent.futures.ThreadPoolExecutor(min(4, len(os.sched_getaffinity(0)))) as pool:
            failures += [said for said in pool.map(compile_one, runs) if said is not True]
    print("\n".join(failures) or f"{len(runs) + 1} compiled without a warning")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
