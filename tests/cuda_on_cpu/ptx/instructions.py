"""Turns one PTX instruction into a C statement. An unknown opcode, or a modifier that its function does not take, is
an error: nothing is silently ignored."""

import math
import re
import struct

from module import BYTES

HANDLERS = {}
SPECIAL = {
    **{f"%tid.{d}": f"t->index.{d}" for d in "xyz"},
    **{f"%ctaid.{d}": f"t->block_index->{d}" for d in "xyz"},
    **{f"%ntid.{d}": f"t->block_size->{d}" for d in "xyz"},
    **{f"%nctaid.{d}": f"t->grid_size->{d}" for d in "xyz"},
    "%laneid": "t->linear % 32",
    "%warpid": "t->linear / 32",
    "%lanemask_eq": "1u << t->linear % 32",
    "%lanemask_lt": "(1u << t->linear % 32) - 1",
    "%lanemask_le": "(2u << t->linear % 32) - 1",
    "%lanemask_gt": "~((2u << t->linear % 32) - 1)",
    "%lanemask_ge": "~((1u << t->linear % 32) - 1)",
    "WARP_SZ": "32u",
}
SCOPES = ("cta", "cluster", "gpu", "sys")
CACHE_HINTS = ("ca", "cg", "cs", "lu", "cv", "wb", "wt")


class Untranslated(Exception):
    pass


def c_type(ptx_type):
    return "bool" if ptx_type == "pred" else ptx_type.replace("b", "u")


def register(name):
    return "v_" + name.replace("%", "").replace("$", "_")


def label(name):
    return name.replace("$", "_")


def is_float(kind):
    return kind[0] == "f"


def converted(target, source, text):
    """C that reads a value of the type `source` as `target`: the same bits, or the lowest bits of an integer."""
    if target == source:
        return text
    if not is_float(target) and not is_float(source):
        return f"({target})({text})"
    if target[1:] != source[1:]:
        raise Untranslated()
    if is_float(target):
        return f"simt_{target}_of_bits({text})"
    return f"({target})simt_bits_of_{source}({text})"


def unsigned(kind):
    return "u" + kind[1:]


def opcodes(*names):
    def add(handler):
        for name in names:
            HANDLERS[name] = handler
        return handler
    return add


class Context:
    """An instruction about to be translated, and the symbols it may name."""

    def __init__(self, instruction, symbols, registers, goes_back):
        self.name, *self.modifiers = instruction.opcode.split(".")
        self.operands = instruction.operands
        self.site = instruction.site
        self.symbols = symbols
        self.registers = registers  # the C types of those that are declared here, by name
        self.goes_back = goes_back  # whether a jump to this label goes backward

    # Modifiers: each is taken once, and any left at the end are an error.
    def flag(self, name):
        if name in self.modifiers:
            self.modifiers.remove(name)
            return True
        return False

    def choice(self, *names):
        found = [name for name in names if self.flag(name)]
        return found[0] if found else None

    def type(self):
        """Takes the last modifier, which is a type."""
        if not self.modifiers or (self.modifiers[-1] not in BYTES and self.modifiers[-1] != "pred"):
            raise Untranslated()
        return self.modifiers.pop()

    # Operands.
    def value(self, index, kind):
        return self.expression(self.operands[index], kind)

    def expression(self, text, kind):
        target = c_type(kind)
        if text in SPECIAL:
            return converted(target, "u32", f"(u32)({SPECIAL[text]})")
        if text[0] == "!":
            return f"!{register(text[1:])}"
        if re.fullmatch(r"0[fF][0-9A-Fa-f]{8}", text):
            number = struct.unpack(">f", bytes.fromhex(text[2:]))[0]
            if kind == "f32" and math.isfinite(number):
                return f"({number.hex()}f)"
            return converted(target, "u32", f"0x{text[2:]}u")
        if re.fullmatch(r"0[dD][0-9A-Fa-f]{16}", text):
            return converted(target, "u64", f"0x{text[2:]}ull")
        if re.fullmatch(r"-?(0x[0-9A-Fa-f]+|\d+)U?", text):
            number = int(text.rstrip("U"), 0)
            if kind == "pred":
                return "true" if number else "false"
            bits = 8 * BYTES[kind]
            return converted(target, f"u{bits}", f"(u{bits}){number & ((1 << bits) - 1):#x}ull")
        if text in self.symbols:
            return converted(target, "u64", self.symbols[text].address(0))
        if text in self.registers:
            return converted(target, self.registers[text], register(text)) if kind != "pred" else register(text)
        raise Untranslated()

    def elements(self, index):
        """The elements of an operand in braces, or the operand itself."""
        text = self.operands[index]
        return [part.strip() for part in text[1:-1].split(",")] if text[0] == "{" else [text]

    def address(self, index):
        """Symbol (or None), C expression and constant offset of an operand in brackets."""
        match = re.fullmatch(r"\[\s*([^+\s]+?)\s*(?:\+\s*(-?\d+))?\s*\]", self.operands[index])
        base, offset = match[1], int(match[2] or 0)
        if base in self.symbols:
            return self.symbols[base], self.symbols[base].address(offset), offset
        start = self.expression(base, "u64")
        return None, f"{start} + (u64)({offset}ll)" if offset else start, offset

    # Results.
    def put_to(self, target, kind, expression):
        if target == "_":
            return f"(void)({expression});"
        if kind == "pred":
            return f"{register(target)} = {expression};"
        value = f"({c_type(kind)})({expression})"
        return f"{register(target)} = {converted(self.registers[target], c_type(kind), value)};"

    def put(self, kind, expression):
        return self.put_to(self.operands[0], kind, expression)


