"""Checks the links of a site of HTML files: site_links.py FOLDER. Every relative link must lead to a file, and every anchor to an element
of it with that id. Prints the broken ones and exits with 1. Links to other sites are not checked."""

import pathlib
import sys
import urllib.parse
from html.parser import HTMLParser


class Page(HTMLParser):
    """The links and the ids of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.ids = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.update(attributes[name] for name in ("id", "name") if attributes.get(name))
        for name in ("href", "src"):
            if attributes.get(name):
                self.links.append(attributes[name])


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    # 404.html has a base element; toc.html is a frame of every page without scripts.
    paths = [path for path in folder.rglob("*.html") if path.name not in ("404.html", "toc.html", "print.html")]
    pages = {path: Page(path) for path in paths}
    broken = []
    checked = 0
    for path, page in pages.items():
        for link in page.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            checked += 1
            target = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            anchor = urllib.parse.unquote(url.fragment)
            if target.is_dir():
                target = target / "index.html"
            inside = target.is_relative_to(folder) and target.is_file()
            if not inside or (anchor and target in pages and anchor not in pages[target].ids):
                broken.append(f"{path.relative_to(folder)}: {link}")
    for link in broken:
        print(link, file=sys.stderr)
    print(f"{len(pages)} pages, {checked} links, {len(broken)} broken")
    return 1 if broken or not pages else 0


sys.exit(main())
