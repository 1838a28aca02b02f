"""Writes a Module as a C file that registers its kernels with the engine."""

import re

from instructions import Untranslated, c_type, label, register, translate
from module import BYTES, Instruction, Label, PtxError, Registers, Scope, Variable

PER_LINE = 12
MAX_FRAME = 192 << 10  # bytes of a kernel's variables: a fiber's stack has 256 KiB (engine/fiber.cpp)

# In a kernel with one of these, the threads cannot run to their ends one after another.
WAITS = re.compile(r"(bar|barrier|shfl|vote|redux|match|mma|nanosleep)\b|(atom|ld\.(volatile|relaxed|acquire))\b")


class Place:
    """A symbol in memory: its address, and a pointer to it, as C."""

    def __init__(self, bytes, pointer=None, number=None):
        self.bytes = bytes
        self._pointer = pointer
        self._number = number  # shared memory counts from 0

    def address(self, offset):
        if self._number is not None:
            return f"{self._number + offset:#x}ull"
        return f"(u64)({self.pointer(offset)})"

    def pointer(self, offset):
        return f"{self._pointer} + {offset}" if offset else self._pointer


def waits_itself(function):
    return any(isinstance(s, Instruction) and WAITS.match(s.opcode) for s in function.body)


def align(offset, to):
    return (offset + to - 1) // to * to


def names_in(text):
    return set(re.findall(r"[\w$]+", text))


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def initial_value(variable):
    if variable.value is None:
        return ""
    numbers = variable.value.strip().strip("{}").split(",")
    if not all(re.fullmatch(r"\s*(0[fFdD][0-9A-Fa-f]+|-?\d+|0x[0-9A-Fa-f]+)U?\s*", n) for n in numbers):
        raise PtxError(f"initial value of {variable.name} not understood: {variable.value[:60]}")
    mask = (1 << 8 * BYTES[variable.type]) - 1
    values = [int(re.sub(r"^0[fFdD]", "0x", n.strip().rstrip("U")), 0) & mask for n in numbers]
    return " = {" + ", ".join(f"{v:#x}ull" for v in values) + "}"


class FileWriter:
    def __init__(self, module, source):
        self.module = module
        self.source = source
        self.lines = []
        self.errors = []

    def write(self):
        used = set().union(*(names_in(f.text) for f in self.module.functions))
        self.globals, self.variables = {}, []
        self.lines += [f"// Translated from {self.source}.", '#include "tests/cuda_on_cpu/engine/translated.h"']
        self.write_sites()
        for variable in self.module.variables:
            if variable.space in ("global", "const") and variable.name in used:
                self.write_variable(variable)
        self.devices = [f for f in self.module.functions if not f.is_kernel]
        for i, function in enumerate(self.devices):
            self.globals[function.name] = f"function_{i}"
            self.lines.append(f"static void function_{i}({self.signature(function)});")
        for i, function in enumerate(self.devices):
            FunctionWriter(self, function, f"function_{i}").write(self.signature(function))
        kernels = [f for f in self.module.functions if f.is_kernel]
        registered = [FunctionWriter(self, kernel, f"kernel_{i}").write_kernel() for i, kernel in enumerate(kernels)]
        self.write_table("KernelRegistration", "kernels", registered)
        self.write_table("VariableRegistration", "variables", self.variables)
        self.lines += ["__attribute__((constructor)) static void enter(void) {",
                       f"simt_register(sites, sizeof sites / sizeof *sites, kernels, {len(kernels)}, variables, "
                       f"{len(self.variables)});", "}"]
        return "\n".join(self.lines) + "\n"

    def write_table(self, of, name, rows):
        self.lines.append(f"static const {of} {name}[] = {{")
        self.lines += [f"    {row}," for row in rows or ["{0}"]]
        self.lines.append("};")

    def write_sites(self):
        self.write_table("char* const", "sites", [quoted(site) for site in self.module.sites or [self.source]])

    def write_variable(self, variable):
        name = f"variable_{len(self.globals)}"
        element = f"u{8 * BYTES[variable.type]}"
        self.globals[variable.name] = Place(variable.bytes, f"(char*){name}")
        self.lines.append(f"static {element} {name}[{variable.bytes // BYTES[variable.type]}] "
                          f"__attribute__((aligned({variable.align}))){initial_value(variable)};")
        self.variables.append(f"{{{quoted(variable.name)}, {name}, sizeof {name}}}")

    @staticmethod
    def signature(function):
        return ", ".join(["Thread* t"] + [f"char* {parameter_name(p)}" for p in function.returned] +
                         [f"const char* {parameter_name(p)}" for p in function.parameters])


def parameter_name(variable):
    return "a_" + variable.name.replace("$", "_")