def translate(instruction, symbols, registers, goes_back):
    context = Context(instruction, symbols, registers, goes_back)
    try:
        statement = HANDLERS[context.name](context)
    except (KeyError, IndexError, TypeError) as error:
        raise Untranslated() from error
    if context.modifiers:
        raise Untranslated()
    guard = instruction.guard
    if guard is None:
        return statement
    condition = f"!{register(guard[1:])}" if guard[0] == "!" else register(guard)
    return f"if ({condition}) {{ {statement} }}"


# ---- arithmetic --------------------------------------------------------------------------------------------------


DIRECTIONS = {"rz": "zero", "rm": "minus_infinity", "rp": "plus_infinity"}


def directed(c, kind, a, b, d):
    """a * b + d with the instruction's rounding, or None if it rounds to nearest."""
    rounding = c.choice(*DIRECTIONS) if kind == "f32" else None
    return rounding and c.put(kind, f"simt_fma_toward_{DIRECTIONS[rounding]}({a}, {b}, {d})")


def float_operation(c, kind, count, form):
    c.flag("rn")
    flushes, saturates = c.flag("ftz"), c.flag("sat")
    values = [c.value(i + 1, kind) for i in range(count)]
    result = form(*([f"simt_flush_{kind}({v})" for v in values] if flushes else values))
    if flushes:
        result = f"simt_flush_{kind}({result})"
    return c.put(kind, f"simt_saturate_{kind}({result})" if saturates else result)


def integer_values(c, kind, indices):
    """Unsigned, and no narrower than int, so that nothing overflows."""
    wide = "u64" if BYTES[kind] == 8 else "u32"
    return [f"({wide})({c.value(i, unsigned(kind))})" for i in indices]


def carried(c, total):
    """A u32 result from its sum in u64. With .cc, the carry or borrow goes to the flag."""
    keeps = "t->carry = total >> 32 & 1; " if c.flag("cc") else ""
    return f"{{ const u64 total = {total}; {keeps}{c.put('u32', 'total')} }}"


