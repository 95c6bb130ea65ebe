"""mosec with the model of a known cost: `python -m tests.bench.contenders.mosec_server --port PORT --max-batch N --delay-ms MS --address 127.0.0.1`.

mosec reads the port and the address from the command line itself. Its shortest delay is 1 ms.
"""

from mosec import Server, Worker

from tests.bench.contenders.http_model import (
    answer,
    end_with_the_benchmark,
    options,
    stand_with_the_model,
    stand_with_the_server,
)


class Model(Worker):
    """One process of its own; mosec makes the batches."""

    def __init__(self) -> None:
        stand_with_the_model()

    def forward(self, data: list[dict]) -> list[dict]:
        """The answers of a batch."""
        return answer(data)


if __name__ == "__main__":
    asked = options()
    end_with_the_benchmark()
    stand_with_the_server()
    server = Server()
    server.append_worker(Model, max_batch_size=asked.max_batch, max_wait_time=asked.delay_ms)
    server.run()
