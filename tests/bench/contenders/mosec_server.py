"""mosec with the model of a known cost: a batch of n takes BATCH_MS + ITEM_MS · n, a batch of echoes nothing. Each answer says how many shared it.

Started by `http_server.py` as `python -m tests.bench.contenders.mosec_server --port PORT`, with the numbers in the environment.
"""

from mosec import Server, Worker

from tests.bench.contenders.http_model import MODEL, answer


class Model(Worker):
    """One process of its own; mosec makes the batches."""

    def forward(self, data: list[dict]) -> list[dict]:
        """The answers of a batch."""
        return answer(data)


if __name__ == "__main__":
    server = Server()
    server.append_worker(Model, max_batch_size=MODEL.max_batch, max_wait_time=MODEL.delay_ms)
    server.run()
