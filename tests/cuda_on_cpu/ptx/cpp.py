"""Writes a Module as a C++ file that registers its kernels with the engine."""

import re

from instructions import Untranslated, cpp_type, label, register, translate
from module import BYTES, Instruction, Label, PtxError, Registers, Scope, Variable

PER_LINE = 12

# In a kernel with one of these, the threads cannot run to their ends one after another.
WAITS = re.compile(r"(bar|barrier|shfl|vote|redux|match|mma|nanosleep)\b|(atom|ld\.(volatile|relaxed|acquire))\b")


class Place:
    """A symbol in memory: its address, and a pointer to it, as C++."""

    def __init__(self, bytes, pointer=None, number=None):
        self.bytes = bytes
        self._pointer = pointer
        self._number = number  # shared memory counts from 0

    def address(self, offset):
        if self._number is not None:
            return f"u64{{{self._number + offset:#x}}}"
        return f"address({self.pointer(offset)})"

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
    return " = {" + ", ".join(str(v) for v in values) + "}"


class FileWriter:
    def __init__(self, module, source):
        self.module = module
        self.source = source
        self.lines = []
        self.errors = []

    def write(self):
        used = set().union(*(names_in(f.text) for f in self.module.functions))
        self.globals = {}
        self.lines += [f"// Translated from {self.source}.",
                       '#include "tests/cuda_on_cpu/engine/ptx_ops.h"',
                       "namespace {", "using namespace giro::simt;", "using namespace giro::simt::ptx;"]
        self.write_sites()
        for variable in self.module.variables:
            if variable.space in ("global", "const") and variable.name in used:
                self.write_variable(variable)
        self.devices = [f for f in self.module.functions if not f.is_kernel]
        for i, function in enumerate(self.devices):
            self.globals[function.name] = f"function_{i}"
            self.lines.append(f"void function_{i}({self.signature(function)});")
        for i, function in enumerate(self.devices):
            FunctionWriter(self, function, f"function_{i}").write(self.signature(function))
        kernels = [f for f in self.module.functions if f.is_kernel]
        for i, kernel in enumerate(kernels):
            FunctionWriter(self, kernel, f"kernel_{i}").write_kernel()
        self.lines.append("}  // namespace")
        return "\n".join(self.lines) + "\n"

    def write_sites(self):
        self.lines.append("const char* const sites[] = {")
        self.lines += [f"    {quoted(site)}," for site in self.module.sites or [self.source]]
        self.lines += ["};", "const u32 first_site = add_sites(sites, sizeof sites / sizeof *sites);"]

    def write_variable(self, variable):
        name = f"variable_{len(self.globals)}"
        element = f"u{8 * BYTES[variable.type]}"
        self.globals[variable.name] = Place(variable.bytes, f"reinterpret_cast<char*>({name})")
        self.lines.append(f"alignas({variable.align}) {element} {name}[{variable.bytes // BYTES[variable.type]}]"
                          f"{initial_value(variable)};")
        self.lines.append(f"const VariableRegistration {name}_registration{{{quoted(variable.name)}, {name}, "
                          f"sizeof {name}}};")

    @staticmethod
    def signature(function):
        return ", ".join(["Thread& t"] + [f"char* {parameter_name(p)}" for p in function.returned] +
                         [f"const char* {parameter_name(p)}" for p in function.parameters])


def parameter_name(variable):
    return "a_" + variable.name.replace("$", "_")


class FunctionWriter:
    def __init__(self, file, function, cpp_name):
        self.file = file
        self.lines = file.lines
        self.function = function
        self.cpp_name = cpp_name
        self.symbols = dict(file.globals)
        self.registers = {}
        for statement in function.body:
            if isinstance(statement, Registers):
                declared = cpp_type(statement.type)
                for name in statement.names:
                    self.registers[name] = declared if self.registers.get(name, declared) == declared else None
        self.shared_bytes = 0
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
            self.symbols[parameter.name] = Place(parameter.bytes, f"parameters + {offset}")
            parameters.append(f"{{{offset}, {parameter.bytes}}}")
            offset += parameter.bytes
        self.lines.append(f"// {function.name}")
        self.lines.append(f"void {self.cpp_name}(Thread& t) {{")
        self.lines.append("[[maybe_unused]] const char* const parameters = t.parameters();")
        self.write_body()
        threads = re.search(r"\.(?:maxntid|reqntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", function.directives)
        most = 1024
        if threads is not None:
            most = 1
            for number in threads.groups():
                most *= int(number or 1)
        calls = any(isinstance(s, Instruction) and s.opcode.startswith("call") for s in function.body)
        waits = waits_itself(function) or calls and any(waits_itself(f) for f in self.file.devices)
        self.lines.append(
            f"const KernelRegistration {self.cpp_name}_registration{{{quoted(function.name)}, {self.cpp_name}, "
            f"{{{', '.join(parameters)}}}, {offset}, {self.shared_bytes}, {most}, {'true' if waits else 'false'}, "
            "first_site};")

    def write(self, signature):
        for parameter in self.function.parameters + self.function.returned:
            self.symbols[parameter.name] = Place(parameter.bytes, parameter_name(parameter))
        self.lines.append(f"void {self.cpp_name}({signature}) {{")
        self.write_body()

    def write_body(self):
        order = {s.name: i for i, s in enumerate(self.function.body) if isinstance(s, Label)}
        for i, statement in enumerate(self.function.body):
            if isinstance(statement, Scope):
                self.lines.append("{" if statement.opens else "}")
            elif isinstance(statement, Label):
                self.lines.append(f"{label(statement.name)}:;")
            elif isinstance(statement, Registers):
                self.declare_registers(statement)
            elif isinstance(statement, Variable):
                self.declare_variable(statement)
            elif isinstance(statement, Instruction):
                self.write_instruction(statement, lambda name, here=i: order[name] < here)
        self.lines.append("}")

    def declare_registers(self, registers):
        names = [register(name) for name in registers.names]
        for i in range(0, len(names), PER_LINE):
            self.lines.append(f"{cpp_type(registers.type)} {', '.join(names[i:i + PER_LINE])};")

    def declare_variable(self, variable):
        if variable.space == "shared":
            return
        name = parameter_name(variable)
        self.symbols[variable.name] = Place(variable.bytes, name)
        self.lines.append(f"alignas(16) char {name}[{variable.bytes}];")
        if variable.space == "local":
            self.lines.append(f"const Thread::LocalArray l{name}(t, {name}, {variable.bytes});")

    def write_instruction(self, instruction, goes_back):
        try:
            self.lines.append(translate(instruction, self.symbols, self.registers, goes_back))
        except Untranslated:
            self.file.errors.append(
                f"{self.file.source}:{instruction.line}: no translation of '{instruction.opcode} "
                f"{', '.join(instruction.operands)}' ({self.file.module.sites[instruction.site]}) "
                f"in {self.function.name}")


def write(module, source):
    """Returns the C++ text, and a list of what could not be translated."""
    writer = FileWriter(module, source)
    text = writer.write()
    return text, writer.errors
