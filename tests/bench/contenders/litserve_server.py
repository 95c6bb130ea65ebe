"""LitServe with the model of a known cost: `python -m tests.bench.contenders.litserve_server --port PORT --max-batch N --delay-ms MS`.

`fast_queue` is ZeroMQ between its processes, which its documentation advises from 100 requests a second on.
"""

import signal

import litserve

from tests.bench.contenders.http_model import (
    answer,
    end_with_the_benchmark,
    options,
    stand_with_the_model,
    stand_with_the_server,
)


class Model(litserve.LitAPI):
    """One process of its own; LitServe makes the batches."""

    def setup(self, device: str) -> None:
        """Nothing to load."""
        stand_with_the_model()

    def decode_request(self, request: dict) -> dict:
        """JSON as it came."""
        return request

    def batch(self, inputs: list[dict]) -> list[dict]:
        """A list is a batch."""
        return list(inputs)

    def predict(self, inputs: list[dict]) -> list[dict]:
        """The answers of a batch."""
        return answer(inputs)

    def unbatch(self, output: list[dict]) -> list[dict]:
        """A list is a batch."""
        return output

    def encode_response(self, output: dict) -> dict:
        """JSON as it goes."""
        return output


if __name__ == "__main__":
    asked = options()
    end_with_the_benchmark()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # LitServe waits for its processes after a Ctrl-C only
    stand_with_the_server()
    model = Model(max_batch_size=asked.max_batch, batch_timeout=asked.delay_ms / 1000, api_path="/inference")
    server = litserve.LitServer(model, accelerator="cpu", workers_per_device=1, fast_queue=True)
    server.run(host="127.0.0.1", port=asked.port, num_api_servers=1, generate_client_file=False, log_level="warning", access_log=False)
