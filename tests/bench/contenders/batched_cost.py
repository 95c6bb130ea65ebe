"""The pip package `batched` with an empty model: 256 tasks, each awaits its answer and asks again; µs a request."""

import asyncio
from time import perf_counter

import batched

from tests.bench.contender import serve

OUTSTANDING, MAX_BATCH = 256, 64


@batched.aio.dynamically(batch_size=MAX_BATCH, timeout_ms=1.0)
def model(items: list[int]) -> list[int]:
    return items


async def asks(requests: int) -> None:
    for number in range(requests):
        if await model(number) != number:
            raise RuntimeError("the answer is not the request's own")


async def main_async(requests: int) -> float:
    began = perf_counter()
    await asyncio.gather(*(asks(requests // OUTSTANDING) for _ in range(OUTSTANDING)))
    return (perf_counter() - began) / (requests // OUTSTANDING * OUTSTANDING) * 1e6


def main() -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    serve(lambda count: loop.run_until_complete(main_async(count)))


if __name__ == "__main__":
    main()
