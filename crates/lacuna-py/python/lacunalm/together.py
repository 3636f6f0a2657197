"""Tasks of an event loop that share forward passes."""

import asyncio

from ._native import Model, Result, Stream


class Together:
    """The texts that tasks of one event loop wait for."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.waiting: list[Stream] = []
        self.turn: asyncio.Future[bool] | None = None

    async def finish(self, stream: Stream) -> Result:
        """Steps a text, with all others, until it is finished."""
        self.waiting.append(stream)
        try:
            while not stream.finished:
                if self.turn is None or self.turn.done():
                    # Tasks that were started together get the chance to join.
                    await asyncio.sleep(0)
                if self.turn is None or self.turn.done():
                    some = self.waiting[: self.model.replicas * self.model.default_batch]
                    self.turn = asyncio.ensure_future(asyncio.to_thread(self.model.advance, some))
                # A task that is cancelled must not take the step from the others.
                await asyncio.shield(self.turn)
            return stream.result
        finally:
            self.waiting.remove(stream)
