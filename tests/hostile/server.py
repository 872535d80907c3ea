"""A web server on the loopback whose answers are hostile: garbage, endless, torn, in circles."""

from __future__ import annotations

import http.server
import random
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def hostile_server(chance: random.Random) -> Iterator[str]:
    """Serve one kind of answer at a URL while inside."""
    kind, garbage = chance.randrange(7), chance.randbytes(2000)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):
                self._answer()

        do_HEAD = do_GET

        def _answer(self) -> None:
            if kind == 0:
                self.wfile.write(garbage)
                return
            if kind == 1:
                self.send_error(chance.choice([403, 404, 418, 500, 503]))
                return
            if kind == 2:
                self.send_response(302)
                self.send_header("Location", self.path)
                self.end_headers()
                return
            self.send_response(200)
            if kind in (3, 4):
                self.send_header("Content-Length", str(10**15 if kind == 3 else 5000))
            self.end_headers()
            if kind == 5:
                self.wfile.write(b"PAR1" + garbage + b"PAR1")
                return
            for _ in range(1 if kind == 4 else 5000):  # torn, or 10 MB
                self.wfile.write(garbage)

        def log_message(self, *_: object) -> None:
            pass

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
