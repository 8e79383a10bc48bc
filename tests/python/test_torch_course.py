"""What a course on language models asks of attention, DDP, FSDP and a sharded optimizer, on two ranks over Gloo."""

import os
import socket
from copy import deepcopy

import pytest
import torch
import torch.distributed as dist
from support import DEVICES, plain, visible

import ridgeline
import ridgeline.torch
from ridgeline.torch import DDP, FSDP, FlashAttention, ShardedOptimizer

RANKS = 2


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("is_causal", [False, True])
def test_flash_attention_saves_one_log_sum_exp_and_has_gradients(is_causal, device):
    torch.manual_seed(0)
    q, k, v, d_out = (torch.randn(4, 128, 64).to(device) for _ in range(4))
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = FlashAttention.apply(*leaves, is_causal)
    expected, expected_lse = plain(*leaves, visible(128, 128, is_causal, None, device))
    rows = [x for x in out.grad_fn.saved_tensors if x.shape == (4, 128)]
    assert len(rows) == 1
    torch.testing.assert_close(rows[0], expected_lse, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(out, expected, rtol=1e-2, atol=1e-2)
    for got, right in zip(torch.autograd.grad(out, leaves, d_out), torch.autograd.grad(expected, leaves, d_out)):
        torch.testing.assert_close(got, right, rtol=1e-2, atol=1e-2)


def test_flash_attention_needs_no_is_causal_and_serves_heads():
    q, k, v = (torch.randn(1, 2, 5, 8) for _ in range(3))
    assert torch.allclose(FlashAttention.apply(q, k, v), plain(q, k, v)[0], atol=1e-5)


def test_wrappers_without_a_process_group_say_what_is_missing():
    for wrap in (DDP, FSDP, lambda module: ShardedOptimizer(module.parameters(), torch.optim.SGD, lr=0.1)):
        with pytest.raises(ridgeline.DeviceError, match="init_process_group"):
            wrap(torch.nn.Linear(2, 2))


class Frozen(torch.nn.Module):
    """Layers of which some parameters have no gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(10, 10, bias=False), torch.nn.Linear(10, 50)
        self.third = torch.nn.Linear(50, 5, bias=False)
        self.second.bias.requires_grad_(False)
        self.fixed = torch.nn.Parameter(torch.tensor([2.0, 2.0]), requires_grad=False)

    def forward(self, x):
        return self.third(torch.relu(self.second(torch.relu(self.first(x)))))


class Tied(torch.nn.Module):
    """Two layers share a matrix."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(10, 50, bias=False), torch.nn.Linear(50, 10, bias=False)
        self.again, self.last = torch.nn.Linear(10, 50, bias=False), torch.nn.Linear(50, 5, bias=False)
        self.again.weight = self.first.weight

    def forward(self, x):
        return self.last(torch.relu(self.again(torch.relu(self.second(torch.relu(self.first(x)))))))


class Embedded(torch.nn.Module):
    """An embedding, norms and products; `attend` reads the matrix of its child without calling it."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(101, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.attend = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = torch.nn.Linear(16, 101, bias=False)

    def forward(self, ids):
        x = self.norm(self.embedding(ids))
        return self.head(x + self.attend(x, x, x, need_weights=False)[0])


def everywhere_equal(x):
    parts = [torch.zeros_like(x) for _ in range(RANKS)]
    dist.all_gather(parts, x)
    return all(torch.equal(part, parts[0]) for part in parts)


def averages(model, batches, loss_of):
    """Gradients of each rank's part of the batch by a plain model, averaged."""
    sums = None
    for batch in batches:
        model.zero_grad(set_to_none=True)
        loss_of(model, batch).backward()
        own = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
        sums = own if sums is None else [a if b is None else a + b for a, b in zip(sums, own)]
    return [None if x is None else x / len(batches) for x in sums]


def check_ddp(rank, make):
    torch.manual_seed(rank)
    alone = make()
    model = DDP(deepcopy(alone))
    for (name, before), after in zip(alone.named_parameters(), model.module.parameters()):
        same = torch.equal(before, after)
        assert same if rank == 0 or name == "fixed" else not same, name
    assert all(everywhere_equal(x) for x in model.module.state_dict().values())
    whole = deepcopy(model.module)
    optimizer, whole_optimizer = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, whole))
    torch.manual_seed(7)
    for _ in range(5):
        x, y = torch.randn(20, 10), torch.randn(20, 5)
        whole_optimizer.zero_grad()
        torch.nn.functional.mse_loss(whole(x), y).backward()
        whole_optimizer.step()
        optimizer.zero_grad()
        mine = slice(10 * rank, 10 * rank + 10)
        torch.nn.functional.mse_loss(model(x[mine]), y[mine]).backward()
        model.finish_gradient_synchronization()
        optimizer.step()
        for (name, a), b in zip(whole.named_parameters(), model.module.parameters()):
            assert torch.allclose(a, b), name
    for p in model.module.parameters():
        assert p.requires_grad or p.grad is None