@opcodes("add", "sub", "addc", "subc")
def add(c):
    kind, sign = c.type(), "+" if c.name.startswith("add") else "-"
    if "cc" in c.modifiers or c.name.endswith("c"):
        if BYTES[kind] != 4 or is_float(kind):
            raise Untranslated()
        into = f" {sign} t->carry" if c.name.endswith("c") else ""
        return carried(c, f"(u64)({c.value(1, 'u32')}) {sign} (u64)({c.value(2, 'u32')}){into}")
    if is_float(kind):
        b = c.value(2, kind)
        return (directed(c, kind, "1.0f", c.value(1, kind), f"simt_negate_{kind}({b})" if sign == "-" else b) or
                float_operation(c, kind, 2, lambda a, b: f"{a} {sign} {b}"))
    a, b = integer_values(c, kind, (1, 2))
    return c.put(unsigned(kind), f"{a} {sign} {b}")


def product(c, kind, part):
    """The product of operands 1 and 2: its type and expression."""
    if part == "wide":
        wide = kind[0] + str(2 * int(kind[1:]))
        return wide, f"({wide})({c.value(1, kind)}) * ({wide})({c.value(2, kind)})"
    if part == "hi":
        return kind, f"simt_multiply_high_{c_type(kind)}({c.value(1, kind)}, {c.value(2, kind)})"
    a, b = integer_values(c, kind, (1, 2))
    return kind, f"{a} * {b}"


@opcodes("mul")
def mul(c):
    kind = c.type()
    if is_float(kind):
        a, b = c.value(1, kind), c.value(2, kind)
        return (directed(c, kind, a, b, f"simt_copysign_f32(0.0f, {a} * {b})") or
                float_operation(c, kind, 2, lambda a, b: f"{a} * {b}"))
    return c.put(*product(c, kind, c.choice("lo", "hi", "wide")))


@opcodes("mad", "madc", "fma")
def mad(c):
    kind = c.type()
    if "cc" in c.modifiers or c.name == "madc":
        if kind != "u32":
            raise Untranslated()
        part = product(c, kind, c.choice("lo", "hi"))[1]
        into = " + t->carry" if c.name == "madc" else ""
        return carried(c, f"(u64)(u32)({part}) + (u64)({c.value(3, 'u32')}){into}")
    if is_float(kind):
        return (directed(c, kind, c.value(1, kind), c.value(2, kind), c.value(3, kind)) or
                float_operation(c, kind, 3, lambda a, b, d: f"simt_fma_{kind}({a}, {b}, {d})"))
    wide, result = product(c, kind, c.choice("lo", "hi", "wide"))
    target = unsigned(wide)
    return c.put(target, f"(u64)({result}) + (u64)({c.value(3, target)})")


@opcodes("div")
def div(c):
    kind = c.type()
    if is_float(kind):
        c.choice("approx", "full")
        return float_operation(c, kind, 2, lambda a, b: f"{a} / {b}")
    return c.put(kind, f"simt_divide_{c_type(kind)}({c.value(1, kind)}, {c.value(2, kind)})")


@opcodes("rem")
def rem(c):
    kind = c.type()
    return c.put(kind, f"simt_remainder_{c_type(kind)}({c.value(1, kind)}, {c.value(2, kind)})")


@opcodes("neg", "abs")
def negate(c):
    kind = c.type()
    if is_float(kind):
        return float_operation(c, kind, 1, lambda a: f"simt_{'negate' if c.name == 'neg' else 'fabs'}_{kind}({a})")
    (a,) = integer_values(c, kind, (1,))
    if c.name == "neg":
        return c.put(unsigned(kind), f"0 - {a}")
    return c.put(unsigned(kind), f"{c.value(1, kind)} < 0 ? 0 - {a} : {a}")


@opcodes("min", "max")
def minimum(c):
    kind = c.type()
    if is_float(kind):
        function = f"simt_{'nan_' if c.flag('NaN') else ''}{c.name}imum_{kind}"
        return float_operation(c, kind, 2, lambda a, b: f"{function}({a}, {b})")
    return c.put(kind, f"simt_{c.name}_{c_type(kind)}({c.value(1, kind)}, {c.value(2, kind)})")


@opcodes("rcp")
def rcp(c):
    kind = c.type()
    if kind == "f64" and c.flag("approx"):
        c.flag("ftz")
        return c.put(kind, f"simt_rcp_upper_half({c.value(1, kind)})")
    c.flag("approx")
    return float_operation(c, kind, 1, lambda a: f"({kind})1 / {a}")


