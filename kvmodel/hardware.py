"""Accelerators, links, devices and nodes, as data (`specs/hardware/*.toml`)."""

import tomllib
from dataclasses import dataclass
from functools import cache

from kvmodel.specfile import SPEC_ID, SPECS, Spec, read_spec
from kvmodel.units import refuse


@dataclass(frozen=True, slots=True)
class Link:
    """A way that bytes take: PCIe, NVLink-C2C, a network adapter, a drive slot, shared storage. Rates are per `per`, one direction."""

    spec: Spec

    @property
    def per(self) -> str:
        """What one of these links serves: accelerator, node, nic, drive or module."""
        return str(self.spec.text["per"])

    @property
    def measured(self) -> bool:
        """True where a measured rate stands behind `read_bytes_per_s`."""
        return "measured_bytes_per_s" in self.spec.values

    @property
    def read_bytes_per_s(self) -> float:
        """Towards the accelerator: measured where known, else nominal [bytes/s]."""
        return self.spec.need("measured_bytes_per_s" if self.measured else "nominal_bytes_per_s")

    @property
    def write_bytes_per_s(self) -> float:
        """Away from the accelerator: measured where known, else as read [bytes/s]."""
        return self.spec.get("measured_write_bytes_per_s") or self.read_bytes_per_s

    @property
    def nominal_bytes_per_s(self) -> float | None:
        """Nominal rate, one direction [bytes/s]."""
        return self.spec.get("nominal_bytes_per_s")


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One accelerator package."""

    spec: Spec

    @property
    def id(self) -> str:
        """The spec's id."""
        return self.spec.id

    @property
    def memory_bytes(self) -> int:
        """Capacity as marketed, decimal: the basis of `fit` [bytes]."""
        return int(self.spec.need("memory_bytes"))

    @property
    def memory_reported_bytes(self) -> int | None:
        """The other reading: what the device or its maker's planning file reports [bytes]."""
        found = self.spec.get("memory_reported_bytes")
        return None if found is None else int(found)

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Peak memory bandwidth [bytes/s]."""
        return self.spec.need("bandwidth_bytes_per_s")

    @property
    def bf16_flops(self) -> float | None:
        """Dense BF16 FLOPs per second."""
        return self.spec.get("bf16_flops")

    @property
    def fp8_flops(self) -> float | None:
        """Dense FP8 FLOPs per second."""
        return self.spec.get("fp8_flops")

    @property
    def host_link(self) -> Link:
        """The link between host and accelerator."""
        return link(str(self.spec.text["host_link"]))

    @property
    def host_link_bytes_per_s(self) -> float:
        """Host to accelerator: measured where known, else nominal [bytes/s]."""
        return self.host_link.read_bytes_per_s


@dataclass(frozen=True, slots=True)
class Node:
    """One scale-up domain: accelerators, host memory, network adapters, drives. A rack such as NVL72 counts as one node."""

    spec: Spec

    @property
    def id(self) -> str:
        """The spec's id."""
        return self.spec.id

    @property
    def name(self) -> str:
        """Full name."""
        return self.spec.name

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator of which the node has `accelerators`."""
        return accelerator(str(self.spec.text["accelerator"]))

    @property
    def accelerators(self) -> int:
        """Number of accelerators."""
        return int(self.spec.need("accelerators"))

    @property
    def host_memory_bytes(self) -> int:
        """Host DRAM of the whole node [bytes]."""
        return int(self.spec.need("host_memory_bytes"))

    @property
    def host_bandwidth_bytes_per_s(self) -> float:
        """Host DRAM bandwidth of the whole node [bytes/s]."""
        return self.spec.need("host_bandwidth_bytes_per_s")

    @property
    def sockets(self) -> int:
        """Number of CPU sockets."""
        return int(self.spec.need("sockets"))

    @property
    def nics(self) -> int:
        """Number of network adapters that carry KV."""
        return int(self.spec.need("nics"))

    @property
    def drives(self) -> int:
        """Number of drives that hold KV."""
        return int(self.spec.need("drives"))

    def part(self, role: str) -> Spec:
        """The spec behind `nic`, `drive`, `drive_slot` or `lake`."""
        return spec(str(self.spec.text[role]), "device" if role == "drive" else "link")


@cache
def spec(spec_id: str, kind: str) -> Spec:
    """Return the hardware spec with this id and class (`accelerator`, `link`, `device`, `node`); refuses others, naming the nearest.

    Examples
    --------
    >>> spec("pcie5-x16", "link").name
    'PCIe 5.0 x16'
    """
    path = SPECS / "hardware" / f"{spec_id}.toml"
    field = "platform" if kind == "node" else kind
    if not SPEC_ID.fullmatch(spec_id) or not path.is_file():
        raise refuse(field, spec_id, f"an id of class {kind} (kvmodel hardware lists them)", spec_ids(kind))
    found = read_spec(path, "hardware")
    if found.kind != kind:
        raise refuse(field, spec_id, f"an id of class {kind}, not of class {found.kind} (kvmodel hardware lists them)", spec_ids(kind))
    return found


@cache
def spec_ids(kind: str | None = None) -> tuple[str, ...]:
    """Return the ids of all hardware specs, or of one class, sorted."""
    paths = sorted((SPECS / "hardware").glob("*.toml"))
    return tuple(p.stem for p in paths if kind is None or tomllib.loads(p.read_text(encoding="utf-8")).get("class") == kind)


def node(node_id: str) -> Node:
    """Return the node with this id.

    Parameters
    ----------
    node_id : such as `h100-8`; `node_ids()` lists them

    Raises
    ------
    KvError : unknown id, with the nearest known one; a spec that breaks its schema

    Examples
    --------
    >>> node("h100-8").accelerator.memory_bytes, node("h100-8").accelerators
    (80000000000, 8)
    """
    return Node(spec(node_id, "node"))


def accelerator(accelerator_id: str) -> Accelerator:
    """Return the accelerator with this id, such as `h100-sxm`."""
    return Accelerator(spec(accelerator_id, "accelerator"))


def link(link_id: str) -> Link:
    """Return the link with this id, such as `pcie5-x16`."""
    return Link(spec(link_id, "link"))


def device(device_id: str) -> Spec:
    """Return the device with this id, such as `micron-9650-pro`: a stack, module, drive or service with capacity, rates and endurance in `values`."""
    return spec(device_id, "device")


def node_ids() -> tuple[str, ...]:
    """Return the ids of all nodes, sorted."""
    return spec_ids("node")


def devices(tier: str | None = None) -> tuple[Spec, ...]:
    """Return all devices, or those of one tier, in the order of their ids."""
    return tuple(s for s in map(device, spec_ids("device")) if tier is None or s.text["tier"] == tier)
