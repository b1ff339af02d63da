"""A program that stands in for an engine's server: its tokens follow from all before them.

python stand_in_engine.py --port PORT [--host HOST] [--name NAME] [--pause-s SECONDS]
"""

import argparse
import http.server
import json
import time
from typing import Any


def next_token(before: list[int]) -> int:
    """As a greedy model's, it is the same wherever it is computed."""
    return sum(before) * 31 % 1009


def text_behind(prompt: list[int], count: int) -> str:
    """What any stand-in writes."""
    before = list(prompt)
    for _ in range(count):
        before.append(next_token(before))
    return "".join(f" {token}" for token in before[len(prompt) :])


class StandIn(http.server.BaseHTTPRequestHandler):
    """/health, and completions of prompts that are lists of tokens."""

    protocol_version = "HTTP/1.1"
    name = ""
    pause_s = 0.0

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not body.get("stream"):
            answer = json.dumps({"id": self.name}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        before = list(body["prompt"])
        for number in range(body["max_tokens"]):
            time.sleep(self.pause_s)
            token = next_token(before)
            before.append(token)
            is_last = number + 1 == body["max_tokens"]
            choice: dict[str, Any] = {"index": 0, "text": f" {token}", "token_ids": [token]}
            choice["finish_reason"] = "length" if is_last else None
            if number == 0:
                choice["prompt_token_ids"] = body["prompt"]
            self._chunk(json.dumps({"id": self.name, "created": 7, "choices": [choice]}))
        self._chunk("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, event: str) -> None:
        text = f"data: {event}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--name", default="")
    parser.add_argument("--pause-s", type=float, default=0.0)
    options = parser.parse_args()
    StandIn.name, StandIn.pause_s = options.name, options.pause_s
    http.server.ThreadingHTTPServer((options.host, options.port), StandIn).serve_forever()


if __name__ == "__main__":
    main()
