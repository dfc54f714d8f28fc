"""A stand-in for vLLM's server, for faults that the real one cannot be made to produce."""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BEHAVIOUR = os.environ["STAND_IN"]
METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} 0.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0"} 0.0
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{engine="0"} 17.0
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{engine="0"} 1.0
"""


class Handler(BaseHTTPRequestHandler):
    def answer(self, status: int, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self.answer(200, "<html>" if BEHAVIOUR == "no-metrics" else METRICS)
        else:
            self.answer(200, "")

    def do_POST(self) -> None:
        if BEHAVIOUR == "no-completion":
            self.answer(500, "EngineCore encountered an issue")
        elif BEHAVIOUR == "garbage":
            self.answer(200, "<html>")
        else:
            self.answer(200, json.dumps({"choices": [{"text": "bo"}]}))

    def log_message(self, *_: object) -> None:
        pass


if BEHAVIOUR == "crash":
    sys.stderr.write("Traceback (most recent call last):\nValueError: no such model\n")
    sys.exit(3)
if BEHAVIOUR == "hang":
    time.sleep(600)
architecture = {"transformers": "TransformersMoEForCausalLM", "silent": None}.get(
    BEHAVIOUR, "DeepseekV3ForCausalLM"
)
if architecture:
    sys.stdout.write(f"INFO Resolved architecture: {architecture}\n")
    sys.stdout.flush()
ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
