"""A GPU for machines without one: tensors in ordinary memory that say they are on cuda:0 and refuse to mix with others.

It shows that every tensor of a computation is placed; neither the speed nor the kernels of a GPU.
"""

from __future__ import annotations

from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

GPU = torch.device("cuda", 0)


class _Memory:
    """Which storages are on the GPU; they are kept, so that no other takes their number."""

    def __init__(self):
        self.storages, self.pinned = {}, 0

    def has(self, x):
        return x.untyped_storage()._cdata in self.storages

    def take(self, x):
        storage = x.untyped_storage()
        self.storages[storage._cdata] = storage
        return x


def _is_gpu(value):
    return isinstance(value, (str, torch.device)) and str(value).partition(":")[0] == "cuda"


class _Calls(TorchFunctionMode):
    """What asks for a device by name, and what only ordinary memory can do."""

    def __init__(self, memory):
        super().__init__()
        self.memory = memory

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        own = args[0] if args and isinstance(args[0], torch.Tensor) else None
        if func == torch.Tensor.device.__get__:  # made anew at each look
            return GPU if self.memory.has(own) else torch.device("cpu")
        if func is torch.Tensor.pin_memory:
            assert not self.memory.has(own), "only ordinary memory can be pinned"
            self.memory.pinned += 1
            return own
        if func is torch.nn.functional.one_hot:  # it makes an empty tensor where its input really is
            with torch._C.DisableTorchFunction(), _off(self.memory):
                found = func(*args, **kwargs)
            return self.memory.take(found) if self.memory.has(own) else found
        if func is torch.Tensor.numpy:
            assert not self.memory.has(own), "a tensor on the GPU has no numpy()"
        if func is torch.Tensor.cpu or func is torch.Tensor.to:
            named = [one for one in (*args[1:], *kwargs.values()) if isinstance(one, (str, torch.device))]
            target = named[0] if named else ("cpu" if func is torch.Tensor.cpu else None)
            if target is not None and _is_gpu(target) != self.memory.has(own):
                dtypes = [one for one in (*args[1:], *kwargs.values()) if isinstance(one, torch.dtype)]
                with torch._C.DisableTorchFunction(), _off(self.memory):
                    moved = own.detach().clone(memory_format=torch.preserve_format).to(*dtypes)
                return self.memory.take(moved) if _is_gpu(target) else moved
            args = tuple("cpu" if _is_gpu(one) else one for one in args)
        on_gpu = _is_gpu(kwargs.get("device"))
        if on_gpu:
            kwargs["device"] = "cpu"
        kwargs = {name: "cpu" if _is_gpu(value) else value for name, value in kwargs.items()}
        found = func(*args, **kwargs)
        return self.memory.take(found) if on_gpu and isinstance(found, torch.Tensor) else found


class _Operations(TorchDispatchMode):
    """Every operation, also of the backward pass: all on one device, and so is what it gives."""

    #: These copy from one device to another; a single number may be anywhere.
    MIXED = ("aten::copy_", "aten::_to_copy")

    def __init__(self, memory):
        super().__init__()
        self.memory = memory

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
        places = {self.memory.has(x) for x in given if x.ndim > 0 or self.memory.has(x)}
        if len(places) > 1 and func._schema.name not in self.MIXED:
            raise RuntimeError(f"{func._schema.name}: expected all tensors to be on the same device")
        found = func(*args, **kwargs)
        if True in places and func._schema.name not in self.MIXED:
            for x in tree_flatten(found)[0]:
                if isinstance(x, torch.Tensor):
                    self.memory.take(x)
        if func._schema.name == "aten::_to_copy" and self.memory.has(given[0]):
            self.memory.take(found)
        return found


@contextmanager
def _off(memory):
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield


@contextmanager
def emulated_gpu():
    """A machine with a GPU; gives its memory."""
    memory = _Memory()
    with _Operations(memory), _Calls(memory):
        yield memory
