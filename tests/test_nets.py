from __future__ import annotations

import pytest
import torch
from naive_learn import plain_mnist, plain_series
from torch import nn

from coad.exceptions import InputError
from coad.learned.net_spec import NetSpec, default_spec, preset
from coad.learned.nets import LoopedNet, NormalisedHead, StackedNet

PAPER = [
    ("mnist", 0, (1, 25, 25), lambda: plain_mnist()),
    ("milling", 0, (2, 64), lambda: plain_series(2, 10, 5, 1, 2, 640, 8)),
    ("milling", 1, (4, 64), lambda: plain_series(4, 10, 5, 1, 2, 640, 8)),
    ("rf", 0, (1, 50), lambda: plain_series(1, 5, 10, 1, 0, 160, 6)),
    ("rf", 1, (14, 1000), lambda: plain_series(14, 15, 20, 5, 0, 540, 6)),
]


def copied(plain: nn.Sequential, net: StackedNet, member: int) -> None:
    """Give one member the weights of a plain network."""
    state = net.member(net.state_dict(), member)
    convs = [m for m in plain if isinstance(m, (nn.Conv1d, nn.Conv2d))]
    linears = [m for m in plain if isinstance(m, nn.Linear)]
    for i, layer in enumerate(convs):
        state[f"conv_weight.{i}"].copy_(layer.weight)
        state[f"conv_bias.{i}"].copy_(layer.bias)
    for i, layer in enumerate(linears):
        state[f"weight.{i}"].copy_(layer.weight.T[None])
        state[f"bias.{i}"].copy_(layer.bias[None, None])


@pytest.mark.parametrize("layout", ["default", "channels_last"])
@pytest.mark.parametrize(("name", "side", "shape", "plain"), PAPER)
def test_papers_networks_in_a_stack_compute_what_plain_layers_do(name, side, shape, plain, layout):
    networks = [plain() for _ in range(3)]
    net = StackedNet(preset(name)[side], shape, seeds=[0, 1, 2])
    net.layout = layout
    with torch.no_grad():
        for i, network in enumerate(networks):
            copied(network, net, i)
        x = torch.randn(4, *shape)
        for i, network in enumerate(networks):
            torch.testing.assert_close(net(x)[i], network(x), atol=1e-5, rtol=1e-4)
    assert sum(p.numel() for p in net.parameters()) == 3 * sum(p.numel() for p in networks[0].parameters())


@pytest.mark.parametrize(("name", "side", "shape"), [case[:3] for case in PAPER])
def test_memory_formats_give_the_same_gradients(name, side, shape):
    net = StackedNet(preset(name)[side], shape, seeds=[0, 1])
    x = torch.randn(20, *shape)
    found = []
    for layout in ("default", "channels_last"):
        net.layout = layout
        net.zero_grad()
        net(x)[..., 0].mul(torch.linspace(-1, 1, 20)).sum().backward()
        found.append([p.grad.clone() for p in net.parameters()])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4 * float(b.abs().max()) + 1e-6, rtol=1e-3)


def test_a_member_starts_the_same_in_any_stack():
    spec = NetSpec(hidden=(4,))
    together, alone = StackedNet(spec, (3,), [5, 6, 7]), StackedNet(spec, (3,), [6])
    for name, value in together.member(together.state_dict(), 1).items():
        torch.testing.assert_close(value, alone.state_dict()[name])


@pytest.mark.parametrize("shape", [(7,), (2, 3), (3, 40), (2, 500), (1, 28, 28), (3, 5, 5)])
def test_default_network_takes_any_sensible_shape(shape):
    net = StackedNet(default_spec(shape), shape, [0])
    assert net(torch.randn(6, *shape)).shape == (1, 6, 1)


def test_latent_is_the_input_of_the_last_layer():
    net = StackedNet(preset("mnist")[0], (1, 25, 25), [0], outputs=2)
    x = torch.randn(3, 1, 25, 25)
    latent = net.latent(x)
    assert latent.shape == (1, 3, 8)
    torch.testing.assert_close(net(x), latent @ net.weight[-1] + net.bias[-1])
    own = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 1))
    looped = LoopedNet(own, [0])
    assert looped.latent(torch.randn(4, 3)).shape == (1, 4, 5)


@pytest.mark.parametrize(("spec", "shape"), [(preset("milling")[0], (1, 64)), (NetSpec(hidden=(4,)), (3,))])
@pytest.mark.parametrize("apart", [True, False])
def test_each_output_is_a_network_of_its_own(spec, shape, apart):
    net = StackedNet(spec, shape, [0, 1], outputs=3, apart=apart)
    assert net.branches == (3 if apart and spec.convs else 1)
    x = torch.randn(5, *shape)
    together = net(x)
    assert together.shape == (2, 5, 3)
    for output in range(3):
        single = StackedNet(spec, shape, [7, 8])
        single.load_state_dict(net.output(net.state_dict(), output))
        torch.testing.assert_close(single(x)[..., 0], together[..., output])


def test_apart_an_outputs_gradient_stays_out_of_the_others_layers():
    net = StackedNet(preset("milling")[0], (1, 64), [0], outputs=2, apart=True)
    net(torch.randn(5, 1, 64))[..., 0].sum().backward()
    state = {name: p.grad for name, p in net.named_parameters()}
    other, convs = net.output(state, 1), net.conv_weight[0].grad
    assert all(other[f"{kind}.{i}"].count_nonzero() == 0 for kind in ("weight", "bias") for i in range(3))
    assert convs is not None
    assert convs.count_nonzero() > 0


def test_seeds_give_users_module_different_starts_and_leave_it_alone():
    own = nn.Linear(3, 1)
    before = own.weight.clone()
    state = torch.random.get_rng_state()
    net = LoopedNet(own, [0, 1])
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(own.weight, before)
    assert not torch.equal(net.each[0].weight, net.each[1].weight)


@pytest.mark.parametrize("own", [nn.Linear(3, 2), nn.Identity(), nn.LSTM(3, 1)])
def test_network_with_the_wrong_output_is_named(own):
    with pytest.raises(InputError, match="one logit per row"):
        LoopedNet(own, [0])(torch.zeros(4, 3))


def test_normalised_head_folds_into_an_affine_map():
    head = NormalisedHead(2, 3)
    for _ in range(50):
        head(torch.randn(2, 64, 3) * 4 + 1)
    head.eval()
    z = torch.randn(2, 10, 3)
    a, b = head.affine()
    torch.testing.assert_close(head(z), z * a[:, None] + b[:, None])
    off = NormalisedHead(2, 3, enabled=False)
    assert torch.equal(off(z), z)


def test_too_small_windows_and_unknown_names_are_refused():
    with pytest.raises(InputError, match="too small"):
        preset("rf")[1].sizes((14, 30))
    with pytest.raises(InputError, match="unknown network"):
        preset("resnet")
    with pytest.raises(InputError, match="convolutional"):
        preset("rf")[0].sizes((14,))