@opcodes("sqrt")
def sqrt(c):
    kind = c.type()
    c.flag("approx")
    return float_operation(c, kind, 1, lambda a: f"simt_sqrt_{kind}({a})")


@opcodes("rsqrt", "ex2", "lg2", "sin", "cos", "tanh")
def approximate(c):
    kind = c.type()
    function = {"ex2": "exp2", "lg2": "log2"}.get(c.name, c.name) + f"_approx_{kind}"
    if not c.flag("approx") or (kind != "f32" and c.name != "rsqrt"):
        raise Untranslated()
    return float_operation(c, kind, 1, lambda a: f"simt_{function}({a})")


@opcodes("copysign")
def copysign(c):
    kind = c.type()
    return c.put(kind, f"simt_copysign_{kind}({c.value(2, kind)}, {c.value(1, kind)})")


# ---- bits --------------------------------------------------------------------------------------------------------


@opcodes("and", "or", "xor")
def logic(c):
    kind, sign = c.type(), {"and": "&", "or": "|", "xor": "^"}[c.name]
    return c.put(kind, f"{c.value(1, kind)} {sign} {c.value(2, kind)}")


@opcodes("not")
def logic_not(c):
    kind = c.type()
    return c.put(kind, f"!{c.value(1, kind)}" if kind == "pred" else f"~{c.value(1, kind)}")


@opcodes("shl", "shr")
def shift(c):
    kind, side = c.type(), {"shl": "left", "shr": "right"}[c.name]
    by = c.operands[2]
    if by.isdigit() and int(by) < 8 * BYTES[kind]:  # built-in: tcc inlines no function
        return c.put(kind, f"{c.value(1, kind)} {'<<' if side == 'left' else '>>'} {by}")
    return c.put(kind, f"simt_shift_{side}_{c_type(kind)}({c.value(1, kind)}, {c.value(2, 'u32')})")


@opcodes("shf")
def funnel_shift(c):
    c.type()
    side, how = c.choice("l", "r"), c.choice("wrap", "clamp")
    by = f"{c.value(3, 'u32')} & 31" if how == "wrap" else f"simt_min_u32({c.value(3, 'u32')}, 32)"
    function = {"l": "simt_funnel_left", "r": "simt_funnel_right"}[side]
    return c.put("u32", f"{function}({c.value(1, 'u32')}, {c.value(2, 'u32')}, {by})")


@opcodes("bfi")
def bfi(c):
    kind = c.type()
    return c.put(kind, f"simt_insert_bits_{c_type(kind)}({c.value(1, kind)}, {c.value(2, kind)}, "
                       f"{c.value(3, 'u32')}, {c.value(4, 'u32')})")


@opcodes("bfe")
def bfe(c):
    kind = c.type()
    return c.put(kind, f"simt_extract_bits_{c_type(kind)}({c.value(1, kind)}, {c.value(2, 'u32')}, "
                       f"{c.value(3, 'u32')})")


@opcodes("popc", "clz", "brev", "bfind")
def count_bits(c):
    kind = c.type()
    function = {"popc": "popcount", "clz": "countl_zero", "brev": "reverse_bits",
                "bfind": "shift_to_highest" if c.flag("shiftamt") else "find_highest"}[c.name]
    return c.put(kind if c.name == "brev" else "u32", f"simt_{function}_{c_type(kind)}({c.value(1, kind)})")


@opcodes("prmt")
def prmt(c):
    c.type()
    return c.put("u32", f"simt_permute({c.value(1, 'u32')}, {c.value(2, 'u32')}, {c.value(3, 'u32')})")


@opcodes("lop3")
def lop3(c):
    c.type()
    return c.put("u32", "simt_lookup_bits(" + ", ".join(c.value(i, "u32") for i in range(1, 5)) + ")")


# ---- comparison and choice ---------------------------------------------------------------------------------------

COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
               "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