def check_fsdp(rank, compute_dtype):
    torch.manual_seed(rank)
    model = FSDP(Embedded(), compute_dtype)
    whole = Embedded()
    whole.load_state_dict({name: x.clone() for name, x in model.gather_full_parameters().items()})
    optimizer, whole_optimizer = (torch.optim.SGD(m.parameters(), lr=0.01) for m in (model, whole))

    def loss_of(module, batch):
        ids, labels = batch
        return torch.nn.functional.cross_entropy(module(ids)[:, -1].float(), labels)

    torch.manual_seed(9)
    for _ in range(3):
        ids, labels = torch.randint(0, 101, (20, 8)), torch.randint(0, 101, (20,))
        parts = [(ids[at : at + 10], labels[at : at + 10]) for at in (0, 10)]
        optimizer.zero_grad(set_to_none=True)
        loss_of(model, parts[rank]).backward()
        model.finish_gradient_synchronization()
        for name, p in model.module.named_parameters():
            assert p.grad is not None and p.grad.shape == p.shape and p.grad.dtype == torch.float32, name
            if p.dim() == 1 and p not in model._shards:
                assert everywhere_equal(p.grad), name
        expected = averages(whole, parts, loss_of)
        for p, gradient in zip(whole.parameters(), expected):
            p.grad = gradient
        optimizer.step()
        whole_optimizer.step()
        full = model.gather_full_parameters()
        assert list(full) == [name for name, _ in whole.named_parameters()]
        for name, p in whole.named_parameters():
            if compute_dtype is None:
                assert torch.equal(full[name], p), name  # to the bit what the ranks' gradients make
            else:
                assert torch.allclose(full[name], p, atol=1e-3, rtol=1e-3), name
    held = sum(p.numel() for p in model.parameters() if p.dim() == 1)
    assert held < 0.6 * sum(p.numel() for p in whole.parameters())
    assert all(name not in module.__dict__ for module in model.modules() for name in ("weight", "in_proj_weight"))


def check_gradients_that_add_up(rank, wrap):
    """Two backwards before one finish_gradient_synchronization(), and a module that reentrant checkpoints run twice."""
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.LayerNorm(6))
    plain_module = deepcopy(module)
    model = wrap(module)

    def twice(module, x):
        return checkpoint(module, checkpoint(module, x, use_reentrant=True), use_reentrant=True)

    for forward in (lambda module, x: module(x), twice):
        model.zero_grad(set_to_none=True)
        batches = [torch.randn(4, 6, requires_grad=True) for _ in range(2)]
        for x in batches:
            forward(model, x[2 * rank : 2 * rank + 2]).square().mean().backward()
        model.finish_gradient_synchronization()
        plain_module.zero_grad(set_to_none=True)
        for x in batches:
            forward(plain_module, x).square().mean().backward()
        for expected, p in zip(plain_module.parameters(), model.parameters()):
            expected = expected.grad if p.shape == expected.shape else expected.grad.reshape(RANKS, -1)[rank]
            torch.testing.assert_close(p.grad, expected)


def check_sharded_optimizer(make):
    torch.manual_seed(42)
    options = {"lr": 0.1, "weight_decay": 0.1, "betas": (0.9, 0.999), "eps": 1e-8}
    model = make()
    sharded = deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    sharded_optimizer = ShardedOptimizer(sharded.parameters(), torch.optim.AdamW, **options)
    schedules = [torch.optim.lr_scheduler.ExponentialLR(each, 0.9) for each in (optimizer, sharded_optimizer)]
    for _ in range(10):
        x, y = torch.rand(32, 10), torch.rand(32, 5)
        for module, each in ((model, optimizer), (sharded, sharded_optimizer)):
            each.zero_grad()
            ((y - module(x)) ** 2).sum().backward()
            each.step()
        for schedule in schedules:
            schedule.step()
    for a, b in zip(model.parameters(), sharded.parameters()):
        assert torch.equal(a, b)
    states = sum(x.numel() for state in sharded_optimizer.state.values() for x in state.values() if torch.is_tensor(x))
    assert states < 0.8 * sum(x.numel() for state in optimizer.state.values() for x in state.values() if torch.is_tensor(x))


def check_a_resumed_sharded_optimizer():
    """Options that only the optimizer itself has, for a schedule, and state that moves to another optimizer."""
    torch.manual_seed(42)
    sides = []
    for make in (torch.optim.AdamW, lambda parameters: ShardedOptimizer(parameters, torch.optim.AdamW)):
        torch.manual_seed(42)
        module = Tied()
        optimizer = make(module.parameters())
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=8)
        for step in range(6):
            if step == 3:
                saved = deepcopy(optimizer.state_dict())
                optimizer = make(module.parameters())
                optimizer.load_state_dict(saved)
                schedule.optimizer = optimizer
            optimizer.zero_grad()
            module(torch.rand(32, 10)).square().sum().backward()
            optimizer.step()
            schedule.step()
        sides.append(list(module.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(*sides))


def rank_of_all_checks(rank, port):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo",
                      USE_LIBUV="0")  # which Debian 13's PyTorch was built without
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    for make in (Frozen, Tied):
        check_ddp(rank, make)
        check_sharded_optimizer(make)
    check_a_resumed_sharded_optimizer()
    for wrap in (DDP, FSDP):
        check_gradients_that_add_up(rank, wrap)
    check_fsdp(rank, None)
    if hasattr(torch, "compile"):  # PyTorch 1.13 has no such products on the CPU
        check_fsdp(rank, torch.float16)
    dist.barrier()
    dist.destroy_process_group()


def test_ddp_fsdp_and_the_sharded_optimizer_train_as_one_rank_does():
    """All in one pair of processes: starting them takes longer than the checks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(rank_of_all_checks, args=(port,), nprocs=RANKS, join=True)
