"""The least that can answer over HTTP: one thread that says the same to everyone. What it takes is the client's own part and the loopback's."""

import asyncio

from tests.bench.contenders.http_model import end_with_the_benchmark, options, stand_with_the_server

_ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{"shared": 1}'


class Bare(asyncio.Protocol):
    """Each packet is taken for a request: the client sends them whole."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(_ANSWER)


async def _main(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Bare, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asked = options()
    end_with_the_benchmark()
    stand_with_the_server()
    asyncio.run(_main(asked.port))
