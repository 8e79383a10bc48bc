"""Training on several ranks of torch.distributed: DDP, FSDP and an optimizer whose state is sharded over the ranks."""

import functools

import torch
import torch.distributed as dist

from ..errors import DeviceError


def _ranks():
    if not (dist.is_available() and dist.is_initialized()):
        raise DeviceError("torch.distributed has no process group: call torch.distributed.init_process_group() before")
    return dist.get_rank(), dist.get_world_size()


def _broadcast(tensors):
    for work in [dist.broadcast(x, src=0, async_op=True) for x in tensors]:
        work.wait()


def _after_gradient(parameter, hook):
    """Calls hook(parameter) when the gradient of a backward is complete."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):  # PyTorch 2.1
        parameter.register_post_accumulate_grad_hook(hook)
        return None
    accumulate = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    accumulate.register_hook(lambda *_: hook(parameter))
    return accumulate  # its hooks live as long as it does


class _Averaged:
    """Gradients that are averaged over the ranks while the backward continues."""

    def __init__(self, ranks):
        self._ranks, self._in_place, self._under_way, self._kept = ranks, {}, [], []

    def watch(self, parameter):
        """Averages the gradient of a parameter in place after each backward. The average is complete before another
        gradient is added to it, by the next backward or by a checkpoint within one."""
        parameter.register_hook(lambda _: self._finish_in_place(parameter))
        self._kept.append(_after_gradient(parameter, self._start_in_place))

    def _start_in_place(self, parameter):
        self._in_place[parameter] = dist.all_reduce(parameter.grad, async_op=True), parameter.grad

    def _finish_in_place(self, parameter):
        work, gradient = self._in_place.pop(parameter, (None, None))
        if work is not None:
            work.wait()
            with torch.no_grad():
                gradient.div_(self._ranks)

    def start(self, gradient, done):
        """Starts averaging; finish() calls `done(average)`."""
        self._under_way.append((dist.all_reduce(gradient, async_op=True), gradient, done))

    def finish(self):
        for parameter in list(self._in_place):
            self._finish_in_place(parameter)
        for work, gradient, done in self._under_way:
            work.wait()
            done(gradient.div_(self._ranks))
        self._under_way.clear()


class DDP(torch.nn.Module):
    """Data parallelism: every rank holds `module`, initialised from rank 0, and processes a part of the batch. Each
    gradient is averaged as soon as it is computed, while the backward continues; call finish_gradient_synchronization()
    before the optimizer's step. All ranks must use the same parameters in a step."""

    def __init__(self, module):
        super().__init__()
        _, ranks = _ranks()
        self.module = module
        _broadcast([x.data for x in (*module.parameters(), *module.buffers())])
        self._averaged = _Averaged(ranks)
        for parameter in module.parameters():
            if parameter.requires_grad:
                self._averaged.watch(parameter)

    def finish_gradient_synchronization(self):
        self._averaged.finish()

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)