# Also true for a NaN: the negated opposite comparison, which a NaN makes false.
UNORDERED = {"equ": ("{a} < {b} || {a} > {b}", True), "neu": ("{a} == {b}", True), "ltu": ("{a} >= {b}", True),
             "leu": ("{a} > {b}", True), "gtu": ("{a} <= {b}", True), "geu": ("{a} < {b}", True),
             "num": ("{a} != {a} || {b} != {b}", True), "nan": ("{a} != {a} || {b} != {b}", False)}


@opcodes("setp")
def setp(c):
    kind = c.type()
    flushes = c.flag("ftz")
    joined = c.choice("and", "or", "xor")
    comparison = c.choice(*COMPARISONS, *UNORDERED)
    a, b = c.value(1, kind), c.value(2, kind)
    if flushes:
        a, b = f"simt_flush_{kind}({a})", f"simt_flush_{kind}({b})"
    if comparison in UNORDERED:
        form, negated = UNORDERED[comparison]
        result = ("!" if negated else "") + "(" + form.format(a=a, b=b) + ")"
    elif comparison == "ne" and is_float(kind):
        result = f"({a} < {b} || {a} > {b})"
    else:
        result = f"({a} {COMPARISONS[comparison]} {b})"
    targets = [target.strip() for target in c.operands[0].split("|")]
    sign = {"and": "&&", "or": "||", "xor": "!=", None: None}[joined]
    results = [result, f"!{result}"]
    if sign is not None:
        results = [f"({r} {sign} {c.value(3, 'pred')})" for r in results]
    if len(targets) == 1:
        return c.put_to(targets[0], "pred", results[0])
    return (f"{{ const bool yes = {results[0]}, no = {results[1]}; " + c.put_to(targets[0], "pred", "yes") + " " +
            c.put_to(targets[1], "pred", "no") + " }")


@opcodes("selp")
def selp(c):
    kind = c.type()
    return c.put(kind, f"{c.value(3, 'pred')} ? {c.value(1, kind)} : {c.value(2, kind)}")


# ---- moves and conversions ---------------------------------------------------------------------------------------


@opcodes("mov")
def mov(c):
    kind = c.type()
    targets, sources = c.elements(0), c.elements(1)
    if len(targets) == 1 and len(sources) == 1:
        return c.put(kind, c.value(1, kind))
    part = 8 * BYTES[kind] // max(len(targets), len(sources))
    whole, piece = f"u{8 * BYTES[kind]}", f"u{part}"
    if len(targets) > 1:
        pieces = " ".join(c.put_to(target, piece, f"whole >> {i * part}") for i, target in enumerate(targets)
                          if target != "_")
        return f"{{ const {whole} whole = {c.value(1, whole)}; {pieces} }}"
    joined = " | ".join(f"({whole})({c.expression(source, piece)}) << {i * part}" for i, source in enumerate(sources))
    return c.put(whole, joined)


