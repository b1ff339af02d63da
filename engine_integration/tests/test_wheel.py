"""What a user installs: a wheel, from a source distribution alone, in an environment of its own."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATH = "/usr/local/bin:/usr/bin:/bin"
FIND_KERNELS = """
import torch
from nearkv.core import Error
from nearkv.cuda import gpu_of

try:
    print(gpu_of(torch.device("cuda", 0)).info.name.decode())
except Error as error:
    print(error)
"""
ROUND_TRIP = """
import numpy
from nearkv.core import Device, Dtype, Pool

pool = Pool.create(Device("{uri}"), layers=1, kv_heads=1, head_dim=32, dtype=Dtype.FP16)
pool.create_sequence(1)
values = numpy.arange(64 * 32, dtype=numpy.float16).reshape(1, 64, 32)
pool.append(1, 0, numpy.zeros_like(values), values)
output, _ = pool.attend(1, 0, numpy.zeros((1, 1, 32), numpy.float16), scale=1.0)
assert numpy.allclose(output, values.mean(axis=1, dtype=numpy.float64), rtol=1e-3), output
"""


def run(*command: str | Path, folder: Path) -> str:
    """Runs in `folder`, where nothing of the checkout is found; what it prints."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={"PATH": PATH})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# The first test that asks for the wheel waits until it is compiled, kernels for GPUs included.
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution."""
    folder = tmp_path_factory.mktemp("source")
    build = f"from scikit_build_core.build import build_sdist; build_sdist({str(folder)!r})"
    run(sys.executable, "-c", build, folder=ROOT)
    (file,) = folder.glob("nearkv-*.tar.gz")
    return file


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    words = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)]
    # Of the GPUs that a wheel is for, one: each more takes nvcc as long again.
    words += ["--config-settings", "cmake.define.NEARKV_CUDA_ARCHITECTURES=90-real"]
    run(sys.executable, "-m", "pip", "wheel", *words, folder=folder)
    (file,) = folder.glob("nearkv-*.whl")
    return file


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel, and what else ours has."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    program = folder / "bin" / "python"
    words = ["--python", str(program), "install", "--no-deps", str(wheel)]
    run(sys.executable, "-m", "pip", *words, folder=folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return program


def test_the_source_distribution_has_neither_tests_nor_models(source: Path):
    with tarfile.open(source) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames()]
    assert "CMakeLists.txt" in names
    assert not [name for name in names if name.startswith(("tests/", "build/", ".ci/"))]
    assert not [name for name in names if "/models/" in name]


def test_the_wheel_has_the_package_its_libraries_and_types(wheel: Path):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert names >= {"nearkv/lib/libnearkv.so", "nearkv/lib/libnearkv_model.so"}
    assert names >= {"nearkv/py.typed", "_nearkv.pyi", "nkv_abi.py", "nearkv/core.py"}
    stable = sys.version_info >= (3, 12)
    assert ("-cp312-abi3-" in wheel.name) == stable
    assert not [name for name in names if name.startswith(("bench", "emulator", "nearkv/tests"))]


def test_the_wheel_has_kernels_for_gpus_where_it_was_built_with_nvcc(
    wheel: Path, python: Path, tmp_path: Path
):
    has_nvcc = shutil.which("nvcc", path=f"{PATH}:/usr/local/cuda/bin") is not None
    names = zipfile.ZipFile(wheel).namelist()
    assert ("nearkv/lib/libnearkv_cuda.so" in names) == has_nvcc
    assert "nearkv/lib/libnearkv_cuda_emulated.so" not in names
    said = run(python, "-c", FIND_KERNELS, folder=tmp_path)
    assert has_nvcc == ("is not beside" not in said), said
    assert has_nvcc or "cmake.define.NEARKV_CUDA=ON" in said


@pytest.mark.parametrize("uri", ["cpu:?memory=16MiB", "model:?memory=16MiB"])
def test_a_pool_works_where_the_wheel_is_installed(python: Path, tmp_path: Path, uri: str):
    run(python, "-c", ROUND_TRIP.format(uri=uri), folder=tmp_path)


def test_the_doctor_sees_the_package_and_the_engines(python: Path, tmp_path: Path):
    report = json.loads(run(python, "-m", "nearkv", "doctor", "--json", folder=tmp_path))
    found = {check["name"]: check for check in report["checks"]}
    assert report["missing"] == []
    assert str(python.parents[1]) in found["extension"]["found"]
    assert found["transformers"]["state"] == "ok"
    assert "CMake >= 3.25" not in found
    assert not [check for check in report["checks"] if "./nearkv" in check["mend"]]


def test_the_package_names_its_commands(python: Path, tmp_path: Path):
    assert "doctor" in run(python, "-m", "nearkv", "--help", folder=tmp_path)
    wrong = subprocess.run([python, "-m", "nearkv", "nothing"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "nothing is called nothing" in wrong.stderr


def newer_pythons() -> list[Path]:
    """Interpreters of this machine that one stable wheel serves, one of each version."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    kept = (path / "bin" / "python" for path in versions.glob("3.*"))
    on_path = (shutil.which(f"python3.{minor}") for minor in range(12, 20))
    found: dict[tuple[int, ...], Path] = {}
    for program in (*kept, *(Path(one) for one in on_path if one)):
        # One that a shim stands for may not be there.
        said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        if (told := re.match(r"Python (\d+)\.(\d+)\.\d+$", said)) and int(told[2]) >= 12:
            found.setdefault((int(told[1]), int(told[2])), program)
    return [found[version] for version in sorted(found)]


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_one_wheel_serves_python_3_12_and_all_newer_ones(source: Path, tmp_path: Path):
    pythons = newer_pythons()
    if not pythons:
        pytest.skip("there is no Python 3.12 or newer on the PATH or below ~/.pyenv")
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run_outside(*command: str | Path) -> None:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=outside)
        assert done.returncode == 0, done.stdout + done.stderr

    programs = []
    for python in pythons:
        folder = tmp_path / f"environment-{len(programs)}"
        run_outside(python, "-m", "venv", folder)
        programs.append(folder / "bin" / "python")
    # The oldest builds it, as a user's pip does.
    run_outside(programs[0], "-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path, source)
    (wheel,) = tmp_path.glob("nearkv-*.whl")
    assert "-cp312-abi3-" in wheel.name
    for program in programs:
        run_outside(program, "-m", "pip", "install", wheel)
        run(program, "-c", ROUND_TRIP.format(uri="cpu:?memory=16MiB"), folder=tmp_path)
