"""A stand-in for vLLM's server, for faults that the real one cannot be made to produce.

It takes the arguments of ``vllm serve``, logs what a healthy engine logged, has a core and a
worker as vLLM has, and answers what the harness and `vllm bench serve` ask. The environment says
what goes wrong:

STAND_IN
    The fault. ``NAME:N`` begins with the N-th streamed completion, ``NAME`` at once.
STAND_IN_ARM
    The ``--model-impl`` that has it; without, all have it.
STAND_IN_WHEN
    A file; the fault of a completion begins when it is there.
STAND_IN_PROMPT
    Tokens of every prompt; nothing is tokenised here.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LOGS = Path(__file__).parents[1] / "unit" / "data"
WORKER = "import time; time.sleep(600)"
CORE = f"""
import os, subprocess, sys
worker = subprocess.Popen([sys.executable, "-I", "-S", "-c", {WORKER!r}, "Worker"])
os._exit(worker.wait() and 1)
"""
FLOOD_MB = 8
METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0"}} {running}
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0"}} 0
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{{engine="0"}} {prompt}
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{{engine="0"}} {generation}
"""


def option(name: str, otherwise: str) -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else otherwise


MODEL = sys.argv[2] if len(sys.argv) > 2 else "m"
ARM = option("--model-impl", "vllm")
KEY = os.environ.get("VLLM_API_KEY") or option("--api-key", "")
WHEN = os.environ.get("STAND_IN_WHEN")
PROMPT = int(os.environ.get("STAND_IN_PROMPT", "16"))
FAULT, _, BEGIN = os.environ.get("STAND_IN", "").partition(":")
if os.environ.get("STAND_IN_ARM", ARM) != ARM:
    FAULT = ""
FIRST = int(BEGIN or 0)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def die(words: str, status: int = 1) -> None:
    say(f"Traceback (most recent call last):\n{words}")
    os._exit(status)


def flood() -> None:
    """Megabytes without a line's end, and bytes that are no text; a full disk takes them not."""
    try:
        for _ in range(FLOOD_MB):
            os.write(1, b"\x00\xff\x1b[2J\x80error" * 100_000)
        os.write(1, b"\n")
    except OSError:
        pass


def use_up_memory() -> None:
    """Allocate until the system refuses, at a limit a little above what is in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 32 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    hoard = []
    try:
        while True:
            hoard.append(bytearray(2**20))
    except MemoryError:
        hoard.clear()
        traceback.print_exc()
        os._exit(1)


class State:
    lock = threading.Lock()
    running = streamed = generated = 0
    flooded = False


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def refused(self) -> bool:
        if KEY and self.headers.get("Authorization") != f"Bearer {KEY}":
            self.answer(401, '{"error": "Unauthorized"}')
            return True
        return False

    def do_GET(self) -> None:
        if self.path == "/metrics":
            text = METRICS.format(
                running=State.running,
                prompt=State.streamed * PROMPT,
                generation=State.generated,
            )
            self.answer(200, "<html>" if FAULT == "no-metrics" else text)
        elif self.path == "/v1/models":
            if not self.refused():
                self.answer(200, json.dumps({"data": [{"id": MODEL}]}))
        else:
            self.answer(200, "")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.refused():
            return
        stream = body.get("stream", False)
        with State.lock:
            State.streamed += stream
            State.running += 1
            begun = State.streamed >= FIRST and (not WHEN or Path(WHEN).exists())
        try:
            self.complete(body, stream, FAULT if begun else "")
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with State.lock:
                State.running -= 1

    def complete(self, body: dict, stream: bool, fault: str) -> None:
        if fault == "errors":
            self.answer(500, '{"error": "EngineCore encountered an issue"}')
        elif fault == "garbage":
            self.answer(200, "<html>")
        elif fault == "stall":
            time.sleep(600)
        elif stream:
            self.stream(body["max_tokens"], fault)
        else:
            self.answer_at_once(body, fault)

    def answer_at_once(self, body: dict, fault: str) -> None:
        prompts = body["prompt"] if isinstance(body["prompt"][0], list) else [body["prompt"]]
        tokens = [f"token_id:{1000 + n}" for n in range(body["max_tokens"])]
        logprobs = {
            "tokens": tokens,
            "token_logprobs": [-0.1] * len(tokens),
            "top_logprobs": [{token: -0.1, "token_id:7": -5.0} for token in tokens],
        }
        choices = [{"index": n, "text": "bo", "logprobs": logprobs} for n in range(len(prompts))]
        model = "another" if fault == "other-model" else body["model"]
        self.answer(200, json.dumps({"model": model, "choices": choices}))

    def stream(self, tokens: int, fault: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        length = tokens - 1 if fault == "short" else tokens
        for number in range(length):
            self.event({"model": MODEL, "choices": [{"index": 0, "text": " ba"}]})
            if number == 0 and fault == "die":
                die("RuntimeError: an illegal memory access was encountered")
            if number == 0 and fault == "memory":
                use_up_memory()
            if fault == "flood" and not State.flooded:
                State.flooded = True
                flood()
            time.sleep(0.002)
        with State.lock:
            State.generated += length
        usage = {"prompt_tokens": PROMPT, "completion_tokens": length}
        self.event({"model": MODEL, "choices": [], "usage": usage})
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def event(self, data: dict) -> None:
        self.chunk(b"data: " + json.dumps(data).encode() + b"\n\n")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


def main() -> None:
    if FAULT == "crash":
        die("ValueError: no such model", status=3)
    if FAULT == "hang":
        time.sleep(600)
    if FAULT == "memory" and not FIRST:
        use_up_memory()
    if FAULT == "babble":
        flood()
    core = subprocess.Popen([sys.executable, "-I", "-S", "-c", CORE, "EngineCore"])
    shown = {"wrong-backend": "transformers", "silent": None}.get(
        FAULT, "transformers" if ARM == "transformers" else "native"
    )
    if shown:
        say((LOGS / f"cpu_{shown}.log").read_text())
    host, port = option("--host", "127.0.0.1"), int(option("--port", "0"))
    server = Server((host, port), Handler)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    core.wait()
    die("RuntimeError: EngineCore died unexpectedly")


main()
