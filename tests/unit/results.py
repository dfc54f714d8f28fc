"""Honest results of any speed: the article's own file with its clock running faster or slower."""

import json

from tests.conftest import PUBLISHED

ARTICLE = json.loads((PUBLISHED / "raw/native/launch-01/unbounded/rep-01.json").read_text())


def result(slower=1.0, **change):
    """The article's native file as a machine ``slower`` times as slow would have written it."""
    found = dict(ARTICLE)
    for key, value in ARTICLE.items():
        if key == "duration" or key.endswith("_ms"):
            found[key] = value * slower
        elif key.endswith(("_throughput", "_per_s")):
            found[key] = value / slower
    return {**found, **change}


def write(path, *results):
    """Write results into one file, one line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(one) for one in results))
    return path
