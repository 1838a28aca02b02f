"""Reads PTX text, as nvcc writes it, into a Module."""

import os
import re
from collections import namedtuple

BYTES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4,
         "b64": 8, "u64": 8, "s64": 8, "f64": 8}

LABEL = re.compile(r"([\w$]+):(?!:)")
VARIABLE = re.compile(r"""(?:\.(?P<linkage>visible|weak|extern)\s+)*\.(?P<space>global|const|shared|local|param)\s+
                          (?:\.align\s+(?P<align>\d+)\s+)?(?:\.ptr\b[^,]*?\s)?\.(?P<type>\w+)\s+
                          (?P<name>[\w$]+)(?:\[(?P<count>\d*)\])?(?:\s*=\s*(?P<value>.*))?$""", re.X | re.S)
INLINED = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:[^\n]*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")


class PtxError(Exception):
    """Something that cannot be translated, with its place."""


# No dataclasses, and no argparse in ptx_to_c.py: the emulation translates each generated kernel in its own process,
# and importing them would take longer than translating.

# `bytes` is 0 for an array of unknown length, which is the dynamic shared memory.
Variable = namedtuple("Variable", "name space type bytes align value")
# `line`: in the PTX file. `site`: place in the source, an index into Module.sites. `guard`: None, "%p3" or "!%p3".
Instruction = namedtuple("Instruction", "line site guard opcode operands")
Label = namedtuple("Label", "name")
Scope = namedtuple("Scope", "opens")
Registers = namedtuple("Registers", "type names")


class Function:
    def __init__(self, name, is_kernel, parameters, returned, directives):
        self.name, self.is_kernel, self.directives = name, is_kernel, directives
        self.parameters, self.returned = parameters, returned  # Variables
        self.body = []  # of the classes above
        self.text = ""


class Module:
    def __init__(self):
        self.variables, self.functions, self.sites = [], [], []


def parse_variable(text):
    match = VARIABLE.match(text.strip())
    if match is None:
        raise PtxError(f"declaration not understood: {text.strip()[:80]}")
    kind, count = match["type"], match["count"]
    size = BYTES[kind] * (1 if count is None else int(count or 0))
    return Variable(match["name"], match["space"], kind, size, int(match["align"] or BYTES[kind]), match["value"])


def parse_variables(text):
    """The parameters listed between parentheses."""
    return [parse_variable(part) for part in text.split(",") if part.strip()]


def split_operands(text):
    """Splits at commas outside braces, brackets and parentheses."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "{[(") - (char in "}])")
        if char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return parts + [last] if last else parts


class SourcePlaces:
    """Numbers the places that .loc lines name, with a text for reports."""

    def __init__(self, files, root):
        self.files = files
        self.root = os.path.join(os.path.abspath(root), "")
        self.chains = {}  # (file, line, column) of a .loc -> its places, outermost first
        self.sites = []
        self.numbers = {}

    def own(self, file):
        return os.path.abspath(self.files[file]).startswith(self.root)

    def name(self, file, line):
        path = os.path.abspath(self.files[file])
        return f"{path[len(self.root):] if self.own(file) else os.path.basename(path)}:{line}"

    def number(self, text):
        if text not in self.numbers:
            self.numbers[text] = len(self.sites)
            self.sites.append(text)
        return self.numbers[text]

    def site(self, loc):
        """The number of a .loc line's place, or None for code that the compiler made up (line 0)."""
        file, line, column, outer_file, outer_line, outer_column = INLINED.match(loc).groups()
        if line == "0":
            return None
        chain = [(file, line)]
        if outer_file is not None:
            outer = self.chains.get((outer_file, outer_line, outer_column), [(outer_file, outer_line)])
            chain = outer + chain
        self.chains[file, line, column] = chain
        # The project's own lines, outermost first. If there are none, as for a functor that CUB calls and the compiler
        # merged, the innermost line.
        shown = [place for place in chain if self.own(place[0])] or chain[-1:]
        return self.number(" > ".join(dict.fromkeys(self.name(*place) for place in shown)))


