"""lacuna on a Ray cluster: data sets, evaluations, and a server. `pip install '.[ray]'` in a checkout brings what it takes."""

try:
    from .data import generate
    from .evaluation import evaluate
    from .serving import application, serve
except ModuleNotFoundError as error:
    why = f"lacunalm.ray takes Ray, and there is no {error.name}: pip install 'ray[data,serve]'"
    raise ModuleNotFoundError(why, name=error.name) from None

__all__ = ["application", "evaluate", "generate", "serve"]
