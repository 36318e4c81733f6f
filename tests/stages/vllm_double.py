"""A vLLM over real HTTP that answers in counts: what it was asked, and counters that grow with every answer."""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator

from stages import builders


class Double:
    """The state of one server; every answer is a draft of two tokens of which ``accepted`` were taken."""

    def __init__(self, *, accepted: int = 1) -> None:
        self.accepted = accepted
        self.asked: list[str] = []
        self.url = ""

    def metrics(self) -> str:
        """Return the counters so far."""
        count = len(self.asked)
        taken = tuple(count if position < self.accepted else 0 for position in range(2))
        return builders.scrape(drafts=count, accepted=taken)


@contextlib.contextmanager
def serving(double: Double) -> Iterator[Double]:
    """Serve on a free port of this machine."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            models = json.dumps({"data": [{"id": "/models/target"}]})
            self._answer(models if self.path == "/v1/models" else double.metrics())

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/v1/completions":
                self._answer(json.dumps({"choices": []}))
                return
            double.asked.append(asked["messages"][-1]["content"])
            self._answer(json.dumps(builders.answer(double.asked[-1])))

        def _answer(self, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    double.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield double
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
