"""Our own convolutions against PyTorch's: outputs, gradients, and rows that do not feel their neighbours."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from coad.exceptions import InputError
from coad.learned.batch_last import LANES, ConvolutionStack, convolve
from coad.learned.estimator import CoAD
from coad.learned.net_spec import Conv, NetSpec, preset
from coad.learned.nets import StackedNet


def both(spec: NetSpec, shape: tuple[int, ...], members: int, n: int):
    """(values, gradients) by PyTorch and by the compiled kernels, for the same weights and rows."""
    net = StackedNet(spec, shape, list(range(members)))
    x = torch.randn(n, *shape, generator=torch.Generator().manual_seed(n))
    found = []
    for layout in ("default", "batch_last"):
        net.layout = layout
        net.zero_grad()
        out = net(x)
        (out * torch.linspace(-1, 1, out.numel()).reshape(out.shape)).sum().backward()
        found.append((out.detach(), [p.grad.clone() for p in net.parameters()]))
    return found


def assert_same(found) -> None:
    (out, gradients), (own, own_gradients) = found
    torch.testing.assert_close(own, out, atol=1e-5, rtol=1e-4)
    for a, b in zip(own_gradients, gradients, strict=True):
        scale = float(b.abs().max()) + 1e-6
        torch.testing.assert_close(a / scale, b / scale, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "side", "shape"),
    [("mnist", 0, (1, 25, 25)), ("milling", 1, (4, 64)), ("rf", 0, (1, 50)), ("rf", 1, (14, 1000))],
)
def test_values_and_gradients_of_the_papers_networks(name, side, shape):
    assert_same(both(preset(name)[side], shape, members=2, n=75))


@settings(max_examples=40, deadline=None)
@given(
    flat=st.booleans(),
    channels=st.integers(1, 3),
    size=st.tuples(st.integers(9, 14), st.integers(9, 14)),
    convs=st.lists(
        st.builds(Conv, st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2)),
        min_size=1,
        max_size=2,
    ),
    members=st.integers(1, 3),
    n=st.sampled_from([1, 2, LANES, LANES + 1, 5 * LANES]),
)
def test_values_and_gradients_for_any_geometry(flat, channels, size, convs, members, n):
    shape = (channels, size[1]) if flat else (channels, *size)
    spec = NetSpec(tuple(convs), (3,))
    try:
        spec.sizes(shape)
    except InputError:
        assume(False)  # the strides leave nothing for the second kernel
    assert_same(both(spec, shape, members, n))


def test_memory_is_used_again_without_a_trace():
    """Arrays of an earlier batch come back: a short batch after a full one must not see its rows."""
    spec = preset("milling")[0]
    net = StackedNet(spec, (2, 64), [0])
    stack = ConvolutionStack(spec.convs, (2, 64), 1)
    weights, biases = list(net.conv_weight), list(net.conv_bias)
    x = torch.randn(70, 2, 64)

    def gradient(rows: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(convolve(stack, rows, weights, biases).sum(), weights[0])[0]

    fresh = gradient(x[:7])
    gradient(1e30 * x)
    assert torch.equal(gradient(x[:7]), fresh)


def test_a_row_does_not_depend_on_its_neighbours_or_threads():
    net = StackedNet(preset("rf")[1], (14, 1000), [0])
    net.layout = "batch_last"
    x = torch.randn(150, 14, 1000)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with torch.no_grad():
                found.append(net._convolve(x))
        assert torch.equal(found[0], found[1])
        with torch.no_grad():
            assert torch.equal(net._convolve(x[33:40]), found[0][33:40])
    finally:
        torch.set_num_threads(before)


def test_the_gradient_by_the_input_is_left_to_pytorch():
    net = StackedNet(preset("milling")[0], (2, 64), [0])
    net.layout = "batch_last"
    x = torch.randn(3, 2, 64, requires_grad=True)
    net(x).sum().backward()
    assert x.grad is not None
    assert float(x.grad.abs().sum()) > 0


def test_what_is_not_a_number_stays_so():
    net = StackedNet(preset("milling")[0], (2, 64), [0])
    x = torch.randn(20, 2, 64)
    x[3, 1, 30] = torch.nan
    for layout in ("default", "batch_last"):
        net.layout = layout
        with torch.no_grad():
            bad = net._convolve(x).isnan().flatten(1).any(1)
        assert bad.nonzero().flatten().tolist() == [3]


def test_a_step_before_the_backward_pass_or_a_second_pass_is_refused():
    net = StackedNet(preset("milling")[0], (2, 64), [0])
    net.layout = "batch_last"
    x = torch.randn(20, 2, 64)
    out = net(x).sum()
    with torch.no_grad():
        net.conv_weight[1].add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()
    out = net(x).sum()
    out.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="go backward once"):
        out.backward()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_has_threads_of_its_own():
    code = (
        "import os, torch\n"
        "from coad.learned.nets import StackedNet\n"
        "from coad.learned.net_spec import preset\n"
        "net = StackedNet(preset('mnist')[0], (1, 25, 25), [0])\n"
        "net.layout = 'batch_last'\n"
        "x = torch.randn(200, 1, 25, 25)\n"
        "torch.set_num_threads(2)\n"
        "with torch.no_grad():\n"
        "    net._convolve(x)\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        net._convolve(x)\n"
        "        os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_unknown_layouts_and_precisions_are_named():
    x = np.random.default_rng(0).normal(size=(100, 3))
    for setting in ({"memory_format": "nchw"}, {"precision": "float16"}):
        with pytest.raises(InputError, match="must be one of 'auto'"):
            CoAD(n_starts=1, epochs=1, **setting).fit(x, x)
