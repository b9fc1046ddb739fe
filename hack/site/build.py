"""Builds the site from the Markdown of the repository: python3 hack/site/build.py OUT WORK

The pages are read on GitHub as well, so they have nothing in them that is for the site alone. Here they are laid out for
Sphinx below WORK: docs/README.md is the home, its lists are the table of contents, and links to files that are no page of
the site lead to the repository. A link, an anchor or an asset that is missing fails the build, and so does a page that is
not in the index.
"""

import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = "https://github.com/docket-export/docket"
HOME = "docs/README.md"

# Pages outside of docs/, and where they are on the site.
OTHERS = {
    "README.md": "overview.md",
    "UPGRADING.md": "upgrading.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "DESIGN.md": "design.md",
    "CHANGELOG.md": "changelog.md",
    "charts/docket/README.md": "chart.md",
    "manifests/README.md": "manifests.md",
    "testdata/README.md": "testdata.md",
    "examples/README.md": "examples.md",
    "python/README.md": "python.md",
}

FENCE = re.compile(r"^\s*(```+|~~~+)")
CODE = re.compile(r"(``.+?``|`[^`]*`)")
LINK = re.compile(r"(\]\()([^()\s]+)((?:\s+\"[^\"]*\")?\))")
GROUP = re.compile(r"^## (Tutorials|How-to guides|Reference|Explanation)$")


def pages():
    """The pages, by their path in the repository, with their path on the site."""
    found = {p: to for p, to in OTHERS.items() if (ROOT / p).is_file()}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT).as_posix()
        if "/testdata/" not in name and "/internal/" not in name:
            found[name] = name.removeprefix("docs/")
    found[HOME] = "index.md"
    return found


def outside_code(text, change):
    """Calls change for what is neither in a block nor in a span of code."""
    lines, block = [], ""
    for line in text.splitlines():
        fence = FENCE.match(line)
        if fence and (not block or fence[1].startswith(block)):
            block = "" if block else fence[1]
        elif not block:
            line = "".join(part if i % 2 else change(part) for i, part in enumerate(CODE.split(line)))
        lines.append(line)
    return "\n".join(lines) + "\n"


def target(page, site, to):
    """Where a link of a page leads on the site."""
    path, _, anchor = to.partition("#")
    if not path or urllib.parse.urlsplit(to).scheme:
        return to
    name = os.path.normpath(os.path.join(os.path.dirname(page), path))
    at = ROOT / name
    if not at.exists():
        sys.exit(f"{page}: {to}: there is no such file")
    if name in site:
        to = os.path.relpath(site[name], os.path.dirname(site[page]) or ".")
    elif at.suffix in (".png", ".svg"):
        return "/_images/" + at.name
    else:
        to = f"{REPOSITORY}/{'tree' if at.is_dir() else 'blob'}/main/{name}"
    return to + ("#" + anchor if anchor else "")


def contents(text):
    """The tables of contents, from the lists of the index by kind."""
    trees, caption = [], None
    for line in text.splitlines():
        group = GROUP.match(line)
        if group:
            caption = group[1]
            trees.append((caption, []))
        elif line.startswith("#"):
            caption = None
        elif caption and line.startswith("- "):
            trees[-1][1].extend(m[2].removesuffix(".md") for m in LINK.finditer(line) if "://" not in m[2])
    return "".join(
        "\n```{toctree}\n:hidden:\n:maxdepth: 1\n:caption: " + caption + "\n\n" + "\n".join(names) + "\n```\n" for caption, names in trees
    )


def lay_out(source):
    shutil.rmtree(source, ignore_errors=True)
    site = pages()
    for page, to in site.items():
        text = (ROOT / page).read_text()
        # A link in code is a link all the same: [`x`](y.md). The text of a page has its spans of code cut out, so
        # the part that is left begins with "](".
        text = outside_code(text, lambda part: LINK.sub(lambda m: m[1] + target(page, site, m[2]) + m[3], part))
        if page == HOME:
            text += contents(text)
        (source / to).parent.mkdir(parents=True, exist_ok=True)
        (source / to).write_text(text)
    shutil.copy(HERE / "conf.py", source)
    shutil.copytree(HERE / "_static", source / "_static")
    (source / "_images").mkdir()
    for image in (ROOT / "docs" / "images").glob("*"):
        shutil.copy(image, source / "_images")


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.ids = [], set()

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        if a.get("id"):
            self.ids.add(a["id"])
        for name in ("href", "src"):
            if a.get(name):
                self.links.append((tag, a.get("rel") or "", a[name]))


def broken(out):
    """What leads nowhere in the rendered site, and what a browser would fetch from elsewhere."""
    read = {}
    for path in out.rglob("*.html"):
        read[path] = Links()
        read[path].feed(path.read_text())
    for path, found in sorted(read.items()):
        for tag, rel, to in found.links:
            u = urllib.parse.urlsplit(to)
            if u.scheme in ("data", "mailto"):
                continue
            if u.scheme or u.netloc:
                if tag in ("script", "img", "iframe") or tag == "link" and "canonical" not in rel:
                    yield f"{path.relative_to(out)}: {to}: comes from elsewhere"
                continue
            at = (path.parent / urllib.parse.unquote(u.path)).resolve() if u.path else path
            if not at.is_file():
                yield f"{path.relative_to(out)}: {to}: there is no such file"
            elif u.fragment and at in read and urllib.parse.unquote(u.fragment) not in read[at].ids:
                yield f"{path.relative_to(out)}: {to}: there is no such anchor"


def main(out, work):
    out, work = pathlib.Path(out).resolve(), pathlib.Path(work).resolve()
    lay_out(work / "src")
    shutil.rmtree(out, ignore_errors=True)
    sphinx = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", "-j", "auto", "-d", work / "doctrees"]
    if subprocess.run([*sphinx, work / "src", out]).returncode:
        sys.exit("make docs: the pages have the faults above")
    shutil.rmtree(out / ".doctrees", ignore_errors=True)
    found = list(broken(out))
    for line in found:
        print(line, file=sys.stderr)
    if found:
        sys.exit("make docs: the site has the faults above")
    print(f"{len(list(out.rglob('*.html')))} pages: {out}/index.html")


if __name__ == "__main__":
    main(*sys.argv[1:])
