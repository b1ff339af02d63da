"""Measures the bytes a second that each OpenCL kernel takes in, by the device's own queue."""

from collections.abc import Iterator

from bench import Context, Skipped
from bench.programs import Programs
from nearkv.results import Result, Samples


def run(context: Context) -> Iterator[Result]:
    """Yields what each kernel takes in of its data per second, on the first OpenCL device."""
    tokens = "1024" if context.tiny else "65536" if context.long else "16384"
    context.progress("running the OpenCL kernels")
    told = Programs(context).run("opencl", "--tokens", tokens)
    if told["missing"]:
        raise Skipped(told["missing"])
    for row in told["results"]:
        yield Result.of_samples(
            f"opencl/{row['kernel']}",
            Samples(tuple(row["gbytes_per_s"])),
            "GB/s",
            device=f"ocl: {told['device']}",
            extra={"tokens": told["tokens"], "channels": 128, "rows": 8},
        )
