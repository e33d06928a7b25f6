"""slime's own asynchronous rollout loop, without an engine: it needs a checkout, see `checkout`."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import checkout
import numpy as np
import pytest
from stand_in import Status, arguments, by_prompt


class Router(BaseHTTPRequestHandler):
    """Of no engine at all: there is nothing to abort."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"workers": []}')

    def log_message(self, *_):
        pass


async def answer(args, sample, sampling_params):
    """`--custom-generate-function-path`: later rollouts take longer."""
    prompt, rollout = int(sample.prompt[1:]), sample.metadata["curro_rollout"]
    await asyncio.sleep(0.002 * prompt)
    sample.reward, sample.status = by_prompt(prompt, rollout), Status.COMPLETED
    return sample


@pytest.fixture
def router():
    with HTTPServer(("127.0.0.1", 0), Router) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.parametrize("partial", [False, True])
def test_slimes_loop_fills_its_batches_from_the_curriculum(load, tmp_path, router, partial):
    gate = {"selection": "prioritized-replay", "admission": "band:0.2,0.8", "advantage": "group", "seed": 7}
    args = arguments(
        tmp_path, curro=gate, partial_rollout=partial, over_sampling_batch_size=8, rollout_batch_size=4,
        custom_generate_function_path=f"{__name__}.answer", group_rm=False, rollout_sample_filter_path=None,
        mask_offpolicy_in_partial_rollout=False, sglang_router_ip="127.0.0.1", sglang_router_port=router,
        sglang_server_concurrency=64, rollout_num_engines=1, sglang_dp_size=1, use_distributed_post=False,
        rollout_temperature=1.0, rollout_top_p=1.0, rollout_top_k=-1, rollout_max_response_len=4,
        rollout_stop=None, rollout_stop_token_ids=None, rollout_skip_special_tokens=True,
    )  # fmt: skip
    checkout.own("utils.http_utils:init_http_client")(args)
    source = load(args.data_source_path)(args)
    for rollout in range(5):
        output = checkout.own("rollout.sglang_rollout:generate_rollout")(args, rollout, source)
        rates = [np.mean([sample.reward for sample in group]) for group in output.samples]
        assert len(rates) == 4
        assert all(0.2 <= rate <= 0.8 for rate in rates)
        flat = [sample for group in output.samples for sample in group]
        raw, credited = load(args.custom_reward_post_process_path)(args, flat)
        assert credited == pytest.approx(np.array(raw) - np.repeat(rates, 4))
    metrics = source.curriculum.metrics()
    assert metrics["selected"] == metrics["observed"] + metrics["dropped"] + metrics["in_flight"]
    assert metrics["observed"] >= 20
    assert metrics["in_flight"] == source.get_buffer_length()
    assert (metrics["in_flight"] == 0) != partial
    assert (metrics["dropped"] == 0) == partial
