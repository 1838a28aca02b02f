#!/usr/bin/env python3
"""Copies the public headers for Doxygen, with giro's plain comments marked as documentation.

usage: api.py ROOT TARGET_FOLDER

A comment above a declaration documents it, and so does one after it on its line; a comment followed by a blank line
describes the file. Indented lines of a comment are code or a table, and stay as they are. Line numbers do not change.
"""

import pathlib
import re
import sys

COMMENT = re.compile(r"(?P<indent> *)//(?P<text>( .*)?)$")
REQUIRES = re.compile(r"(?<=\n) +requires [^\n]*(?=\n +\{)")  # before a body, where Doxygen 1.9 does not parse it
TRAILING = re.compile(r"(?!struct|class)(?P<code> *[^ /].*[^ {])(?P<gap> +)// (?P<text>.*)$")
MAIN_PAGE = """/** \\mainpage The public headers
[Back to the pages](../index.html). Programs include `<giro/giro.h>`, `<giro/jaxloop.h>` or `<giro/flip.h>`; the
[files](files.html) are the headers that these include, and [the overview](../api.html) says which of them has what. */
"""


def escaped(text):
    """The text as Doxygen shows it unchanged; code in backticks as it is."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\@<>#%&])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def block(indent, texts):
    """A comment above a declaration."""
    lines, in_code = [], False
    for number, text in enumerate(texts):
        following = texts[number + 1] if number + 1 < len(texts) else ""
        is_code, goes_on = text.startswith("   "), following.startswith("   ") or (not following and any(
            later.startswith("   ") for later in texts[number + 1:number + 3]))
        # Doxygen takes a comment within code for its own end.
        line = re.sub(r"/[*].*?[*]/", "", text) if is_code or (in_code and not text) else escaped(text)
        if not in_code and not is_code and following.startswith("   "):
            line, in_code = line + " @code{.cpp}", True
        elif in_code and not goes_on:
            line, in_code = line + " @endcode", False
        lines.append(f"{indent}///{line}")
    return lines


def documented(lines):
    result, comment, column = [], [], None
    has_file_text = False
    for line in [*lines, ""]:
        match = COMMENT.match(line)
        if match and column is not None and len(match["indent"]) == column:  # goes on with the line above
            result[-1] = result[-1].removesuffix(" */")
            result.append(f"{match['indent']}  {escaped(match['text'])} */")
            continue
        if match:
            comment.append(match)
            continue
        if comment:
            indent, texts = comment[0]["indent"], [part["text"] for part in comment]
            if line.strip():
                result += block(indent, texts)
            elif has_file_text or result[-1].strip():
                result += [part.group() for part in comment]
            else:
                result[-1:] = [f"{indent}/// \\file", *block(indent, texts)]
                has_file_text = True
            comment = []
        trailing = TRAILING.match(line)
        column = len(trailing["code"] + trailing["gap"]) if trailing else None
        result.append(f"{trailing['code']}  /**< \\brief {escaped(trailing['text'])} */" if trailing else line)
    return result


def public_headers(root):
    """Their paths. Umbrella headers, which have no folder, declare nothing."""
    listed = (root / "cmake" / "public_headers.txt").read_text(encoding="utf-8").split()
    return [name for name in listed if "/" in name]


def main(root, target):
    for name in public_headers(pathlib.Path(root)):
        text = REQUIRES.sub("", pathlib.Path(root, name).read_text(encoding="utf-8"))
        copy = pathlib.Path(target, name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text("\n".join(documented(text.splitlines())), encoding="utf-8")
    pathlib.Path(target, "main.h").write_text(MAIN_PAGE, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
