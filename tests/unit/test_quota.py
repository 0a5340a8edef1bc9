"""Threads follow the control group's quota, a parent's included."""

import pytest

from cheap_inference import machine
from cheap_inference.quota import quota_threads


def tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


V1 = {
    "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/job\n",
    "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "250000\n",
    "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "150000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "50000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
                "sys/fs/cgroup/a/cpu.max": "300000 100000\n",
            },
            3,
        ),
        ({"proc/self/cgroup": "0::/zadanie-ż\n", "sys/fs/cgroup/zadanie-ż/cpu.max": "200000 100000\n"}, 2),
        (V1, 2),
        ({**V1, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "-1\n"}, None),
    ],
)
def test_the_quota_is_read(tmp_path, files, expected):
    assert quota_threads(root=tree(tmp_path, files)) == expected


def test_omp_num_threads_decides(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert machine.threads() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert machine.threads() >= 1
