"""A hook of mkdocs: makes the repository's files, which pages link to, part of the site.

Pages link to files as on GitHub, by relative paths. README.md is the site's front page. A public header is a page of
the API reference, any other file outside docs/ a page with its text, and a folder a page with a list of its files.
"""

import os
import pathlib
import re
import subprocess
import xml.etree.ElementTree

from mkdocs.structure.files import File, InclusionLevel

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-docs"
# Text that is no code, and links.
PARTS = re.compile(r"(^ *```.*?^ *```|`[^`\n]*`|<!--.*?-->)", re.S | re.M)
LINK = re.compile(r"(?<=\]\()([^)\s#]+)")
LANGUAGES = {".h": "cpp", ".cpp": "cpp", ".cu": "cuda", ".py": "python", ".sh": "bash", ".txt": "cmake", "": "text"}

ITEM = re.compile(r"(- |\d+\. )")

headers = {}  # pages of the API reference, by path


def api_pages():
    for compound in xml.etree.ElementTree.parse(BUILD / "api.tag").iter("compound"):
        if compound.get("kind") == "file":
            headers[compound.findtext("path") + compound.findtext("name")] = f"api/{compound.findtext('filename')}"


def page_of(path):
    """The site's file for a file of the repository."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path in headers:
        return headers[path]
    if (ROOT / path).is_dir():
        return page_of(f"{path}/README.md") if (ROOT / path / "README.md").exists() else f"source/{path}/index.md"
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def text_of(path):
    """The Markdown of a file of the repository, which has no page in docs/."""
    file = ROOT / path
    if path.endswith(".md"):
        return file.read_text(encoding="utf-8")
    if file.is_dir():
        listed = subprocess.run(["git", "-C", file, "ls-files"], capture_output=True, text=True, check=True).stdout
        return f"# {path}/\n\n" + "".join(f"- [{name}]({name})\n" for name in listed.split())
    language = LANGUAGES.get(file.suffix, "text")
    return f"# {path}\n\n````{language}\n{file.read_text(encoding='utf-8')}\n````\n"


def links_of(path, text):
    """The files of the repository that a file links to."""
    for part in PARTS.split(text)[::2]:
        for link in LINK.findall(part):
            target = os.path.normpath(os.path.join(os.path.dirname(path) if not (ROOT / path).is_dir() else path, link))
            if "://" not in link and (ROOT / target).exists():
                yield link, target


def on_files(files, config):
    api_pages()
    for file in sorted((BUILD / "api").rglob("*")):
        if file.is_file():
            name = file.relative_to(BUILD).as_posix()
            files.append(File(name, str(BUILD), config.site_dir, config.use_directory_urls))
    waiting = ["README.md", *(f"docs/{file.src_uri}" for file in files.documentation_pages())]
    known = set(waiting)
    while waiting:
        path = waiting.pop()
        text = text_of(path)
        if not path.startswith("docs/"):
            generated = File.generated(config, page_of(path), content=text, inclusion=InclusionLevel.NOT_IN_NAV)
            generated.repository_path = path
            files.append(generated)
        for _, target in links_of(path, text):
            if target not in known and not target.startswith("docs/") and target not in headers:
                known.add(target)
                waiting.append(target)
    return files


def lists(markdown):
    """Lists as Python-Markdown wants them: after a blank line, and what belongs to an item indented by four."""
    lines, marker, in_code = [""], 0, False
    for line in markdown.splitlines():
        fenced = line.startswith("```")
        item = not in_code and ITEM.match(line)
        if item:
            if not marker and lines[-1].strip():
                lines.append("")
            marker = len(item[0])
        elif line.strip() and not line.startswith(" "):
            marker = 0
        lines.append(" " * (4 - marker) + line if marker and line.startswith(" ") else line)
        in_code ^= fenced
    return "\n".join(lines[1:])


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri
    path = getattr(page.file, "repository_path", f"docs/{here}")
    targets = dict(links_of(path, markdown))

    def moved(match):
        target = targets.get(match[1])
        return os.path.relpath(page_of(target), os.path.dirname(here) or ".") if target else match[1]

    parts = PARTS.split(lists(markdown))
    parts[::2] = [LINK.sub(moved, part) for part in parts[::2]]
    # GitHub needs the backslash within a table's code, Python-Markdown shows it.
    parts[1::2] = [part if "\n" in part else part.replace("\\|", "|") for part in parts[1::2]]
    return "".join(parts)