ROUNDINGS = {"rni": "nearbyint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@opcodes("cvt")
def cvt(c):
    packed = c.choice("f16x2", "bf16x2")
    if packed is not None:  # two floats; the first goes to the upper half
        if c.modifiers != ["rn", "f32"]:
            raise Untranslated()
        c.modifiers.clear()
        function = {"f16x2": "simt_half_of_float", "bf16x2": "simt_bfloat16_of_float"}[packed]
        return c.put("u32", f"(u32){function}({c.value(1, 'f32')}) << 16 | {function}({c.value(2, 'f32')})")
    if c.flag("f16"):  # a float from or to binary16, which registers hold as 16 bits
        if c.modifiers == ["f32"]:
            c.modifiers.clear()
            return c.put("f32", f"simt_float_of_half({c.value(1, 'u16')})")
        if c.modifiers == ["rn", "f32"]:
            c.modifiers.clear()
            return c.put("u16", f"simt_half_of_float({c.value(1, 'f32')})")
        raise Untranslated()
    if c.flag("bf16"):  # the upper half of a float, which registers hold as 16 bits
        if c.modifiers == ["rn", "f32"]:
            c.modifiers.clear()
            return c.put("u16", f"simt_bfloat16_of_float({c.value(1, 'f32')})")
        raise Untranslated()
    source, target = c.type(), c.type()
    value = c.value(1, source)
    to_integer_by, flushes, saturates = c.choice(*ROUNDINGS), c.flag("ftz"), c.flag("sat")
    if flushes and source == "f32":
        value = f"simt_flush_f32({value})"
    if to_integer_by is not None:
        value = f"simt_{ROUNDINGS[to_integer_by]}_{source}({value})"
    if not is_float(target):
        if is_float(source):
            if to_integer_by is None:
                raise Untranslated()
            return c.put(target, f"simt_{c_type(target)}_from_{source}({value})")
        if saturates:
            raise Untranslated()
        return c.put(target, value)
    c.flag("rn")
    result = f"({target})({value})" if is_float(source) else f"simt_{target}_from_{c_type(source)}({value})"
    if flushes and target == "f32":
        result = f"simt_flush_f32({result})"
    return c.put(target, f"simt_saturate_{target}({result})" if saturates else result)


@opcodes("cvta")
def cvta(c):
    kind, to = c.type(), c.flag("to")
    space = c.choice("global", "shared", "local", "const", "param")
    value = c.value(1, "u64")
    if space == "shared":
        value = f"simt_shared_of_generic(t, {value})" if to else f"simt_generic_of_shared(t, {value})"
    return c.put(kind, value)


# ---- memory ------------------------------------------------------------------------------------------------------


def state_space(c):
    c.flag("nc")  # the read-only cache
    c.choice(*CACHE_HINTS)
    for hint in [m for m in c.modifiers if m.startswith(("L1::", "L2::"))]:
        c.flag(hint)
    space = c.choice("global", "const", "shared", "shared::cta", "local", "param", "param::entry", "param::func")
    return "generic" if space is None else {"const": "global"}.get(space, space.split("::")[0])


def width(c):
    return int((c.choice("v2", "v4", "v8") or "v1")[1:])


def plain_parameter(c, space, symbol, offset, size):
    """The C pointer to a parameter that is named directly; None otherwise."""
    if space != "param" or symbol is None:
        return None
    if offset + size > symbol.bytes:
        raise Untranslated()
    return symbol.pointer(offset)


def access(c, space, address, size, kind, sense=None):
    if space == "param":
        return f"simt_parameter(t, {address}, {size}, {c.site})"
    return f"simt_{space}(t, {address}, {size}, kind_{kind}, {c.site}, sense_{SENSES.get(sense, 'relaxed')})"


def scope(c):
    """The scope of a strong access or a fence: "block" if it synchronises only the threads of the block."""
    return "block" if c.choice(*SCOPES) == "cta" else "device"


SENSES = {"acquire": "acquire", "release": "release", "acq_rel": "both"}


def accessed(c, operand, size, verb, ordered):
    """The C pointer to what a load or a store accesses. `ordered` is its strength beyond relaxed."""
    space, strength, reach = state_space(c), c.choice("weak", "volatile", "relaxed", ordered), scope(c)
    symbol, address, offset = c.address(operand)
    place = plain_parameter(c, space, symbol, offset, size)
    if place is not None:
        return place
    if space == "param" and verb == "write":
        raise Untranslated()
    how = verb if strength in (None, "weak") else f"{reach}_{verb}"
    return access(c, space, address, size, how, strength)


@opcodes("ld")
def load(c):
    kind, count = c.type(), width(c)
    place = accessed(c, 1, count * BYTES[kind], "read", "acquire")
    targets = c.elements(0)
    if count == 1:
        return c.put(kind, f"SIMT_READ({c_type(kind)}, {place})")
    parts = " ".join(c.put_to(target, kind, f"SIMT_READ({c_type(kind)}, from + {i * BYTES[kind]})")
                     for i, target in enumerate(targets) if target != "_")
    return f"{{ const char* from = {place}; {parts} }}"


@opcodes("st")
def store(c):
    kind, count = c.type(), width(c)
    place = accessed(c, 0, count * BYTES[kind], "write", "release")
    parts = " ".join(f"SIMT_WRITE({c_type(kind)}, to + {i * BYTES[kind]}, {c.expression(source, kind)});"
                     for i, source in enumerate(c.elements(1)))
    return f"{{ char* to = {place}; {parts} }}"


ATOMIC_CHANGES = {"min": "simt_min_{T}(old, {b})", "max": "simt_max_{T}(old, {b})", "exch": "{b}",
                  "and": "old & {b}", "or": "old | {b}", "xor": "old ^ {b}", "cas": "old == {b} ? {d} : old",
                  "inc": "simt_increment_{T}(old, {b})", "dec": "simt_decrement_{T}(old, {b})"}


def float_sum(space, address, kind, b):
    """atom.add.f32 flushes subnormal numbers in global memory, but not in shared memory."""
    kept, flushed = f"old + {b}", f"simt_flush_f32(simt_flush_f32(old) + simt_flush_f32({b}))"
    if kind != "f32" or space == "shared":
        return kept
    return flushed if space == "global" else f"(simt_is_shared(t, {address}) ? {kept} : {flushed})"


@opcodes("atom", "red")
def atomic(c):
    kind, space = c.type(), state_space(c)
    sense, reach = c.choice("relaxed", "acquire", "release", "acq_rel"), scope(c)
    operation = c.choice("add", *ATOMIC_CHANGES)
    first = 1 if c.name == "atom" else 0
    _, address, _ = c.address(first)
    target = c_type(kind)
    b = c.value(first + 1, kind)
    if operation == "add":
        change = float_sum(space, address, kind, b) if is_float(kind) else f"(u64)old + (u64)({b})"
    else:
        d = c.value(first + 2, kind) if operation == "cas" else ""
        change = ATOMIC_CHANGES[operation].format(T=target, b=b, d=d)
    place = access(c, space, address, BYTES[kind], f"{reach}_atomic", sense)
    if operation == "cas":  # one that fails only reads
        looked = access(c, space, address, BYTES[kind], f"{reach}_read", sense if sense != "release" else None)
        looked = looked.replace("sense_both", "sense_acquire")
        found = f"char* at = {looked}; if (SIMT_READ({target}, at) == {b}) at = {place};"
    else:
        found = f"char* at = {place};"
    keeps = c.put(kind, "old") if c.name == "atom" else ""
    return (f"{{ {found} const {target} old = SIMT_READ({target}, at); "
            f"SIMT_WRITE({target}, at, ({target})({change})); {keeps} }}")


@opcodes("membar", "fence")
def fence(c):
    sequential = c.choice("sc", "acq_rel") != "acq_rel"  # membar and fence.sc
    reach = "device" if c.flag("gl") else scope(c)
    return f"simt_fence(t, {str(reach == 'block').lower()}, {str(sequential).lower()});"


# ---- threads together --------------------------------------------------------------------------------------------


@opcodes("bar")
def barrier(c):
    if c.flag("warp"):
        c.flag("sync")
        return f"simt_warp_sync(t, {c.value(0, 'u32')}, {c.site});"
    c.flag("cta")
    c.flag("aligned")
    if c.flag("sync"):
        if c.operands != ["0"]:
            raise Untranslated()
        return f"simt_block_barrier(t, {c.site});"
    c.flag("red")
    kind, operation = c.type(), c.choice("popc", "and", "or")
    if len(c.operands) != 3 or c.operands[1] != "0":
        raise Untranslated()
    function = {"popc": "barrier_count", "and": "barrier_and", "or": "barrier_or"}[operation]
    return c.put(kind, f"simt_{function}(t, {c.value(2, 'pred')}, {c.site})")


@opcodes("shfl")
def shfl(c):
    c.type()
    if not c.flag("sync"):
        raise Untranslated()
    mode = {"up": "up", "down": "down", "bfly": "butterfly", "idx": "index"}[c.choice("up", "down", "bfly", "idx")]
    targets = c.operands[0].split("|")
    call = (f"simt_shuffle(t, shuffle_{mode}, {c.value(1, 'u32')}, {c.value(2, 'u32')}, {c.value(3, 'u32')}, "
            f"{c.value(4, 'u32')}, &in_range, {c.site})")
    predicate = c.put_to(targets[1], "pred", "in_range") if len(targets) > 1 else ""
    return f"{{ bool in_range; {c.put_to(targets[0], 'u32', call)} {predicate} }}"


@opcodes("vote")
def vote(c):
    kind = c.type()
    if not c.flag("sync"):
        raise Untranslated()
    function = {"all": "vote_all", "any": "vote_any", "uni": "vote_uniform",
                "ballot": "ballot"}[c.choice("all", "any", "uni", "ballot")]
    return c.put(kind, f"simt_{function}(t, {c.value(1, 'pred')}, {c.value(2, 'u32')}, {c.site})")


@opcodes("redux")
def redux(c):
    kind, operation = c.type(), c.choice("add", "min", "max", "and", "or", "xor")
    if not c.flag("sync") or is_float(kind):
        raise Untranslated()
    name = f"reduce_{operation}" + (f"_{kind}" if operation in ("min", "max") else "")
    return c.put("u32", f"simt_reduce(t, warp_op_{name}, {c.value(1, 'u32')}, {c.value(2, 'u32')}, {c.site})")


@opcodes("mma")
def mma(c):
    """A product of 16 x 16 and 16 x 8 16-bit floats, added to 16 x 8 f32 sums."""
    kind = c.choice("bf16", "f16")
    if c.modifiers != ["sync", "aligned", "m16n8k16", "row", "col", "f32", kind, "f32"]:
        raise Untranslated()
    c.modifiers.clear()
    parts = [", ".join(c.expression(text, type) for text in c.elements(i))
             for i, type in ((1, "u32"), (2, "u32"), (3, "f32"))]
    sums = " ".join(c.put_to(target, "f32", f"part.sums[{i}]") for i, target in enumerate(c.elements(0)))
    braced = ", ".join(f"{{{part}}}" for part in parts)
    return f"{{ MatrixPart part = {{{braced}}}; simt_multiply(t, warp_op_multiply_{kind}, &part, {c.site}); {sums} }}"


@opcodes("match")
def match(c):
    kind, how = c.type(), c.choice("any", "all")
    if not c.flag("sync"):
        raise Untranslated()
    value, mask = c.value(1, kind), c.value(2, "u32")
    if how == "any":
        return c.put("u32", f"simt_match_any(t, {value}, {mask}, {c.site})")
    targets = c.operands[0].split("|")
    predicate = c.put_to(targets[1], "pred", "all") if len(targets) > 1 else ""
    call = f"simt_match_all(t, {value}, {mask}, &all, {c.site})"
    return f"{{ bool all; {c.put_to(targets[0], 'u32', call)} {predicate} }}"


# ---- control -----------------------------------------------------------------------------------------------------


@opcodes("bra")
def bra(c):
    c.flag("uni")
    tick = f"simt_tick(t, {c.site}); " if c.goes_back(c.operands[0]) else ""
    return f"{tick}goto {label(c.operands[0])};"


@opcodes("ret", "exit")
def ret(c):
    c.flag("uni")
    return "goto simt_end;"


@opcodes("trap")
def trap(c):
    return f"simt_trap(t, {c.site});"


@opcodes("nanosleep")
def nanosleep(c):
    c.type()
    return "simt_yield(t);"


@opcodes("call")
def call(c):
    c.flag("uni")
    operands = list(c.operands)
    returned = operands.pop(0)[1:-1].split(",") if operands[0][0] == "(" else []
    name = operands.pop(0)
    passed = operands.pop(0)[1:-1].split(",") if operands else []
    pointers = [c.symbols[p.strip()].pointer(0) for p in returned + passed if p.strip()]
    if name == "cudaGraphSetConditional":
        return (f"simt_set_conditional(t, SIMT_READ(u64, {pointers[-2]}), SIMT_READ(u32, {pointers[-1]}), "
                f"{c.site});")
    return f"{c.symbols[name]}({', '.join(['t'] + pointers)});"