class FunctionWriter:
    def __init__(self, file, function, c_name):
        self.file = file
        self.lines = file.lines
        self.function = function
        self.c_name = c_name
        self.symbols = dict(file.globals)
        self.registers = [{}]  # the C types by name, as each scope that is open sees them
        self.shared_bytes = 0
        self.frame_bytes = 0
        self.place_shared()

    def place_shared(self):
        used = names_in(self.function.text)
        outside = [v for v in self.file.module.variables if v.space == "shared" and v.name in used]
        inside = [v for v in self.function.body if isinstance(v, Variable) and v.space == "shared"]
        if (outside or inside) and not self.function.is_kernel:
            # Its place would depend on the calling kernel.
            raise PtxError(f"{self.file.source}: shared memory in {self.function.name}, which is not a kernel")
        for variable in outside + inside:
            if variable.bytes > 0:
                start = align(self.shared_bytes, variable.align)
                self.symbols[variable.name] = Place(variable.bytes, number=start)
                self.shared_bytes = start + variable.bytes
        for variable in outside + inside:
            if variable.bytes == 0:
                self.shared_bytes = align(self.shared_bytes, max(16, variable.align))
                self.symbols[variable.name] = Place(0, number=self.shared_bytes)

    def write_kernel(self):
        function, offset, parameters = self.function, 0, []
        for parameter in function.parameters:
            offset = align(offset, parameter.align)
            self.symbols[parameter.name] = Place(parameter.bytes, f"t->parameters + {offset}")
            parameters.append(f"{{{offset}, {parameter.bytes}}}")
            offset += parameter.bytes
        self.lines.append(f"// {function.name}")
        if parameters:
            self.lines.append(f"static const Parameter {self.c_name}_parameters[] = {{{', '.join(parameters)}}};")
        self.lines.append(f"static void {self.c_name}(Thread* t) {{")
        self.write_body()
        threads = re.search(r"\.(?:maxntid|reqntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", function.directives)
        most = 1024
        if threads is not None:
            most = 1
            for number in threads.groups():
                most *= int(number or 1)
        calls = any(isinstance(s, Instruction) and s.opcode.startswith("call") for s in function.body)
        waits = waits_itself(function) or calls and any(waits_itself(f) for f in self.file.devices)
        listed = f"{self.c_name}_parameters" if parameters else "0"
        return (f"{{{quoted(function.name)}, {self.c_name}, {listed}, {len(parameters)}, {offset}, "
                f"{self.shared_bytes}, {most}, {'true' if waits else 'false'}}}")

    def write(self, signature):
        for parameter in self.function.parameters + self.function.returned:
            self.symbols[parameter.name] = Place(parameter.bytes, parameter_name(parameter))
        self.lines.append(f"static void {self.c_name}({signature}) {{")
        self.write_body()

    def write_body(self):
        order = {s.name: i for i, s in enumerate(self.function.body) if isinstance(s, Label)}
        has_arrays = any(isinstance(s, Variable) and s.space == "local" for s in self.function.body)
        if has_arrays:
            self.lines.append("const LocalArray* const outer = t->locals;")
        for i, statement in enumerate(self.function.body):
            if isinstance(statement, Scope):
                self.lines.append("{" if statement.opens else "}")
                if statement.opens:
                    self.registers.append(dict(self.registers[-1]))
                else:
                    self.registers.pop()
            elif isinstance(statement, Label):
                self.lines.append(f"{label(statement.name)}:;")
            elif isinstance(statement, Registers):
                self.declare_registers(statement)
            elif isinstance(statement, Variable):
                self.declare_variable(statement)
            elif isinstance(statement, Instruction):
                self.write_instruction(statement, lambda name, here=i: order[name] < here)
        self.lines.append("simt_end:;")
        if has_arrays:
            self.lines.append("t->locals = outer;")
        self.lines.append("}")

    def use_frame(self, bytes):
        self.frame_bytes += bytes
        if self.frame_bytes > MAX_FRAME:
            raise PtxError(f"{self.file.source}: {self.function.name} has variables of more than {MAX_FRAME} bytes")

    def declare_registers(self, registers):
        declared, names = c_type(registers.type), [register(name) for name in registers.names]
        self.registers[-1].update((name, declared) for name in registers.names)
        self.use_frame(8 * len(names))
        for i in range(0, len(names), PER_LINE):
            self.lines.append(f"{declared} {', '.join(names[i:i + PER_LINE])};")

    def declare_variable(self, variable):
        if variable.space == "shared":
            return
        name = parameter_name(variable)
        self.symbols[variable.name] = Place(variable.bytes, name)
        self.use_frame(variable.bytes)
        self.lines.append(f"char {name}[{variable.bytes}] __attribute__((aligned(16)));")
        if variable.space == "local":
            if len(self.registers) > 1:  # its end would have to be told to the engine
                raise PtxError(f"{self.file.source}: a local array in a scope within {self.function.name}")
            self.lines.append(f"LocalArray l{name}; simt_begin_array(t, &l{name}, {name}, {variable.bytes});")

    def write_instruction(self, instruction, goes_back):
        try:
            self.lines.append(translate(instruction, self.symbols, self.registers[-1], goes_back))
        except Untranslated:
            self.file.errors.append(
                f"{self.file.source}:{instruction.line}: no translation of '{instruction.opcode} "
                f"{', '.join(instruction.operands)}' ({self.file.module.sites[instruction.site]}) "
                f"in {self.function.name}")


def write(module, source):
    """Returns the C text, and a list of what could not be translated."""
    writer = FileWriter(module, source)
    text = writer.write()
    return text, writer.errors
