"""Every link of the built site that stays in it resolves: `python docs/_ext/links.py site`."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                (self.links if tag == "a" else self.loads).append(value)


def broken(site: Path) -> list[str]:
    """The links that lead nowhere, and those that would load something from elsewhere."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    problems = []
    for path, page in pages.items():
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:  # another site's page is not fetched
                if link in page.loads:
                    problems.append(f"{path.relative_to(site)}: loads {link} from elsewhere")
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                problems.append(f"{path.relative_to(site)}: no file for {link}")
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].anchors
            ):
                problems.append(f"{path.relative_to(site)}: no anchor for {link}")
    return problems


if __name__ == "__main__":
    found = broken(Path(sys.argv[1]).resolve())
    sys.exit("\n".join(found) or None)
