# SPDX-License-Identifier: Apache-2.0
"""Runs in asyncio: `await run`."""

import asyncio


def wait_for(run):
    """The iterator of `await run`: ends with the run, and cancels it when the task is cancelled."""
    return _wait_for(run).__await__()


async def _wait_for(run):
    if not run.done:
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        descriptor = run.fileno()
        loop.add_reader(descriptor, lambda: ended.done() or ended.set_result(None))
        try:
            await ended
        except asyncio.CancelledError:
            run.cancel()
            raise
        finally:
            loop.remove_reader(descriptor)
    return run.result()
