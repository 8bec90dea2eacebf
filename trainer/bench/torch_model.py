"""The trainer's model in torch, to measure the trainer against.

Started by `trainer bench`: the first line of standard input is the run's settings as JSON and the
number of threads; each further line is a number of steps to take. The answer to each is one line
of JSON: seconds, CPU seconds and the last loss.

Written as one would for speed in eager torch on a CPU: fused attention, fused AdamW, for-each
weight average.
"""

import json
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, self.n_head, self.n_kv_head = c["d_model"], c["n_head"], c["n_kv_head"]
        self.head_dim = d // self.n_head
        self.dropout, self.activation = c["dropout"], c["activation"]
        qkv = (self.n_head + 2 * self.n_kv_head) * self.head_dim
        self.norm_attn, self.norm_ffn = norm(c), norm(c)
        self.w_qkv = nn.Linear(d, qkv, bias=c["attn_bias"])
        self.w_o = nn.Linear(d, d, bias=c["attn_bias"])
        self.w_up = nn.Linear(d, c["d_ff"], bias=c["ff_bias"])
        if self.activation == "swiglu":
            self.w_gate = nn.Linear(d, c["d_ff"], bias=c["ff_bias"])
        self.w_down = nn.Linear(c["d_ff"], d, bias=c["ff_bias"])

    def forward(self, x, rope):
        batch, length, d = x.shape
        heads = self.w_qkv(self.norm_attn(x))
        heads = heads.view(batch, length, -1, self.head_dim).transpose(1, 2)
        q, k, v = heads.split([self.n_head, self.n_kv_head, self.n_kv_head], 1)
        if rope is not None:
            q, k = rotate(q, *rope), rotate(k, *rope)
        y = F.scaled_dot_product_attention(
            q,
            k,
            v,
            is_causal=True,
            dropout_p=self.dropout,
            enable_gqa=self.n_head != self.n_kv_head,
        )
        y = self.w_o(y.transpose(1, 2).reshape(batch, length, d))
        x = x + F.dropout(y, self.dropout) if self.dropout else x + y
        h = self.norm_ffn(x)
        up = self.w_up(h)
        if self.activation == "gelu":
            up = F.gelu(up)
        elif self.activation == "relu":
            up = F.relu(up)
        elif self.activation == "relu2":
            up = F.relu(up).square()
        else:
            up = F.silu(self.w_gate(h)) * up
        y = self.w_down(up)
        return x + F.dropout(y, self.dropout) if self.dropout else x + y


def norm(c):
    if c["norm"] == "rmsnorm":
        return nn.RMSNorm(c["d_model"], eps=1e-5)
    return nn.LayerNorm(c["d_model"], eps=1e-5, bias=c["norm_bias"])


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Gpt(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, length = c["d_model"], c["context_len"]
        self.scale = math.sqrt(d) if c["embed_scale"] else None
        self.embed = nn.Embedding(c["vocab_size"], d)
        self.pos = None
        rope = None
        if c["position"] == "rope":
            half = d // c["n_head"] // 2
            turns = c["rope_base"] ** (-torch.arange(half) / half)
            angles = torch.arange(length)[:, None] * turns
            rope = (angles.cos(), angles.sin())
        elif c["position"] == "learned":
            self.pos = nn.Parameter(torch.randn(length, d) * 0.02)
        else:
            turns = 10_000.0 ** (-torch.arange(0, d, 2) / d)
            angles = torch.arange(length)[:, None] * turns
            self.register_buffer("sines", torch.stack([angles.sin(), angles.cos()], 2).flatten(1))
        self.rope, self.position = rope, c["position"]
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["n_layer"]))
        self.norm = norm(c)
        self.head = nn.Linear(d, c["vocab_size"], bias=c["head_bias"])
        nn.init.normal_(self.embed.weight, std=0.02)
        if c["tied"]:
            self.head.weight = self.embed.weight

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        if self.scale is not None:
            x = x * self.scale
        if self.position == "learned":
            x = x + self.pos
        elif self.position == "sinusoidal":
            x = x + self.sines
        for layer in self.layers:
            x = layer(x, self.rope)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def main():
    c = json.loads(sys.stdin.readline())
    threads = int(sys.stdin.readline())
    torch.set_num_threads(threads)
    torch.manual_seed(c["seed"])
    model = Gpt(c)
    params = list(model.parameters())
    groups = [
        {"params": [p for p in params if p.dim() > 1], "weight_decay": c["weight_decay"]},
        {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(
        groups, lr=c["lr"], betas=(c["beta1"], c["beta2"]), eps=c["eps"], fused=True
    )
    average = [p.detach().clone() for p in params]
    text = torch.randint(c["vocab_size"], (1_000_000,))
    length, batch = c["train_len"], c["batch"]
    print(json.dumps({"torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            starts = torch.randint(len(text) - length, (batch,)).tolist()
            tokens = torch.stack([text[i : i + length] for i in starts])
            targets = torch.stack([text[i + 1 : i + 1 + length] for i in starts])
            optimizer.zero_grad(set_to_none=True)
            loss = model(tokens, targets)
            loss.backward()
            nn.utils.clip_grad_norm_(params, c["clip"])
            optimizer.step()
            with torch.no_grad():
                torch._foreach_lerp_(average, params, 1 - c["ema_decay"])
        seconds = {
            "seconds": time.perf_counter() - wall,
            "cpu_seconds": time.process_time() - cpu,
            "loss": loss.item(),
        }
        print(json.dumps(seconds), flush=True)


main()