class Parser:
    def __init__(self, text, path, root):
        self.text = re.sub(r"//[^\n]*", "", text)
        self.path = path
        files = dict(re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', self.text, re.M))
        self.places = SourcePlaces(files, root)
        self.position = 0

    def line(self, position):
        return self.text.count("\n", 0, position) + 1

    def fail(self, what):
        raise PtxError(f"{self.path}:{self.line(self.position)}: {what}")

    def closing_brace(self, start):
        """The position of the brace that closes the one at `start`."""
        depth = 0
        for match in re.compile(r"[{}]").finditer(self.text, start):
            depth += 1 if match[0] == "{" else -1
            if depth == 0:
                return match.start()
        self.fail("a brace is not closed")

    def parse(self):
        module = Module()
        pattern = re.compile(r"\s*(?:(?P<header>\.(?:version|target|address_size|file)[^\n]*)"
                             r"|(?P<section>\.section[^{]*)"
                             r"|(?P<function>(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func)\b[^{;]*)"
                             r"|(?P<variable>\.[^;]*);)")
        while self.text[self.position:].strip():
            match = pattern.match(self.text, self.position)
            if match is None:
                self.fail("not understood")
            self.position = match.end()
            if match["section"] is not None:
                self.position = self.closing_brace(match.end()) + 1
            elif match["function"] is not None:
                self.parse_function(module, match["function"])
            elif match["variable"] is not None and not match["variable"].startswith(".pragma"):
                module.variables.append(parse_variable(match["variable"]))
        module.sites = self.places.sites
        return module

    def parse_function(self, module, head):
        match = re.match(r"(?:\.\w+\s+)*?\.(entry|func)\s*(?:\(([^)]*)\))?\s*([\w$]+)\s*(?:\(([^)]*)\))?(.*)$",
                         head, re.S)
        if self.text[self.position] == ";":  # a declaration
            self.position += 1
            return
        function = Function(match[3], match[1] == "entry", parse_variables(match[4] or ""),
                            parse_variables(match[2] or ""), match[5])
        end = self.closing_brace(self.position)
        function.text = self.text[self.position + 1:end]
        self.position += 1
        self.parse_body(function, end)
        self.position = end + 1
        module.functions.append(function)

    def parse_body(self, function, end):
        body, site, line, counted = function.body, None, self.line(self.position), self.position
        blank = re.compile(r"\s*")
        while True:
            self.position = blank.match(self.text, self.position).end()
            if self.position >= end:
                return
            line += self.text.count("\n", counted, self.position)
            counted = self.position
            rest = self.text[self.position]
            label = LABEL.match(self.text, self.position)
            if rest in "{}":
                body.append(Scope(rest == "{"))
                self.position += 1
            elif label is not None:
                body.append(Label(label[1]))
                self.position = label.end()
            elif INLINED.match(self.text, self.position) is not None:
                stop = self.text.index("\n", self.position)
                found = self.places.site(self.text[self.position:stop])
                site = site if found is None else found
                self.position = stop
            else:
                stop = self.text.index(";", self.position)
                statement = self.text[self.position:stop].strip()
                if site is None:
                    site = self.places.number(f"{os.path.basename(self.path)}:{line}")
                self.add_statement(body, statement, line, site)
                self.position = stop + 1

    def add_statement(self, body, statement, line, site):
        if statement.startswith(".reg"):
            kind, names = re.match(r"\.reg\s+\.(\w+)\s+(.*)$", statement, re.S).groups()
            listed = []
            for name in split_operands(names):
                many = re.match(r"(%?\w+)<(\d+)>$", name)
                listed += [f"{many[1]}{i}" for i in range(int(many[2]))] if many else [name]
            body.append(Registers(kind, listed))
        elif re.match(r"\.(shared|local|param)\b", statement):
            body.append(parse_variable(statement))
        elif statement.startswith(".pragma"):
            pass
        elif statement.startswith("."):
            self.fail(f"directive not understood: {statement}")
        else:
            match = re.match(r"(?:@(!?[%\w$]+)\s+)?([\w.:]+)\s*(.*)$", statement, re.S)
            body.append(Instruction(line, site, match[1], match[2], split_operands(match[3])))


def read(path):
    with open(path, "rb") as file:
        content = file.read()
    if content.startswith(b"\x7fELF"):
        found = re.findall(rb"(\.version \d[^\0]*?\.target sm_(\d+)[^\0]*)", content)
        if not found:
            raise PtxError(f"{path} contains no PTX: it needs a virtual architecture and nvcc's --no-compress")
        content, _ = min(found, key=lambda text: int(text[1]))
    return content.decode()


def parse(path, root):
    return Parser(read(path), path, root).parse()
