#!/usr/bin/env python3
"""Checks that the link targets in the project's Markdown pages exist: files, and headings of pages.

usage: links.py ROOT
"""

import os
import re
import subprocess
import sys

NOT_TEXT = re.compile(r"^ *```.*?^ *```|<!--.*?-->", re.S | re.M)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.M)


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return NOT_TEXT.sub("", file.read())


def anchors_of(path):
    """The anchors that GitHub makes from a page's headings."""
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text_of(path)))
    return {word.replace(" ", "-") for word in words}


def main():
    root = sys.argv[1]
    pages = subprocess.run(["git", "-C", root, "ls-files", "*.md"], capture_output=True, text=True, check=False)
    if pages.returncode != 0:
        print("skipped: not a git checkout")
        return 77
    count, broken = 0, []
    for page in pages.stdout.split():
        for link in LINK.findall(re.sub(r"`[^`\n]*`", "", text_of(os.path.join(root, page)))):
            if "://" in link:
                continue
            count += 1
            path, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(root, os.path.dirname(page), path or os.path.basename(page)))
            if not os.path.exists(target):
                broken.append(f"{page}: {link}: there is no such file")
            elif anchor and anchor not in anchors_of(target):
                broken.append(f"{page}: {link}: {os.path.relpath(target, root)} has no such heading")
    print("\n".join(broken) or f"{count} links")
    return 1 if broken or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