class _Shard:
    """The part of a matrix that this rank holds: an equal share of its elements, padded with zeros at the end."""

    def __init__(self, parameter, rank, ranks):
        self.parameter, self.rank, self.ranks = parameter, rank, ranks
        self.shape = parameter.shape
        self.length = -(-parameter.numel() // ranks)
        parameter.data = self._flat(parameter.data)[rank].clone()

    def _flat(self, whole):
        flat = whole.reshape(-1)
        missing = self.length * self.ranks - flat.numel()
        return torch.nn.functional.pad(flat, (0, missing)).view(self.ranks, self.length)

    def gather(self, dtype=None):
        """Returns the whole matrix, communicated in `dtype` or its own."""
        mine = self.parameter.data if dtype is None else self.parameter.data.to(dtype)
        parts = torch.empty(self.ranks, self.length, dtype=mine.dtype, device=mine.device)
        # As bytes, because not every backend sends bfloat16.
        dist.all_gather(list(parts.view(torch.uint8).unbind()), mine.contiguous().view(torch.uint8))
        return parts.view(-1)[: self.shape.numel()].view(self.shape)

    def average(self, gradient, averaged):
        """Starts averaging the whole gradient over the ranks, in the dtype of the shard."""
        flat = self._flat(gradient.to(self.parameter.dtype)).contiguous()
        if flat.data_ptr() == gradient.data_ptr():
            flat = flat.clone()

        def done(average):
            mine = average[self.rank]
            if self.parameter.grad is None:
                self.parameter.grad = mine.clone()
            else:
                self.parameter.grad += mine

        averaged.start(flat, done)


class _Whole(torch.autograd.Function):
    """Returns the whole matrix of a shard; its gradient is averaged and becomes the shard's."""

    @staticmethod
    def forward(ctx, parameter, shard, averaged, dtype):
        ctx.shard, ctx.averaged = shard, averaged
        return shard.gather(dtype)

    @staticmethod
    def backward(ctx, gradient):
        ctx.shard.average(gradient, ctx.averaged)
        return None, None, None, None


def _storage(x):
    return (x.untyped_storage() if hasattr(x, "untyped_storage") else x.storage()).data_ptr()


class FSDP(torch.nn.Module):
    """Fully sharded data parallelism: every matrix of `module` is sharded over the ranks and gathered when a module
    needs it, once for the forward and once more for the backward; smaller parameters are on every rank. A module with
    matrices of its own is gathered together with all its submodules. Matrices are sent and used in compute_dtype, if
    given, and their biases are used in it; shards, gradients and optimizer state keep the parameter's dtype. Call
    finish_gradient_synchronization() before the optimizer's step."""

    def __init__(self, module, compute_dtype=None):
        super().__init__()
        rank, ranks = _ranks()
        self.module, self._dtype = module, compute_dtype
        self._averaged = _Averaged(ranks)
        _broadcast([x.data for x in (*module.parameters(), *module.buffers())])
        self._shards = {p: _Shard(p, rank, ranks) for p in module.parameters() if p.dim() > 1}
        self._wrap(module)
        for parameter in module.parameters():
            if parameter not in self._shards and parameter.requires_grad:
                self._averaged.watch(parameter)

    def _wrap(self, module):
        if any(p in self._shards for p in module.parameters(recurse=False)):
            module.forward = functools.partial(self._gathered, module, module.forward)
            return
        for child in module.children():
            self._wrap(child)

    def _gathered(self, module, forward, *args, **kwargs):
        """Runs a forward on whole matrices; autograd saves only a reference by which they are gathered again."""
        owners = [(owner, name, p) for owner in module.modules() for name, p in owner.named_parameters(recurse=False)]
        wholes = {p: self._whole(p) for _, _, p in owners}
        places = {_storage(whole): self._shards[p] for p, whole in wholes.items() if p in self._shards}
        again = {}  # matrices gathered by the backward of this module

        def pack(x):
            shard = places.get(_storage(x)) if isinstance(x, torch.Tensor) and x.layout == torch.strided else None
            return x if shard is None else (shard, x.shape, x.stride(), x.storage_offset())

        def unpack(packed):
            if isinstance(packed, torch.Tensor):
                return packed
            shard, shape, stride, offset = packed
            if shard not in again:
                again[shard] = shard.gather(self._dtype)
            return again[shard].as_strided(shape, stride, offset)

        for owner, name, p in owners:
            owner.__dict__[name] = wholes[p]  # takes precedence over the parameter of that name
        try:
            with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                return forward(*args, **kwargs)
        finally:
            for owner, name, _ in owners:
                del owner.__dict__[name]

    def _whole(self, p):
        """Returns what replaces a parameter in a module: the whole matrix, or a bias in the dtype of its matrix."""
        if p in self._shards:
            return _Whole.apply(p, self._shards[p], self._averaged, self._dtype)
        return p if self._dtype is None or not p.is_floating_point() else p.to(self._dtype)

    def finish_gradient_synchronization(self):
        self._averaged.finish()

    def gather_full_parameters(self):
        """Returns every whole parameter by its name in the module."""
        return {name: self._shards[p].gather() if p in self._shards else p.data
                for name, p in self.module.named_parameters()}  # fmt: skip

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)


class ShardedOptimizer(torch.optim.Optimizer):
    """An optimizer_cls whose state is sharded over the ranks: each rank updates its share of the parameters and sends
    them to the others. Gradients must be the same on all ranks, as after DDP. state_dict() holds the state of this rank's
    share: save and load it on every rank."""

    def __init__(self, params, optimizer_cls, **kwargs):
        self._rank, ranks = _ranks()
        self._make = functools.partial(optimizer_cls, **kwargs)
        self._owners, self._elements, self._own = {}, [0] * ranks, None
        super().__init__(params, dict(kwargs))
        self.defaults.update(self._own.defaults)
        self.state = self._own.state

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for p in group["params"]:
            owner = self._elements.index(min(self._elements))
            self._owners[p] = owner
            self._elements[owner] += p.numel()
        mine = {**group, "params": [p for p in group["params"] if self._owners[p] == self._rank]}
        if self._own is None:
            self._own = self._make([mine])
        else:
            self._own.add_param_group(mine)
        for name, value in self._own.param_groups[-1].items():
            group.setdefault(name, value)  # what optimizer_cls adds, such as the learning rate that a scheduler reads

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)  # makes a new dict
        self._own.state = self.state

    @torch.no_grad()
    def step(self, closure=None):
        for group, own in zip(self.param_groups, self._own.param_groups):  # schedulers change our groups
            own.update({name: value for name, value in group.items() if name != "params"})
        loss = self._own.step() if closure is None else self._own.step(closure)
        for work in [dist.broadcast(p.data, src=owner, async_op=True) for p, owner in self._owners.items()]:
            work.wait()
        return loss
