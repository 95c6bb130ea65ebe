"""LitServe with the model of a known cost; see `mosec_server.py`. ZeroMQ between its processes (`fast_queue`), which its documentation advises from 100 requests a second on."""

import sys

import litserve

from tests.bench.contenders.http_model import MODEL, answer


class Model(litserve.LitAPI):
    """One process of its own; LitServe makes the batches."""

    def setup(self, device: str) -> None:
        """Nothing to load."""

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
    model = Model(max_batch_size=MODEL.max_batch, batch_timeout=MODEL.delay_ms / 1000, api_path="/inference")
    server = litserve.LitServer(model, accelerator="cpu", workers_per_device=1, fast_queue=True)
    port = int(sys.argv[sys.argv.index("--port") + 1])
    server.run(host="127.0.0.1", port=port, num_api_servers=1, generate_client_file=False, log_level="warning", access_log=False)
