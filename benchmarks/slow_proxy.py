"""A proxy that makes every answer later by a factor: ``python -m ... UPSTREAM_PORT PORT FACTOR``.

A chunk that the server sent t after the request leaves the proxy factor · t after it, so that the
client sees a server that is slower by that factor from the first token to the last. The server's
key is VLLM_API_KEY's; whoever asks the proxy needs none.
"""

import asyncio
import os
import sys

from aiohttp import ClientSession, ClientTimeout, web


async def forward(request: web.Request) -> web.StreamResponse:
    loop, app = asyncio.get_running_loop(), request.app
    started = loop.time()
    url = f"http://127.0.0.1:{app['upstream']}{request.path_qs}"
    kept = {"content-type": request.content_type, "authorization": app["bearer"]}
    async with app["client"].request(
        request.method, url, data=await request.read(), headers=kept
    ) as answer:
        kind = answer.headers.get("content-type", "text/plain")
        response = web.StreamResponse(status=answer.status, headers={"content-type": kind})
        await response.prepare(request)
        chunks: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()

        async def read() -> None:
            async for chunk in answer.content.iter_any():
                chunks.put_nowait((loop.time() - started, chunk))
            chunks.put_nowait(None)

        reading = asyncio.create_task(read())
        while (item := await chunks.get()) is not None:
            arrived, chunk = item
            await asyncio.sleep(started + app["factor"] * arrived - loop.time())
            await response.write(chunk)
        await reading
        await response.write_eof()
        return response


def main() -> None:
    app = web.Application()
    app["upstream"], port, app["factor"] = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    app["bearer"] = f"Bearer {os.environ['VLLM_API_KEY']}"
    app.router.add_route("*", "/{path:.*}", forward)

    async def open_client(app: web.Application) -> None:
        app["client"] = ClientSession(timeout=ClientTimeout(total=None))

    async def close_client(app: web.Application) -> None:
        await app["client"].close()

    app.on_startup.append(open_client)
    app.on_cleanup.append(close_client)
    web.run_app(app, host="127.0.0.1", port=port, print=None)


if __name__ == "__main__":
    main()
