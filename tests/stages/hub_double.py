"""Answers as huggingface.co does, over HTTP: what listing and fetching a model's files need, no more."""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

Files = Mapping[str, bytes]
_API: Final = "/api/models/"


class Hub:
    """Repositories by name, each with the files of its commits; ``main`` is the last commit."""

    def __init__(self, repositories: Mapping[str, Mapping[str, Files]], *, token: str | None = None) -> None:
        self.repositories = repositories
        self.token = token
        """What a request must bear, as for a gated repository; None for a public one."""
        self.asked: list[str] = []
        self.url = ""

    @contextmanager
    def serving(self) -> Iterator["Hub"]:
        """Serve on a free port."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def answer(self, path: str, bearer: str) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and content for a path without its query."""
        self.asked.append(path)
        name = next((one for one in self.repositories if path.removeprefix(_API).lstrip("/").startswith(one)), None)
        if name is None:
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        if self.token and bearer != f"Bearer {self.token}":
            return 401, {"X-Error-Code": "GatedRepo"}, b"{}"
        commits = self.repositories[name]
        verb, _, rest = path.removeprefix(_API).lstrip("/").removeprefix(name).lstrip("/").partition("/")
        revision, _, file = rest.partition("/")
        commit = revision if revision in commits else list(commits)[-1]
        if revision not in {*commits, "main", ""}:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        if verb == "resolve":
            return _file(commits[commit], file, commit)
        listing = _tree(commits[commit])
        if verb in {"tree", "paths-info"}:
            return 200, {}, json.dumps(listing).encode()
        siblings = [{"rfilename": one["path"], "size": one["size"]} for one in listing]
        return 200, {}, json.dumps({"id": name, "sha": commit, "siblings": siblings}).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                """Answer, cut to the range that was asked for."""
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                code, headers, content = hub.answer(self.path.partition("?")[0], self.headers.get("Authorization", ""))
                whole, wanted = len(content), self.headers.get("Range", "")
                if code == 200 and wanted.startswith("bytes="):
                    first, _, last = wanted.removeprefix("bytes=").partition("-")
                    content = content[int(first) : int(last) + 1 if last else None]
                    code, headers = 206, {**headers, "Content-Range": f"bytes {first}-{last}/{whole}"}
                self.send_response(code)
                for key, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(key, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_HEAD = do_POST = do_GET  # noqa: N815 - names of the base class

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler


def _tree(files: Files) -> list[dict[str, object]]:
    return [
        {
            "type": "file",
            "path": name,
            "size": len(content),
            "oid": hashlib.sha1(content, usedforsecurity=False).hexdigest(),
        }
        for name, content in files.items()
    ]


def _file(files: Files, name: str, commit: str) -> tuple[int, dict[str, str], bytes]:
    if name not in files:
        return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}, b""
    tag = hashlib.sha256(files[name]).hexdigest()
    return 200, {"ETag": f'"{tag}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}, files[name]
