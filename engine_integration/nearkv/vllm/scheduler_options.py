"""What vLLM's --additional-config may say of its scheduler's policy."""

import dataclasses
from typing import Any

import _nearkv

from nearkv.store.settings import refuse_unknown
from nearkv.vllm.attention_options import SCHEDULER as KEY


@dataclasses.dataclass(frozen=True)
class SchedulerOptions:
    """The policy of nearkv_scheduler that decides, and its settings."""

    policy: str = "k_lpm"
    """sarathi, fair_share, cache_aware, k_lpm, rollout or slo."""
    k: int = 8
    """k_lpm: starts by longest cached prefix between starts by arrival."""
    window: int = 64
    """k_lpm, cache_aware: waiting requests that are looked at, the oldest ones."""
    longest_wait_s: float = 10
    """cache_aware: who waits longer is next."""
    shares: dict[str, float] = dataclasses.field(default_factory=dict)
    """fair_share: of tenants by name; others have 1."""
    output_weight: float = 2
    """fair_share: what a generated token counts beside one of a prompt."""
    quantum_tokens: float = 2000
    """fair_share: a tenant so far behind another may take its place."""
    least_run_s: float = 0.5
    """fair_share: nobody is preempted for another sooner after its start."""
    ttft_s: tuple[float, ...] = (1,)
    """slo: what each class is promised, from arrival to the first token."""
    prefill_s_per_token: float = 0
    """slo: what a prompt takes at least, to know who is too late."""

    @classmethod
    def parse(cls, additional_config: Any) -> "SchedulerOptions":
        """Options of vLLM's additional_config; ValueError names what is wrong and may be meant."""
        settings = additional_config if isinstance(additional_config, dict) else {}
        own = settings.get(KEY, {})
        if not isinstance(own, dict):
            raise ValueError(f'{KEY} is an object, such as {{"policy": "k_lpm"}}, not {own!r}')
        refuse_unknown(KEY, own, [field.name for field in dataclasses.fields(cls)])
        options = cls(**own)
        if not isinstance(options.shares, dict):
            raise ValueError(f'{KEY}: shares are by tenant, such as {{"a": 3, "b": 1}}')
        if options.policy == "agent_steps":
            raise ValueError(f"{KEY}: agent_steps needs a graph of agents, which vLLM has none of")
        return options

    @property
    def makes_room(self) -> bool:
        """Whether the policy preempts who runs for who waits."""
        return self.policy == "fair_share"

    def make_advisor(self, block_tokens: int) -> _nearkv.SchedulingAdvisor:
        """The policy; ValueError lists those that there are, or says what is out of its range."""
        settings = dataclasses.asdict(self)
        policy = settings.pop("policy")
        settings["shares"] = [*map(float, self.shares.values()), 1.0]
        settings["ttft_s"] = list(map(float, self.ttft_s))
        try:
            return _nearkv.SchedulingAdvisor(policy, block_tokens=block_tokens, **settings)
        except _nearkv.Error as error:
            raise ValueError(f"{KEY}: {error}") from error
        except TypeError as error:
            raise ValueError(f"{KEY}: a setting is of a wrong type: {settings}") from error
