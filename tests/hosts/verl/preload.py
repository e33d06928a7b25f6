"""What verl imports, without itself, which reads the environment then, and without Ray, which does so too."""

# ruff: noqa: F401
import gc

import accelerate
import aiohttp
import datasets
import hydra
import pandas
import peft
import PIL.Image
import tensordict
import torch.distributed.checkpoint
import torch.distributed.fsdp
import torch.distributed.tensor
import torch.nn.attention.flex_attention
import torchdata.stateful_dataloader
import transformers.modeling_utils
import transformers.trainer_pt_utils
import zmq.asyncio

gc.collect()
gc.freeze()
